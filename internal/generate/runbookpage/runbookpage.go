// Package runbookpage renders the catalogue as runbook pages in Markdown: one page for each pathology, and an index.
// A page begins with facts (alert, severity, commands) and the pathology's runbook, and ends with the exact condition,
// causes and symptoms, and the signals. It has no PromQL: the alert rules do.
//
// It is pure: values in, files out. Package cli calls it; docs/pathologies is its output.
package runbookpage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/render"
)

// Config selects the contents of the pages.
type Config struct {
	// Pathologies is the catalogue in order.
	Pathologies []*catalog.Pathology

	// Deployment holds the dialects of the servers, after which alerts are named; nil for vLLM.
	Deployment *dialect.Deployment

	// Dashboard returns the address of a pathology's panel, or "". It may be nil.
	Dashboard func(*catalog.Pathology) string

	// Limit returns the thresholds that are known in advance, as in catalog.Compilation. It may be nil.
	Limit func(*catalog.Threshold) (limit float64, source string, ok bool)

	// Notice returns the comment at the top of a page; its argument is nil for the index. It may be nil.
	Notice func(*catalog.Pathology) string
}

// Markdown returns the pages as README.md and ID.md, for a repository or a wiki.
func Markdown(c Config) ([]generate.File, error) {
	titles, bodies := map[string]string{}, map[string]string{}
	for _, p := range c.Pathologies {
		runbook := generate.FillRunbook(p,
			func(t *catalog.Threshold) string { return render.Escape(c.describeThreshold(t)) })
		first, body, _ := strings.Cut(strings.TrimSpace(runbook), "\n")
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
	out := []generate.File{{Path: "README.md", Content: c.renderIndex(notice(nil), titles)}}
	for _, p := range c.Pathologies {
		var pg page
		pg.printf("<!-- %s -->\n\n# %s\n\n%s\n\n", notice(p), titles[p.ID], render.Escape(render.Sentence(p.Title)))
		c.writeFacts(&pg, p, bodies[p.ID])
		pg.printf("\n%s\n", strings.TrimSpace(linkPathologies(bodies[p.ID], p.ID, titles)))
		c.writeCondition(&pg, p)
		c.writeRelated(&pg, p, titles)
		writeReadings(&pg, p)
		out = append(out, generate.File{Path: p.ID + ".md", Content: []byte(pg.String())})
	}
	return out, nil
}

// writeFacts writes the list at the head of a page.
func (c Config) writeFacts(pg *page, p *catalog.Pathology, runbook string) {
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
		after = "after " + formatSpan(p.For)
	}
	pg.printf("- **Alert:** %s fires %s\n", c.alertNames(p), after)
	pg.printf("- **Severity:** %s\n", severity)
	const diagnose = "sixty diagnose http://$HOST:8000"
	pg.printf("- **Before the commands below:** %s\n",
		render.Code("export "+strings.Join(listVariables(diagnose+runbook), "=… ")+"=…"))
	pg.printf("- **Diagnose:** %s\n", render.Code(diagnose))
	if strings.Contains(runbook, capAtGateway) {
		pg.printf("- **How to cap requests:** <%s>\n", capRequests)
	}
	if c.Dashboard != nil {
		if url := c.Dashboard(p); url != "" {
			pg.printf("- **Dashboard:** [open the panel](<%s>)\n",
				strings.NewReplacer("<", "%3C", ">", "%3E", "\n", "").Replace(url))
		}
	}
}

// describeWait describes how long the alert of a grade waits; "" if as long as the pathology's.
func describeWait(g catalog.Grade) string {
	if g.For == 0 {
		return ""
	}
	return " (alert after " + formatSpan(g.For) + ")"
}

// writeCondition describes when a pathology holds, and the source of each threshold.
func (c Config) writeCondition(pg *page, p *catalog.Pathology) {
	var b strings.Builder
	switch top := flatten(p.When); {
	case top.All != nil:
		b.WriteString("It holds while all of these hold:\n\n")
		c.writeConditions(&b, top.All, 0)
	case top.Any != nil:
		b.WriteString("It holds while at least one of these holds:\n\n")
		c.writeConditions(&b, top.Any, 0)
	default:
		b.WriteString("It holds while\n\n")
		c.writeConditions(&b, []catalog.Cond{top}, 0)
	}
	if len(p.Supports) > 0 {
		b.WriteString("\nConfidence is higher if these hold as well:\n\n")
		c.writeConditions(&b, p.Supports, 0)
	}
	for _, g := range p.Grades {
		if g.While.Empty() {
			fmt.Fprintf(&b, "\nSeverity otherwise: %s%s.\n", g.Severity, describeWait(g))
			continue
		}
		fmt.Fprintf(&b, "\nSeverity %s%s if this holds too:\n\n", g.Severity, describeWait(g))
		c.writeConditions(&b, []catalog.Cond{g.While}, 0)
	}
	b.WriteString("\n| Threshold | Value | Why |\n|---|---|---|\n")
	var seen []*catalog.Threshold
	for _, cond := range p.Conditions() {
		cond.Leaves(func(leaf catalog.Cond) {
			if t := leaf.Threshold; !slices.Contains(seen, t) {
				seen = append(seen, t)
				fmt.Fprintf(&b, "| %s | %s | %s |\n", render.Code(t.Name), render.Escape(c.describeThreshold(t)),
					render.Escape(t.Why))
			}
		})
	}
	if slices.ContainsFunc(seen, func(t *catalog.Threshold) bool { return t.Baseline != nil }) {
		b.WriteString("\nNormal is what the same signal was in this deployment's own past: the baseline.\n")
	}
	b.WriteString("\nSet a threshold with " + render.Code("sixty diagnose --set NAME=VALUE") +
		". A reading or a threshold that is missing makes a comparison unknown, which is not healthy.\n")
	pg.writeSection("Condition", b.String())
}

// flatten merges an All directly within an All, and an Any within an Any.
func flatten(c catalog.Cond) catalog.Cond {
	var out catalog.Cond
	for _, sub := range c.All {
		if sub = flatten(sub); sub.All != nil {
			out.All = append(out.All, sub.All...)
		} else {
			out.All = append(out.All, sub)
		}
	}
	for _, sub := range c.Any {
		if sub = flatten(sub); sub.Any != nil {
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

// writeConditions writes conditions as a nested list.
func (c Config) writeConditions(b *strings.Builder, conds []catalog.Cond, depth int) {
	indent := strings.Repeat("  ", depth) + "- "
	for _, cond := range conds {
		switch cond = flatten(cond); {
		case cond.Signal != nil:
			than := "is above"
			if cond.Op == catalog.LessThan {
				than = "is below"
			}
			value := c.describeThreshold(cond.Threshold)
			if cond.Promised {
				value = "what was promised: by an objective, or set by hand"
			}
			fmt.Fprintf(b, "%s**%s** %s %s (%s)\n", indent, render.Escape(cond.Signal.Title), than,
				render.Escape(value), render.Code(cond.Threshold.Name))
		case cond.Any != nil:
			b.WriteString(indent + "At least one of these holds:\n")
			c.writeConditions(b, cond.Any, depth+1)
		default:
			b.WriteString(indent + "All of these hold:\n")
			c.writeConditions(b, cond.All, depth+1)
		}
	}
}

// describeThreshold describes a threshold's value, or its sources if the value is not known in advance.
func (c Config) describeThreshold(t *catalog.Threshold) string {
	if c.Limit != nil {
		if v, source, ok := c.Limit(t); ok {
			return indicator.FormatNumber(v, t.Unit) + " (" + source + ")"
		}
	}
	return generate.DescribeThreshold(t)
}

// writeRelated lists the causes and symptoms.
func (c Config) writeRelated(pg *page, p *catalog.Pathology, titles map[string]string) {
	var causes, symptoms []string
	for _, q := range c.Pathologies {
		if q.Inhibits(p) {
			causes = append(causes, linkTo(q.ID, titles))
		}
	}
	for _, q := range p.Symptoms(c.Pathologies) {
		symptoms = append(symptoms, linkTo(q.ID, titles))
	}
	text := "Nothing in the catalogue explains it."
	if len(causes) > 0 {
		text = "A symptom of these, if one of them is found on the same target; the alert is then inhibited: " +
			strings.Join(causes, ", ") + "."
	}
	if len(symptoms) > 0 {
		text += "\n\nIt explains, and inhibits: " + strings.Join(symptoms, ", ") + "."
	} else {
		text += "\n\nIt explains nothing else."
	}
	pg.writeSection("Causes and symptoms", text)
}

// writeReadings lists the signals of the condition.
func writeReadings(pg *page, p *catalog.Pathology) {
	var rows strings.Builder
	rows.WriteString("| Signal | Name | Unit | Meaning |\n|---|---|---|---|\n")
	var seen []*indicator.Signal
	for _, cond := range append([]catalog.Cond{p.When}, p.Supports...) {
		cond.Signals(func(s *indicator.Signal) {
			if !slices.Contains(seen, s) {
				seen = append(seen, s)
				fmt.Fprintf(&rows, "| %s | %s | %s | %s |\n", render.Escape(s.Title), render.Code(s.Name), s.Unit,
					describeSignal(s))
			}
		})
	}
	pg.writeSection("What it reads", rows.String())
}

func describeSignal(s *indicator.Signal) string {
	text := render.Escape(s.Doc)
	if s.Hint != "" {
		text += " Where it is missing: " + render.Escape(s.Hint) + "."
	}
	return text
}

// deployment returns the deployment, by default one of vLLM.
func (c Config) deployment() *dialect.Deployment { return cmp.Or(c.Deployment, &dialect.Deployment{}) }

func (c Config) alertNames(p *catalog.Pathology) string {
	var names []string
	for _, name := range generate.AlertNames(c.deployment(), p) {
		names = append(names, render.Code(name))
	}
	return strings.Join(names, ", ")
}

// renderIndex returns the index of all pages.
func (c Config) renderIndex(notice string, titles map[string]string) []byte {
	var rows strings.Builder
	for _, p := range c.Pathologies {
		fmt.Fprintf(&rows, "| %s | %s | %s | %s | %s |\n",
			linkTo(p.ID, titles), p.Severity, c.alertNames(p), formatSpan(p.For), render.Escape(p.Title))
	}
	var pg page
	pg.printf("<!-- %s -->\n\n# Runbooks\n\n", notice)
	pg.WriteString("What can go wrong with an LLM inference server: symptoms, remedies, and how to confirm that " +
		"they worked.\n")
	pg.writeSection("In an incident", "1. "+render.Code("sixty diagnose http://localhost:8000")+
		" names the cause and links its runbook.\n"+
		"2. If you have an alert, open its runbook in the table below.\n"+
		"3. Otherwise compare TTFT, queue time and ITL: the table in "+linkTo("saturation", titles)+
		" shows where to look.\n\n"+
		"Run queries in Prometheus or Grafana, or at "+render.Code("sixty serve")+":\n\n"+
		"```sh\ncurl -sG http://localhost:6060/api/v1/query --data-urlencode 'query=vllm:num_requests_waiting'\n```")
	pg.writeSection("All pathologies", "Root causes come before symptoms; of two that are found, the earlier and "+
		"more severe leads the verdict.\n\n"+
		"| Pathology | Severity | Alert | For | In a sentence |\n|---|---|---|---|---|\n"+rows.String())
	return []byte(pg.String())
}

// formatSpan writes a duration for people: "2 min".
func formatSpan(d time.Duration) string {
	return indicator.FormatNumber(d.Seconds(), indicator.Seconds)
}
