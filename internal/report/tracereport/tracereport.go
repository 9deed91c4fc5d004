// Package tracereport writes where the time of one request went. It fetches nothing.
package tracereport

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/trace"
)

// cells is how wide the picture of a row is.
const cells = 16

// Document reports a request's time: the answer, the timeline beside normal times, and the servers at that moment.
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
	d.Paragraph("", subject(r)).Most = 2
	d.Rank(2)
	rows, ranks := timeline(r)
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
	if s := state(r); s != "" {
		d.Item("Server", s).Most = 2
	}
	d.Rank(1)
	for _, n := range r.Notes {
		d.Item("Note", render.Sentence(n)).Most = 2
	}
	d.Rank(0)
	next(d, r)
	d.ShowIn(render.Details)
	if len(r.Rows) > 0 {
		d.Section("Normal values", "")
	}
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Normal != nil {
			d.List(fmt.Sprintf("%s, %s: %s (%s)", hop(row), row.Phase, render.Seconds(*row.Normal), row.From))
		}
	}
	return d
}

func subject(r *trace.Report) string {
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

func hop(row *trace.Row) string {
	if row.Instance != "" {
		return row.Hop + " " + row.Instance
	}
	return row.Hop
}

// timeline has a row for each hop and phase, in order of time. Rows of little weight leave a short screen first.
func timeline(r *trace.Report) (rows [][]string, ranks []int) {
	for i := range r.Rows {
		row := &r.Rows[i]
		normal := "unknown"
		if row.Normal != nil {
			normal = render.Seconds(*row.Normal)
		}
		rows = append(rows, []string{
			render.Cut(row.Hop, 22), string(row.Phase), render.Seconds(row.BeginS), render.Seconds(row.TookS), normal,
			bar(row, r.TookS),
		})
		rank := 1
		if row.TookS > r.TookS/100 {
			rank = 3
		}
		ranks = append(ranks, rank)
	}
	return rows, ranks
}

// bar is when a row was, of the whole time.
func bar(row *trace.Row, whole float64) string {
	if whole <= 0 {
		return ""
	}
	from := min(int(row.BeginS/whole*cells), cells-1)
	return strings.Repeat("·", from) + strings.Repeat("█", min(max(1, int(row.TookS/whole*cells+0.5)), cells-from))
}

func state(r *trace.Report) string {
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

// runbooks are what to read next where no verdict says it.
var runbooks = map[trace.Phase]string{
	trace.Queue: "saturation", trace.Prefill: "slow-prefill", trace.Decode: "slow-decode",
	trace.Transfer:      "kv-transfer-slow",
	trace.QueueTransfer: "kv-transfer-slow", trace.QueuePrefill: "saturation", trace.Routing: "router-queueing",
	trace.Forwarding: "slow-outside-engine", trace.Other: "slow-outside-engine",
}

func next(d *render.Document, r *trace.Report) {
	switch {
	case r.Verdict != nil && r.Verdict.Severity != "":
		d.Command("sixty explain " + r.Verdict.ID)
	case r.Blame != nil && (r.Slow == nil || *r.Slow):
		d.Command("sixty explain " + runbooks[r.Blame.Phase])
	}
}
