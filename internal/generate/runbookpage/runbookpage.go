// Package runbookpage renders the catalogue as runbook pages, in Markdown and in
// HTML: one page for each pathology, which opens with what to see and to do and
// ends with the exact condition, and an index with a map of what explains what.
//
// Both forms are made of the same sections, so that they say the same. Graphs are
// Mermaid in Markdown, which GitHub and wikis draw; HTML pages need nothing but
// themselves, no scripts, no fonts, no images, and have lists of links in their place.
//
// It is pure: values in, files out. Package cli calls it; docs/pathologies is
// its output.
package runbookpage

import (
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

// A runbook is one page, before it takes a form.
type runbook struct {
	id, title string
	lead      string // one sentence
	facts     []fact
	sections  []section
}

// A fact is a name and its value, in Markdown.
type fact struct{ name, value string }

// A section is a heading with what stands below it.
type section struct {
	heading  string
	markdown string
	graph    *graph  // below the text, of Markdown alone; nil where there is none
	entries  []entry // folded away, below the graph
}

// An entry is folded: its title, a text, and code.
type entry struct {
	title, text string
	code        string // PromQL
}

// A linker returns the address of a pathology's page, from another page.
type linker func(id string) string

// book returns the pages of a catalogue, the index first.
func (c Config) book(link linker) ([]runbook, error) {
	titles := map[string]string{}
	var split []runbook
	for _, p := range c.Pathologies {
		title, sections := parse(p.Runbook)
		if title == "" {
			return nil, fmt.Errorf("runbook page of %s: the runbook has no title", p.ID)
		}
		titles[p.ID] = title
		split = append(split, runbook{id: p.ID, title: title, sections: sections})
	}
	out := []runbook{c.index(titles, link)}
	for i, p := range c.Pathologies {
		pg := split[i]
		pg.lead = render.Sentence(p.Title)
		pg.facts = c.facts(p)
		for j := range pg.sections {
			pg.sections[j].markdown = linked(pg.sections[j].markdown, p.ID, titles, link)
		}
		pg.sections = append(pg.sections, c.condition(p), c.related(p, titles, link), c.readings(p))
		if s, ok := c.alert(p); ok {
			pg.sections = append(pg.sections, s)
		}
		out = append(out, pg)
	}
	return out, nil
}

// facts are what the head of a page tells.
func (c Config) facts(p *catalog.Pathology) []fact {
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
	out := []fact{
		{"Alert", render.Code(p.Alert) + " fires " + after},
		{"Severity", severity},
		{"Diagnose", render.Code("sixty diagnose http://HOST:8000")},
	}
	if c.Dashboard != nil {
		if url := c.Dashboard(p); url != "" {
			out = append(out, fact{"Dashboard", "[open the panel](<" + strings.NewReplacer("<", "%3C", ">", "%3E", "\n", "").Replace(url) + ">)"})
		}
	}
	return out
}

// waiting says how long the alert of a grade waits, where that is its own.
func waiting(g catalog.Grade) string {
	if g.For == 0 {
		return ""
	}
	return " (told after " + span(g.For) + ")"
}

// condition says in words when a pathology holds, and where each number comes
// from.
func (c Config) condition(p *catalog.Pathology) section {
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
		b.WriteString("\nThe diagnosis is more certain where these hold as well:\n\n")
		c.words(&b, p.Supports, 0)
	}
	for _, g := range p.Grades {
		if g.While.Empty() {
			fmt.Fprintf(&b, "\nElse it is %s%s.\n", g.Severity, waiting(g))
			continue
		}
		fmt.Fprintf(&b, "\nIt is a %s%s while this holds too:\n\n", g.Severity, waiting(g))
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
	return section{heading: "Condition", markdown: b.String()}
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

// related draws what inhibits what.
func (c Config) related(p *catalog.Pathology, titles map[string]string, link linker) section {
	g := &graph{}
	self := g.add(p.ID, titles[p.ID], "")
	var causes, symptoms []string
	for _, q := range c.Pathologies {
		if q.Inhibits(p) {
			causes = append(causes, reference(q.ID, titles, link))
			g.connect(g.add(q.ID, titles[q.ID], link(q.ID)), self)
		}
	}
	for _, q := range p.Symptoms(c.Pathologies) {
		symptoms = append(symptoms, reference(q.ID, titles, link))
		g.connect(self, g.add(q.ID, titles[q.ID], link(q.ID)))
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
	if len(causes)+len(symptoms) == 0 {
		g = nil
	}
	return section{heading: "Causes and symptoms", markdown: text + "\n", graph: g}
}

// readings lists what the condition reads, with PromQL to paste.
func (c Config) readings(p *catalog.Pathology) section {
	var entries []entry
	var seen []*indicator.Signal
	for _, cond := range append([]catalog.Cond{p.When}, p.Supports...) {
		cond.Signals(func(s *indicator.Signal) {
			if !slices.Contains(seen, s) {
				seen = append(seen, s)
				entries = append(entries, entry{title: s.Title + " (" + s.Name + ", " + string(s.Unit) + ")", text: doc(s), code: c.promQL(s)})
			}
		})
	}
	return section{heading: "What it reads", markdown: "Each is defined once, and asked for with this PromQL.\n", entries: entries}
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

// alert shows the alert's rules.
func (c Config) alert(p *catalog.Pathology) (section, bool) {
	var entries []entry
	for _, g := range c.Rules {
		for _, r := range g.Rules {
			if r.Alert != p.Alert {
				continue
			}
			title := r.Alert
			if severity := r.Labels["severity"]; severity != "" {
				title += ", severity " + severity
			}
			entries = append(entries, entry{title: title, text: render.Escape(r.Annotations["thresholds"]), code: r.Expr})
		}
	}
	return section{heading: "Alert rule", markdown: "It reads what the recording rules of the same pack record.\n", entries: entries}, len(entries) > 0
}

// index is the page that leads to the others.
func (c Config) index(titles map[string]string, link linker) runbook {
	var b strings.Builder
	b.WriteString("| Pathology | Severity | Alert | For | In a sentence |\n|---|---|---|---|---|\n")
	for _, p := range c.Pathologies {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", reference(p.ID, titles, link), p.Severity, render.Code(p.Alert), span(p.For), render.Escape(p.Title))
	}
	return runbook{
		title: "Runbooks",
		lead:  "What can go wrong with an LLM inference server: how it shows, what to do, and how to tell that it worked.",
		sections: []section{
			{heading: "In an incident", markdown: "1. Let the numbers speak: " + render.Code("sixty diagnose http://HOST:8000") + " names the cause and links its page.\n" +
				"2. With an alert in hand, open the page of its name in the table below.\n" +
				"3. With neither, begin with the three latencies: the table in " + reference("saturation", titles, link) + " tells from TTFT, queue time and ITL where to look.\n"},
			{heading: "All pathologies", markdown: "Root causes come before symptoms; of two that are found, the earlier and more severe leads the verdict.\n\n" + b.String()},
			{heading: "What explains what", markdown: "An arrow leads from a cause to a symptom that it explains while both are found on one target. Arrows that a longer path implies are left out; each page lists its own in full.\n", graph: c.overview(titles, link)},
		},
	}
}

// overview is the graph of all inhibitions without those that longer paths imply.
func (c Config) overview(titles map[string]string, link linker) *graph {
	g := &graph{down: true} // causes above, symptoms below
	number := map[string]int{}
	for _, p := range c.Pathologies {
		number[p.ID] = g.add(p.ID, titles[p.ID], link(p.ID))
	}
	for _, p := range c.Pathologies {
		for _, q := range p.Symptoms(c.Pathologies) {
			g.connect(number[p.ID], number[q.ID])
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
