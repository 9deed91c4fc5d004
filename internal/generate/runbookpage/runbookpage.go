// Package runbookpage renders the catalogue as runbook pages in Markdown: one page for
// each pathology, which opens with what to see and to do and ends with the exact
// condition, and an index with a map of what explains what. Graphs are Mermaid, which
// GitHub and wikis draw.
//
// It is pure: values in, files out. Package cli calls it; docs/pathologies is
// its output.
package runbookpage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/render"
)

// Config says what the pages are about.
type Config struct {
	// Pathologies is the catalogue, in its order.
	Pathologies []*catalog.Pathology

	// Deployment says how signals are asked for. With none they are given in
	// vLLM's own names.
	Deployment *dialect.Deployment

	// Rules are the generated rules; a page shows those of its alert. Without
	// them it shows what the condition reads.
	Rules []rulefmt.RuleGroup

	// Dashboard returns the address of the panel to look at, or "". It may be
	// nil.
	Dashboard func(*catalog.Pathology) string

	// Limit returns the thresholds that are known already, as in
	// catalog.Compilation. It may be nil.
	Limit func(*catalog.Threshold) (limit float64, source string, ok bool)

	// Notice returns the comment at the top of a page of Markdown; it is asked
	// with nil for the index, and may be nil itself.
	Notice func(*catalog.Pathology) string
}

// Markdown returns the pages as README.md and ID.md, for a repository or a
// wiki: tables as GitHub has them, diagrams in Mermaid.
func Markdown(c Config) ([]generate.File, error) {
	titles, bodies := map[string]string{}, map[string]string{}
	for _, p := range c.Pathologies {
		first, body, _ := strings.Cut(strings.TrimSpace(p.Runbook), "\n")
		title, ok := strings.CutPrefix(first, "# ")
		if !ok {
			return nil, fmt.Errorf("runbook page of %s: the runbook does not begin with a title", p.ID)
		}
		titles[p.ID], bodies[p.ID] = strings.TrimSpace(title), body
	}
	notice := func(p *catalog.Pathology) string {
		if c.Notice != nil {
			return c.Notice(p)
		}
		return "Written by `sixty generate runbooks`. DO NOT EDIT."
	}
	out := []generate.File{{Path: "README.md", Content: c.index(notice(nil), titles)}}
	for _, p := range c.Pathologies {
		var pg page
		pg.printf("<!-- %s -->\n\n# %s\n\n%s\n\n", notice(p), titles[p.ID], render.Escape(render.Sentence(p.Title)))
		c.facts(&pg, p)
		pg.printf("\n%s\n", strings.TrimSpace(linked(bodies[p.ID], p.ID, titles)))
		c.condition(&pg, p)
		c.related(&pg, p, titles)
		c.readings(&pg, p)
		c.alert(&pg, p)
		out = append(out, generate.File{Path: p.ID + ".md", Content: []byte(pg.String())})
	}
	return out, nil
}

// facts writes what the head of a page tells.
func (c Config) facts(pg *page, p *catalog.Pathology) {
	grades := []string{p.Severity.String()}
	for _, g := range p.Grades {
		grades = append(grades, g.Severity.String())
	}
	severity := strings.Join(slices.Compact(grades), ", ")
	if all := p.Severities(); p.FollowsObjectives && p.Severity > catalog.Info {
		severity += "; " + all[len(all)-1].String() + " while objectives are set and all of them hold"
	}
	after := "at once"
	if p.For > 0 {
		after = "after " + span(p.For)
	}
	pg.printf("- **Alert:** %s fires %s\n", c.alertNames(p), after)
	pg.printf("- **Severity:** %s\n", severity)
	pg.printf("- **Diagnose:** %s\n", render.Code("sixty diagnose http://HOST:8000"))
	if c.Dashboard != nil {
		if url := c.Dashboard(p); url != "" {
			pg.printf("- **Dashboard:** [open the panel](<%s>)\n", strings.NewReplacer("<", "%3C", ">", "%3E", "\n", "").Replace(url))
		}
	}
}

// waiting says how long the alert of a grade waits, where that is its own.
func waiting(g catalog.Grade) string {
	if g.For == 0 {
		return ""
	}
	return " (alert after " + span(g.For) + ")"
}

// condition says in words when a pathology holds, and where each number comes
// from.
func (c Config) condition(pg *page, p *catalog.Pathology) {
	var b strings.Builder
	switch top := flat(p.When); {
	case top.All != nil:
		b.WriteString("It holds while all of these hold:\n\n")
		c.words(&b, top.All, 0)
	case top.Any != nil:
		b.WriteString("It holds while at least one of these holds:\n\n")
		c.words(&b, top.Any, 0)
	default:
		b.WriteString("It holds while\n\n")
		c.words(&b, []catalog.Cond{top}, 0)
	}
	if len(p.Supports) > 0 {
		b.WriteString("\nConfidence is higher if these hold as well:\n\n")
		c.words(&b, p.Supports, 0)
	}
	for _, g := range p.Grades {
		if g.While.Empty() {
			fmt.Fprintf(&b, "\nSeverity otherwise: %s%s.\n", g.Severity, waiting(g))
			continue
		}
		fmt.Fprintf(&b, "\nSeverity %s%s if this holds too:\n\n", g.Severity, waiting(g))
		c.words(&b, []catalog.Cond{g.While}, 0)
	}
	b.WriteString("\n| Threshold | Value | Why |\n|---|---|---|\n")
	var seen []*catalog.Threshold
	for _, cond := range p.Conditions() {
		cond.Leaves(func(leaf catalog.Cond) {
			if t := leaf.Threshold; !slices.Contains(seen, t) {
				seen = append(seen, t)
				fmt.Fprintf(&b, "| %s | %s | %s |\n", render.Code(t.Name), render.Escape(c.value(t)), render.Escape(t.Why))
			}
		})
	}
	if slices.ContainsFunc(seen, func(t *catalog.Threshold) bool { return t.Baseline != nil }) {
		b.WriteString("\nNormal is what the same signal was in this deployment's own past: the baseline.\n")
	}
	b.WriteString("\nSet a threshold with " + render.Code("sixty diagnose --set NAME=VALUE") + ". A reading or a threshold that is missing makes a comparison unknown, which is not healthy.\n")
	pg.section("Condition", b.String())
}

// flat returns a condition without an All right within an All, or an Any
// within an Any: what people would write.
func flat(c catalog.Cond) catalog.Cond {
	var out catalog.Cond
	for _, sub := range c.All {
		if sub = flat(sub); sub.All != nil {
			out.All = append(out.All, sub.All...)
		} else {
			out.All = append(out.All, sub)
		}
	}
	for _, sub := range c.Any {
		if sub = flat(sub); sub.Any != nil {
			out.Any = append(out.Any, sub.Any...)
		} else {
			out.Any = append(out.Any, sub)
		}
	}
	if c.Signal != nil {
		return c
	}
	return out
}

// words writes conditions as a nested list.
func (c Config) words(b *strings.Builder, conds []catalog.Cond, depth int) {
	indent := strings.Repeat("  ", depth) + "- "
	for _, cond := range conds {
		switch cond = flat(cond); {
		case cond.Signal != nil:
			than := "is above"
			if cond.Op == catalog.LessThan {
				than = "is below"
			}
			value := c.value(cond.Threshold)
			if cond.Promised {
				value = "what was promised: by an objective, or set by hand"
			}
			fmt.Fprintf(b, "%s**%s** %s %s (%s)\n", indent, render.Escape(cond.Signal.Title), than, render.Escape(value), render.Code(cond.Threshold.Name))
		case cond.Any != nil:
			b.WriteString(indent + "At least one of these holds:\n")
			c.words(b, cond.Any, depth+1)
		default:
			b.WriteString(indent + "All of these hold:\n")
			c.words(b, cond.All, depth+1)
		}
	}
}

// value says in words what a threshold resolves to, in the order in which it
// is resolved.
func (c Config) value(t *catalog.Threshold) string {
	if c.Limit != nil {
		if v, source, ok := c.Limit(t); ok {
			return indicator.FormatNumber(v, t.Unit) + " (" + source + ")"
		}
	}
	var parts []string
	switch {
	case t.BurnRate > 0:
		parts = append(parts, fmt.Sprintf("%g × the error budget of the objective %s", t.BurnRate, t.Objective))
	case t.Objective != "":
		parts = append(parts, "the objective "+string(t.Objective))
	}
	if r := t.Baseline; r != nil {
		text := generate.RelativeText(t, "normal")
		if r.History {
			text += ", of earlier samples"
		}
		parts = append(parts, text)
	}
	if t.Default == t.Default { // not catalog.None
		number := indicator.FormatNumber(t.Default, t.Unit)
		if t.Default > 0 && t.Default < 1e-6 {
			number = "0"
		}
		parts = append(parts, number)
	}
	return strings.Join(parts, "; without it ")
}

// related says and draws what inhibits what.
func (c Config) related(pg *page, p *catalog.Pathology, titles map[string]string) {
	g := graph{ids: []string{p.ID}}
	var causes, symptoms []string
	for _, q := range c.Pathologies {
		if q.Inhibits(p) {
			causes, g.ids = append(causes, reference(q.ID, titles)), append(g.ids, q.ID)
			g.connect(q.ID, p.ID)
		}
	}
	for _, q := range p.Symptoms(c.Pathologies) {
		symptoms, g.ids = append(symptoms, reference(q.ID, titles)), append(g.ids, q.ID)
		g.connect(p.ID, q.ID)
	}
	text := "Nothing in the catalogue explains it."
	if len(causes) > 0 {
		text = "While one of these is found on the same target, this is its symptom, and the alert is inhibited: " + strings.Join(causes, ", ") + "."
	}
	if len(symptoms) > 0 {
		text += "\n\nIt explains, and inhibits: " + strings.Join(symptoms, ", ") + "."
	} else {
		text += "\n\nIt explains nothing else."
	}
	pg.section("Causes and symptoms", text)
	if len(g.edges) > 0 {
		pg.WriteString(g.mermaid("LR", p.ID, titles))
	}
}

// readings lists what the condition reads, with PromQL to paste.
func (c Config) readings(pg *page, p *catalog.Pathology) {
	pg.section("What it reads", "The PromQL of each signal.")
	var seen []*indicator.Signal
	for _, cond := range append([]catalog.Cond{p.When}, p.Supports...) {
		cond.Signals(func(s *indicator.Signal) {
			if !slices.Contains(seen, s) {
				seen = append(seen, s)
				pg.entry(s.Title+" ("+s.Name+", "+string(s.Unit)+")", doc(s), c.promQL(s))
			}
		})
	}
}

func doc(s *indicator.Signal) string {
	text := render.Escape(s.Doc)
	if s.Hint != "" {
		text += " Where it is missing: " + render.Escape(s.Hint) + "."
	}
	return text
}

// promQL returns a signal's expression for the deployment, laid out to be read.
// What the deployment's dialects have no name for is given in its own.
func (c Config) promQL(s *indicator.Signal) string {
	expr := s.PromQL()
	if c.Deployment != nil {
		if theirs, err := c.Deployment.Unguarded(s); err == nil {
			expr = theirs
		}
	}
	tree, err := indicator.Parse(expr)
	if err != nil {
		return expr
	}
	return tree.Pretty(0)
}

// alert shows the alert's rules, where there are any.
func (c Config) alert(pg *page, p *catalog.Pathology) {
	heading := "Alert rule"
	for _, g := range c.Rules {
		for _, r := range g.Rules {
			if !slices.Contains(generate.AlertNames(c.deployment(), p), r.Alert) {
				continue
			}
			if heading != "" {
				pg.section(heading, "It reads the recording rules of the same pack.")
				heading = ""
			}
			title := r.Alert
			if severity := r.Labels["severity"]; severity != "" {
				title += ", severity " + severity
			}
			pg.entry(title, render.Escape(r.Annotations["thresholds"]), r.Expr)
		}
	}
}

// deployment is that whose pages are written: of vLLM where none is given.
func (c Config) deployment() *dialect.Deployment { return cmp.Or(c.Deployment, &dialect.Deployment{}) }

// alertNames are the names of a pathology's alerts.
func (c Config) alertNames(p *catalog.Pathology) string {
	var names []string
	for _, name := range generate.AlertNames(c.deployment(), p) {
		names = append(names, render.Code(name))
	}
	return strings.Join(names, ", ")
}

// index is the page that leads to the others.
func (c Config) index(notice string, titles map[string]string) []byte {
	var rows strings.Builder
	for _, p := range c.Pathologies {
		fmt.Fprintf(&rows, "| %s | %s | %s | %s | %s |\n",
			reference(p.ID, titles), p.Severity, c.alertNames(p), span(p.For), render.Escape(p.Title))
	}
	var pg page
	pg.printf("<!-- %s -->\n\n# Runbooks\n\n", notice)
	pg.WriteString("What can go wrong with an LLM inference server: symptoms, remedies, and how to confirm that they worked.\n")
	pg.section("In an incident", "1. "+render.Code("sixty diagnose http://HOST:8000")+" names the cause and links its runbook.\n"+
		"2. If you have an alert, open its runbook in the table below.\n"+
		"3. Otherwise compare TTFT, queue time and ITL: the table in "+reference("saturation", titles)+" shows where to look.")
	pg.section("All pathologies", "Root causes come before symptoms; of two that are found, the earlier and more severe leads the verdict.\n\n"+
		"| Pathology | Severity | Alert | For | In a sentence |\n|---|---|---|---|---|\n"+rows.String())
	pg.section("What explains what", "An arrow leads from a cause to a symptom that it explains while both are found on one target. "+
		"Arrows that a longer path implies are left out; each page lists its own in full.")
	pg.WriteString(c.overview().mermaid("TB", "", titles)) // causes above, symptoms below
	return []byte(pg.String())
}

// overview is the graph of all inhibitions without those that longer paths imply.
func (c Config) overview() *graph {
	g := &graph{}
	for _, p := range c.Pathologies {
		g.ids = append(g.ids, p.ID)
		for _, q := range p.Symptoms(c.Pathologies) {
			g.connect(p.ID, q.ID)
		}
	}
	g.reduce()
	return g
}

// span writes a duration as people do: "2 min".
func span(d time.Duration) string {
	switch {
	case d == 0:
		return "0\u00a0s"
	case d%time.Hour == 0:
		return fmt.Sprintf("%d\u00a0h", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%d\u00a0min", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("%d\u00a0s", d/time.Second)
	}
	return model.Duration(d).String()
}
