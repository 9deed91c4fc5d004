// Package mcp serves assistants over the Model Context Protocol, with five tools: diagnose, signal (a signal over
// time), explain (a runbook), simulate (a change), and incidents. All tools are read-only. Their answers are bounded,
// and contain neither prompts nor secrets.
package mcp

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report"
)

// Bounds of an answer.
const (
	maxText   = 24_000 // characters of one answer
	maxPoints = 60     // points of a signal
)

// Options configure the tools.
type Options struct {
	Source *source.Source
	// Diagnose makes a diagnosis of a time; zero stands for the latest one.
	Diagnose func(ctx context.Context, at time.Time, window time.Duration) (diagnose.Diagnosis, error)
	// Explained lists the pathologies for the tool explain.
	Explained []*catalog.Pathology
	// Incidents, which may be nil, returns the stored incidents, the latest first.
	Incidents func() []view.Summary
	// Simulate simulates a change of a model's servers.
	Simulate func(context.Context, view.WhatIf) (view.WhatIfAnswer, error)
	// Within bounds the time of one answer; 0 stands for 55 s: assistants wait for a minute.
	Within time.Duration
}

const instructions = `sixty watches LLM inference servers, vLLM first. Call "diagnose" first: it names the cause, the
evidence and the fix. "signal" shows one signal over time and its normal value, "explain" the
runbook of a failure mode, "simulate" the effect of a change, with intervals. All tools are read-only.
The verdict Unknown means not enough data, and Not certain yet that somebody waits or a fault is suspected: ask again
after a few scrapes. Neither means healthy.`

// Server returns the server of these tools.
func Server(o Options) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "sixty", Title: "sixty", Version: version.Get().Version},
		&mcp.ServerOptions{Instructions: instructions})
	t := tools{o}
	addTool(s, o.Within, "diagnose",
		"What is wrong with the inference servers now or at a given time, why, and what to change, with evidence and "+
			"predicted effects.", t.diagnose)
	addTool(s, o.Within, "signal",
		"One signal of the servers over time, with its normal value, such as ttft_p95, itl_p95, requests_waiting, "+
			"kv_cache_usage, preemptions. Without a name: the list of signals.", t.signal)
	addTool(s, o.Within, "explain",
		"The runbook of a failure mode: how to confirm it, what to do, and the trade-offs. Without an id: the list of "+
			"failure modes.", t.explain)
	addTool(s, o.Within, "simulate",
		"The effect of a change on a model's servers: replicas, load, prompt and output lengths, vLLM flags. "+
			"Results have intervals.", t.simulate)
	if o.Incidents != nil {
		addTool(s, o.Within, "incidents",
			"The stored incidents, the latest first: what, in which phase, since when, where, how it came about, "+
				"what to do, and notes.", t.incidents)
	}
	return s
}

// Handler serves the tools over HTTP, with the protocol's streamable transport.
func Handler(o Options) http.Handler {
	s := Server(o)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Stateless: true})
}

// Stdio serves the tools over standard input and output until the input ends.
func Stdio(ctx context.Context, o Options) error { return Server(o).Run(ctx, &mcp.StdioTransport{}) }

// addTool adds a read-only tool. It bounds the answer, and adds the hint of an error.
func addTool[In any](s *mcp.Server, within time.Duration, name, what string, run func(context.Context, In) (string,
	error)) {
	no := false
	mcp.AddTool(s, &mcp.Tool{Name: name, Description: what, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true,
		OpenWorldHint: &no}},
		func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
			ctx, cancel := context.WithTimeout(ctx, cmp.Or(within, 55*time.Second))
			defer cancel()
			text, err := run(ctx, in)
			if err != nil {
				if h := hint.Of(err); h != "" {
					err = fmt.Errorf("%w (try: %s)", err, h)
				}
				return nil, nil, err
			}
			if r := []rune(text); len(r) > maxText {
				text = string(r[:maxText]) + "\n… truncated: ask for less"
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
		})
}

type tools struct{ o Options }

// moment is the time of a question.
type moment struct {
	At string `json:"at,omitempty" jsonschema:"the time: RFC 3339, or -10m from the end of the data; the latest by default"`
}

func (t tools) parseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	span := t.o.Source.Span()
	if t.o.Source.Live == nil && span.First.IsZero() {
		span.Last = time.Now()
	}
	return span.Moment("at", text)
}

type diagnoseIn struct {
	moment
	Window string `json:"window,omitempty" jsonschema:"the time to judge before that time, such as 2m; chosen by the diagnosis by default"`
	Full   bool   `json:"full,omitempty" jsonschema:"every comparison, every check, every fix"`
}

func (t tools) diagnose(ctx context.Context, in diagnoseIn) (string, error) {
	at, err := t.parseTime(in.At)
	if err != nil {
		return "", err
	}
	var window time.Duration
	if in.Window != "" {
		if window, err = parseDuration("window", in.Window); err != nil {
			return "", err
		}
	}
	d, err := t.o.Diagnose(ctx, at, window)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = report.Plain(&b, d, report.Options{Full: in.Full})
	return b.String(), err
}

// maxDuration bounds the time that a question spans.
const maxDuration = 31 * 24 * time.Hour

// parseDuration reads a duration. name names the argument in errors.
func parseDuration(name, text string) (time.Duration, error) {
	d, err := source.ParseDuration(text)
	if err != nil || d <= 0 || d > maxDuration {
		return 0, hint.With(fmt.Errorf("%s: %q is not a duration of up to %s", name, text, render.Span(maxDuration)),
			"write it as 90s, 30m or 6h")
	}
	return d, nil
}

type signalIn struct {
	Name  string `json:"name,omitempty" jsonschema:"the signal's name; without it: the list of signals"`
	Model string `json:"model,omitempty" jsonschema:"only the servers of this model"`
	Over  string `json:"over,omitempty" jsonschema:"the time range, such as 6h; 30m by default"`
	moment
}

func (t tools) signal(ctx context.Context, in signalIn) (string, error) {
	if in.Name == "" {
		var b strings.Builder
		for _, s := range indicator.All() {
			fmt.Fprintf(&b, "%s: %s (%s)\n", s.Name, s.Title, s.Unit)
		}
		return b.String(), nil
	}
	var names []string
	for _, s := range indicator.All() {
		names = append(names, s.Name)
	}
	i := slices.Index(names, in.Name)
	if i < 0 {
		return "", hint.With(fmt.Errorf("unknown signal %q", in.Name), hint.DidYouMean(in.Name, names))
	}
	at, err := t.parseTime(in.At)
	if err != nil {
		return "", err
	}
	over := 30 * time.Minute
	if in.Over != "" {
		if over, err = parseDuration("over", in.Over); err != nil {
			return "", err
		}
	}
	d, err := t.o.Diagnose(ctx, at, 0)
	if err != nil {
		return "", err
	}
	targets, err := targetsOf(&d, in.Model)
	if err != nil {
		return "", err
	}
	s := indicator.All()[i]
	span := period.Period{From: d.At.Add(-over), To: d.At}
	if first := t.o.Source.Span().First; span.From.Before(first) {
		span.From = first
	}
	plots, err := d.PlotSpan(ctx, t.o.Source, []*indicator.Signal{s}, targets, span)
	if err != nil {
		return "", err
	}
	var p diagnose.Plot
	if len(plots) > 0 {
		p = plots[0]
	}
	return formatSignal(s, span, p), nil
}

// formatSignal writes the points of a signal for each target, maxPoints at most.
func formatSignal(s *indicator.Signal, span period.Period, p diagnose.Plot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s) from %s to %s, each value over the %s before it. %s\n\n", s.Title, s.Unit,
		source.FormatTime(span.From), source.FormatTime(span.To), p.Over, s.Doc)
	if p.Normal.OK {
		fmt.Fprintf(&b, "Normal: %s. ", indicator.Format(p.Normal, s.Unit))
	}
	if p.Now.OK {
		fmt.Fprintf(&b, "In the judged window: %s.\n", indicator.Format(p.Now, s.Unit))
	}
	for _, l := range p.Lines {
		fmt.Fprintf(&b, "\n%s\n", l.Target)
		step := max(1, (len(l.At)+maxPoints-1)/maxPoints)
		for k := (len(l.At) - 1) % step; k < len(l.At) && k >= 0; k += step {
			value := "unknown"
			if !math.IsNaN(l.Value[k]) {
				value = s.Point(l.Value[k])
			}
			fmt.Fprintf(&b, "%s %s\n", l.At[k].UTC().Format(time.RFC3339), value)
		}
	}
	if len(p.Lines) == 0 {
		b.WriteString("No data in this time.\n")
	}
	return b.String()
}

// targetsOf returns the servers of a model, found by source.OfModel; "" stands for those of the leading verdict.
func targetsOf(d *diagnose.Diagnosis, name string) (out []string, err error) {
	if name == "" {
		return d.Verdict.Targets, nil
	}
	found, err := source.OfModel(d.Targets, name)
	for i := range found {
		out = append(out, found[i].Name)
	}
	return out, err
}

type explainIn struct {
	ID string `json:"id,omitempty" jsonschema:"the failure mode's id, such as kv-cache-thrashing; without it: the list of failure modes"`
}

func (t tools) explain(_ context.Context, in explainIn) (string, error) {
	var b strings.Builder
	var ids []string
	for _, p := range t.o.Explained {
		if p.ID == in.ID {
			return p.Runbook, nil
		}
		ids = append(ids, p.ID)
		fmt.Fprintf(&b, "%s (%s): %s\n", p.ID, p.Severity, p.Title)
	}
	if in.ID != "" {
		return "", hint.With(fmt.Errorf("unknown failure mode %q", in.ID), hint.DidYouMean(in.ID, ids))
	}
	return b.String(), nil
}

type simulateIn struct {
	Model string `json:"model,omitempty" jsonschema:"the model, if several are served"`
	view.Change
}

func (t tools) simulate(ctx context.Context, in simulateIn) (string, error) {
	a, err := t.o.Simulate(ctx, view.WhatIf{Model: in.Model, Change: in.Change})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| quantity | now (simulated) | with the change |\n|---|---|---|\n")
	for _, q := range []struct {
		name, title string
		unit        indicator.Unit
	}{
		{"ttft_p50", "TTFT P50", indicator.Seconds},
		{"ttft_p95", "TTFT P95", indicator.Seconds},
		{"itl_p95", "ITL P95", indicator.Seconds},
		{"e2e_mean", "E2E mean", indicator.Seconds},
		{"output_tokens_rate", "output tokens/s", ""},
		{"requests_rate", "requests/s", ""},
		{"kv_cache_usage", "KV cache usage", indicator.Ratio},
		{"preemptions_rate", "preemptions/s", ""},
	} {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", q.title, estimated(a.Present, q.name, q.unit),
			estimated(a.Changed, q.name, q.unit))
	}
	fmt.Fprintf(&b, "\nBasis: %s.\n", a.Basis)
	for _, w := range a.Warnings {
		fmt.Fprintf(&b, "Warning: %s\n", w)
	}
	fmt.Fprintf(&b, "The same as a command: %s\n", a.Command)
	return b.String(), nil
}

func estimated(of map[string]catalog.Estimate, name string, u indicator.Unit) string {
	e, known := of[name]
	if !known {
		return "unknown"
	}
	number := func(v float64) string { return indicator.FormatNumber(v, u) }
	return render.WithInterval(number(e.Value), number(e.Low), number(e.High))
}

// maxIncidents bounds the incidents of one answer.
const maxIncidents = 100

type incidentsIn struct {
	Limit int `json:"limit,omitempty" jsonschema:"at most this many; 10 by default"`
}

func (t tools) incidents(_ context.Context, in incidentsIn) (string, error) {
	list := t.o.Incidents()
	limit := in.Limit
	if limit == 0 {
		limit = 10
	}
	if limit < 0 || limit > maxIncidents {
		return "", fmt.Errorf("limit: %d is not a number from 1 to %d", limit, maxIncidents)
	}
	var b strings.Builder
	for _, s := range list[:min(limit, len(list))] {
		where := strings.Join(s.Targets, ", ")
		if scope := s.Scope(); scope != "" {
			where = scope + ": " + strings.Join(s.Affected, ", ")
		}
		since := s.SinceOf(s.Pathology).UTC().Format(time.RFC3339)
		fmt.Fprintf(&b, "%s (%s), %s, since %s, on %s: %s\n", s.Pathology, s.Severity, s.PhaseText(), since, where,
			s.Summary)
		if s.Story != "" {
			fmt.Fprintf(&b, "  how: %s\n", s.Story)
		}
		if s.Impact != nil {
			fmt.Fprintf(&b, "  impact: %s\n", s.Impact.Text)
		}
		if a := s.Advice; a != nil && s.Ended == nil {
			for i, head := range catalog.Heads(a.Fixes) {
				fmt.Fprintf(&b, "  %s: %s\n", strings.ToLower(head), a.Fixes[i].Summary)
			}
		}
		for _, n := range s.Notes {
			fmt.Fprintf(&b, "  note of %s: %s\n", n.By, n.Text)
		}
	}
	if b.Len() == 0 {
		return "No incidents.\n", nil
	}
	return b.String(), nil
}
