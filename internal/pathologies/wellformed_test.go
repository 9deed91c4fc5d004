package pathologies_test

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

var (
	kebabCase = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	alertName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// wellFormed reports everything that is wrong with a catalogue, or nil: ids and
// alerts that repeat or are not well formed, missing titles, malformed
// conditions, PromQL that does not parse, thresholds without a reason or with
// another's name, runbooks without their sections, and inhibitions that point
// nowhere or in a circle. The errors are joined, in the order of the catalogue.
func wellFormed(ps []*catalog.Pathology) error {
	v := validation{ids: map[string]*catalog.Pathology{}, alerts: map[string]string{}, thresholds: map[string]*catalog.Threshold{}, reported: map[*catalog.Threshold]bool{}}
	for _, p := range ps {
		v.names(p)
	}
	for _, p := range ps {
		v.cond(p.ID, "When", p.When)
		for i, g := range p.Grades {
			switch last := i == len(p.Grades)-1; {
			case g.While.Empty() != last:
				v.problem(p.ID, "Grades[%d]: the last grade has no condition, and no other", i)
			case i == 0 && g.Severity != p.Severity, i > 0 && g.Severity >= p.Grades[i-1].Severity && !p.Grades[i-1].Note && g.For <= p.For:
				v.problem(p.ID, "Grades[%d]: grades begin with the severity, and fall", i)
			case !last:
				v.cond(p.ID, fmt.Sprintf("Grades[%d]", i), g.While)
			}
		}
		for i, c := range p.Supports {
			v.cond(p.ID, fmt.Sprintf("Supports[%d]", i), c)
		}
		for _, l := range p.Chain {
			v.cond(p.ID, l.Says, l.When)
		}
		v.runbook(p)
		for _, id := range p.ExplainedBy {
			if v.ids[id] == nil {
				v.problem(p.ID, "is explained by %q, which is not in the catalogue", id)
			}
		}
		for _, id := range p.Explains {
			switch symptom := v.ids[id]; {
			case symptom == nil:
				v.problem(p.ID, "explains %q, which is not in the catalogue", id)
			case slices.Contains(symptom.ExplainedBy, p.ID):
				v.problem(p.ID, "explains %q, which says so already: tell a pair on one side", id)
			}
		}
	}
	v.cycles(ps)
	return errors.Join(v.errs...)
}

// A validation collects what is wrong with one catalogue.
type validation struct {
	errs       []error
	ids        map[string]*catalog.Pathology
	alerts     map[string]string             // alert → id of its first owner
	thresholds map[string]*catalog.Threshold // by name, the first one met
	reported   map[*catalog.Threshold]bool   // thresholds looked at: shared ones are judged once
}

func (v *validation) problem(id, format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf("pathology %q: %w", id, fmt.Errorf(format, args...)))
}

func (v *validation) names(p *catalog.Pathology) {
	if !kebabCase.MatchString(p.ID) {
		v.problem(p.ID, "the id is not kebab-case")
	}
	if v.ids[p.ID] != nil {
		v.problem(p.ID, "the id is declared twice")
	}
	v.ids[p.ID] = p
	if !alertName.MatchString(p.Alert) {
		v.problem(p.ID, "the alert %q is not a name", p.Alert)
	} else if owner, taken := v.alerts[p.Alert]; taken {
		v.problem(p.ID, "the alert %q is also that of %q", p.Alert, owner)
	} else {
		v.alerts[p.Alert] = p.ID
	}
	if strings.TrimSpace(p.Title) == "" {
		v.problem(p.ID, "it has no title")
	}
}

// cond checks one condition tree. An empty All or Any is refused: it would
// hold always, or never.
func (v *validation) cond(id, where string, c catalog.Cond) {
	shapes := 0
	for _, used := range []bool{c.Signal != nil, len(c.All) > 0, len(c.Any) > 0} {
		if used {
			shapes++
		}
	}
	switch {
	case shapes == 0:
		v.problem(id, "%s is empty", where)
		return
	case shapes > 1:
		v.problem(id, "%s is more than one of a comparison, All and Any", where)
		return
	}
	for i, sub := range c.All {
		v.cond(id, fmt.Sprintf("%s.All[%d]", where, i), sub)
	}
	for i, sub := range c.Any {
		v.cond(id, fmt.Sprintf("%s.Any[%d]", where, i), sub)
	}
	if c.Signal == nil {
		return
	}
	v.promQL(id, where, c.Signal)
	if c.Op != catalog.GreaterThan && c.Op != catalog.LessThan {
		v.problem(id, "%s compares with %q: want > or <", where, c.Op)
	}
	if c.Threshold == nil {
		v.problem(id, "%s compares %s with no threshold", where, c.Signal.Name)
		return
	}
	v.threshold(id, where, c.Threshold)
}

func (v *validation) promQL(id, where string, s *indicator.Signal) {
	if _, err := indicator.Parse(s.Guarded()); err != nil {
		v.problem(id, "%s: signal %q: %w", where, s.Name, err)
	}
}

func (v *validation) threshold(id, where string, t *catalog.Threshold) {
	if v.reported[t] {
		return
	}
	v.reported[t] = true
	for _, field := range []struct{ name, value string }{{"Name", t.Name}, {"Why", t.Why}, {"Unit", string(t.Unit)}} {
		if strings.TrimSpace(field.value) == "" {
			v.problem(id, "%s: threshold %q has no %s", where, t.Name, field.name)
		}
	}
	if t.Baseline != nil && t.Baseline.Per != nil {
		v.promQL(id, where, t.Baseline.Per)
	}
	if t.Name == "" {
		return
	}
	if first := v.thresholds[t.Name]; first == nil {
		v.thresholds[t.Name] = t
	} else if !sameValue(first, t) {
		v.problem(id, "%s: threshold %q is declared elsewhere with another value: one name, one number", where, t.Name)
	}
}

// sameValue reports whether two thresholds resolve to the same number
// everywhere. Their reasons may differ.
func sameValue(a, b *catalog.Threshold) bool {
	sameDefault := a.Default == b.Default || math.IsNaN(a.Default) && math.IsNaN(b.Default)
	sameBaseline := a.Baseline == b.Baseline || a.Baseline != nil && b.Baseline != nil && *a.Baseline == *b.Baseline
	return a.Unit == b.Unit && a.Objective == b.Objective && a.BurnRate == b.BurnRate && sameDefault && sameBaseline
}

func (v *validation) runbook(p *catalog.Pathology) {
	title, found := outline(p.Runbook)
	if title == "" {
		v.problem(p.ID, "the runbook's first line is not a title such as %q", "# "+p.Title)
	}
	var got []string
	for _, s := range found {
		got = append(got, s.heading)
		if !s.text && slices.Contains(catalog.Sections, s.heading) {
			v.problem(p.ID, "the runbook's section %q is empty", s.heading)
		}
	}
	for _, want := range catalog.Sections {
		if !slices.Contains(got, want) {
			v.problem(p.ID, "the runbook has no section %q", want)
		}
	}
	for _, heading := range got {
		if !slices.Contains(catalog.Sections, heading) {
			v.problem(p.ID, "the runbook has a section %q that runbooks do not have", heading)
		}
	}
	if len(got) == len(catalog.Sections) && !slices.Equal(got, catalog.Sections) && slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(catalog.Sections))) {
		v.problem(p.ID, "the runbook's sections are out of order: %s", strings.Join(got, ", "))
	}
}

// A runbookSection is a second-level heading of a Markdown page.
type runbookSection struct {
	heading string
	text    bool // something stands below it
}

// outline returns a Markdown page's title, "" when its first line is none, and
// its sections. Lines in fenced code are no headings.
func outline(markdown string) (title string, sections []runbookSection) {
	fenced := false
	for i, line := range strings.Split(markdown, "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		heading, isHeading := strings.CutPrefix(line, "## ")
		switch {
		case i == 0:
			title, _ = strings.CutPrefix(line, "# ")
			if title == line {
				title = ""
			}
		case isHeading && !fenced:
			sections = append(sections, runbookSection{heading: strings.TrimSpace(heading)})
		case strings.TrimSpace(line) != "" && len(sections) > 0:
			sections[len(sections)-1].text = true
		}
	}
	return strings.TrimSpace(title), sections
}

// cycles reports each circle of inhibitions once: in a circle every finding
// would silence every other, and nobody would hear of any.
func (v *validation) cycles(ps []*catalog.Pathology) {
	const (
		onPath = 1
		done   = 2
	)
	state := map[string]int{}
	var path []string
	var visit func(id string)
	visit = func(id string) {
		if v.ids[id] == nil || state[id] == done {
			return
		}
		if state[id] == onPath {
			circle := append(slices.Clone(path[slices.Index(path, id):]), id)
			v.problem(id, "inhibitions form a circle: %s", strings.Join(circle, " → "))
			return
		}
		state[id] = onPath
		path = append(path, id)
		for _, next := range v.ids[id].Symptoms(ps) {
			visit(next.ID)
		}
		path = path[:len(path)-1]
		state[id] = done
	}
	for _, p := range ps {
		visit(p.ID)
	}
}

// statedLimit is a comparison with a number of the sentence's own.
var statedLimit = regexp.MustCompile(`(?i)\b(above|below|over|under|more than|less than|fewer than|at least|about)\s+` +
	`(?:an? )?(?:\d[\d.]*|half|fifth|quarter|tenth|second\b|twice|two|three|four|five|eight|ten|twenty) ?[a-z]*`)

// TestRunbooksTakeLimitsFromTheCondition holds that what a runbook says of a threshold is rendered from it: no sentence
// of what can be seen has a number of its own, and each name in braces is one of the condition's.
func TestRunbooksTakeLimitsFromTheCondition(t *testing.T) {
	for _, p := range pathologies.All() {
		if strings.Contains(p.Runbook, "{{") {
			t.Errorf("%s: its runbook names a threshold that its condition does not have", p.ID)
		}
		_, seen, _ := strings.Cut(p.Template, "## What you see\n")
		seen, _, _ = strings.Cut(seen, "\n## ")
		for i, prose := range strings.Split(seen, "```") {
			if i%2 == 1 {
				continue
			}
			for _, said := range statedLimit.FindAllString(strings.Join(strings.Fields(prose), " "), -1) {
				if !slices.Contains(noLimits, said) {
					t.Errorf("%s: %q is a number beside the condition's", p.ID, said)
				}
			}
		}
	}
	p := *pathologies.All()[0]
	p.When, p.Template = catalog.Above(indicator.TTFTP95, &catalog.Threshold{Name: "late", Default: 2, Unit: indicator.Seconds}), "later than {{late}}"
	if got := generate.FillRunbook(&p, generate.DescribeThreshold); got != "later than 2 s" {
		t.Errorf("%q", got)
	}
}

// noLimits are numbers that are no thresholds: none at all, and the patterns that guides to vLLM give.
var noLimits = []string{
	"above 0.", "above 0.95", "more than 10 evictions", "above 3 s", "above 5 s", "below 50 ms", "more than 20 waiting",
}
