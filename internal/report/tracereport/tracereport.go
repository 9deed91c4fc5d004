// Package tracereport renders where the time of one request went: a trace.Report as a document. It fetches and judges
// nothing.
package tracereport

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/trace"
)

// barCells is the width of a bar in the timeline, in columns of a terminal.
const barCells = 16

// Document returns the answer, the timeline with normal times, and the state of the servers at that time.
func Document(r *trace.Report) *render.Document {
	d := render.NewDocument("Request " + r.ID)
	d.More = "all steps and the source of each normal value"
	style, head := render.Bold, "request"
	switch {
	case r.Slow != nil && *r.Slow:
		style, head = render.Bad, "slow"
	case r.Slow != nil:
		style, head = render.Good, "not slow"
	}
	if r.Failed {
		style, head = render.Bad, "failed, "+head
	}
	d.Answer(style, head, r.Summary).Most = 3
	d.Paragraph("", identify(r)).Most = 2
	d.Rank(2)
	rows, ranks := timelineRows(r)
	columns := render.Columns("hop", "at", "took", "normal", "")
	columns = append(columns[:1:1], append([]render.Column{{Title: "phase", Left: true}}, columns[1:]...)...)
	columns[len(columns)-1].Left = true
	d.Table(columns, rows).Ranks = ranks
	d.Rank(0)
	if v := r.Verdict; v != nil {
		text := v.Summary
		if v.Severity != "" {
			text = v.ID + " (" + v.Severity + "): " + text
		}
		d.Item("At "+r.At.Format("15:04:05"), render.Sentence(text)).Most = 2
	}
	if s := describeServers(r); s != "" {
		d.Item("Server", s).Most = 2
	}
	d.Rank(1)
	for _, n := range r.Notes {
		d.Item("Note", render.Sentence(n)).Most = 2
	}
	d.Rank(0)
	addNextCommand(d, r)
	d.ShowIn(render.Details)
	if len(r.Rows) > 0 {
		d.Section("Normal values", "")
	}
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Normal != nil {
			d.List(fmt.Sprintf("%s, %s: %s (%s)", nameHop(row), row.Phase, render.Seconds(*row.Normal), row.From))
		}
	}
	return d
}

// identify returns the ids, the model, the tokens and the time of the request.
func identify(r *trace.Report) string {
	parts := []string{"trace " + r.ID}
	if r.Request != "" {
		parts = append(parts, "request "+r.Request)
	}
	if r.Model != "" {
		parts = append(parts, "model "+r.Model)
	}
	if r.OutputTokens > 0 {
		parts = append(parts, fmt.Sprintf("%d prompt and %d output tokens", r.PromptTokens, r.OutputTokens))
	}
	return strings.Join(append(parts, "began "+r.Began.Format("2006-01-02 15:04:05 UTC")), " · ")
}

func nameHop(row *trace.Row) string {
	if row.Instance != "" {
		return row.Hop + " " + row.Instance
	}
	return row.Hop
}

// timelineRows returns a row for each hop and phase, in order of time, and their ranks. Rows below a hundredth of the
// time leave a short screen first.
func timelineRows(r *trace.Report) (rows [][]string, ranks []int) {
	for i := range r.Rows {
		row := &r.Rows[i]
		normal := "unknown"
		if row.Normal != nil {
			normal = render.Seconds(*row.Normal)
		}
		rows = append(rows, []string{
			render.Cut(row.Hop, 22), string(row.Phase), render.Seconds(row.BeginS), render.Seconds(row.TookS), normal,
			drawBar(row, r.TookS),
		})
		rank := 1
		if row.TookS > r.TookS/100 {
			rank = 3
		}
		ranks = append(ranks, rank)
	}
	return rows, ranks
}

// drawBar draws the part of the whole time, in seconds, that a row takes.
func drawBar(row *trace.Row, whole float64) string {
	if whole <= 0 {
		return ""
	}
	from := min(int(row.BeginS/whole*barCells), barCells-1)
	length := min(max(1, int(row.TookS/whole*barCells+0.5)), barCells-from)
	return strings.Repeat("·", from) + strings.Repeat("█", length)
}

// describeServers returns the quantities of the servers, each server's name once.
func describeServers(r *trace.Report) string {
	var parts []string
	name := ""
	for _, q := range r.State {
		text := q.Title + " " + cmp.Or(q.NowText, indicator.FormatNumber(*q.Now, indicator.Unit(q.Unit)))
		if q.Normal != nil {
			text += " (normal " + cmp.Or(q.NormalText, indicator.FormatNumber(*q.Normal, indicator.Unit(q.Unit))) + ")"
		}
		if q.Target != name {
			text, name = q.Target+": "+text, q.Target
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// runbooks holds the runbook for each phase, for requests without a verdict on the servers.
var runbooks = map[trace.Phase]string{
	trace.Queue: "saturation", trace.Prefill: "slow-prefill", trace.Decode: "slow-decode",
	trace.Transfer:      "kv-transfer-slow",
	trace.QueueTransfer: "kv-transfer-slow", trace.QueuePrefill: "saturation", trace.Routing: "router-queueing",
	trace.Forwarding: "slow-outside-engine", trace.Other: "slow-outside-engine",
}

// addNextCommand adds the command that shows the runbook of the verdict or, for a slow request, of the slowest phase.
func addNextCommand(d *render.Document, r *trace.Report) {
	switch {
	case r.Verdict != nil && r.Verdict.Severity != "":
		d.Command("sixty explain " + r.Verdict.ID)
	case r.Blame != nil && (r.Slow == nil || *r.Slow):
		d.Command("sixty explain " + runbooks[r.Blame.Phase])
	}
}
