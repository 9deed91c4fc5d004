package pathologies_test

import (
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

func TestEveryPathologyHasNamesOfItsOwn(t *testing.T) {
	kebabCase := regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	alertName := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	taken := map[string]bool{}
	for _, p := range pathologies.All() {
		if !kebabCase.MatchString(p.ID) || taken[p.ID] {
			t.Errorf("the id %q is not kebab-case, or declared twice", p.ID)
		}
		if !alertName.MatchString(p.Alert) || taken[p.Alert] {
			t.Errorf("%s: the alert %q is not a name, or that of another pathology", p.ID, p.Alert)
		}
		if strings.TrimSpace(p.Title) == "" {
			t.Errorf("%s has no title", p.ID)
		}
		taken[p.ID], taken[p.Alert] = true, true
	}
}

func TestConditionsAreComparisonsWithThresholds(t *testing.T) {
	for _, p := range pathologies.All() {
		conds := append([]catalog.Cond{p.When}, p.Supports...)
		for i, g := range p.Grades {
			switch last := i == len(p.Grades)-1; {
			case g.While.Empty() != last:
				t.Errorf("%s: Grades[%d]: the last grade has no condition, and no other", p.ID, i)
			case i == 0 && g.Severity != p.Severity, i > 0 && g.Severity >= p.Grades[i-1].Severity &&
				!p.Grades[i-1].Note && g.For <= p.For:
				t.Errorf("%s: Grades[%d]: grades begin with the severity, and fall", p.ID, i)
			case !last:
				conds = append(conds, g.While)
			}
		}
		for _, l := range p.Chain {
			conds = append(conds, l.When)
		}
		for _, c := range conds {
			checkCond(t, p.ID, c)
		}
	}
}

// checkCond checks one tree. An empty All would always hold, an empty Any never.
func checkCond(t *testing.T, id string, c catalog.Cond) {
	t.Helper()
	shapes := 0
	for _, used := range []bool{c.Signal != nil, len(c.All) > 0, len(c.Any) > 0} {
		if used {
			shapes++
		}
	}
	if shapes != 1 {
		t.Errorf("%s: a condition is %d of a comparison, All and Any: %+v", id, shapes, c)
	}
	for _, sub := range slices.Concat(c.All, c.Any) {
		checkCond(t, id, sub)
	}
	if c.Signal != nil && (c.Op != catalog.GreaterThan && c.Op != catalog.LessThan || c.Threshold == nil) {
		t.Errorf("%s compares %s with %q and the threshold %v", id, c.Signal.Name, c.Op, c.Threshold)
	}
}

// TestThresholdsAreExplainedAndHaveOneValue holds that a threshold's name has the same value everywhere. Its reasons
// may differ.
func TestThresholdsAreExplainedAndHaveOneValue(t *testing.T) {
	first := map[string]*catalog.Threshold{}
	for _, p := range pathologies.All() {
		conds := p.Conditions()
		for _, l := range p.Chain {
			conds = append(conds, l.When)
		}
		for _, c := range conds {
			c.Leaves(func(c catalog.Cond) {
				a := c.Threshold
				for _, field := range []string{a.Name, a.Why, string(a.Unit)} {
					if strings.TrimSpace(field) == "" {
						t.Errorf("%s: the threshold %+v has no name, reason or unit", p.ID, a)
					}
				}
				b := first[a.Name]
				if b == nil {
					first[a.Name] = a
					return
				}
				sameDefault := a.Default == b.Default || math.IsNaN(a.Default) && math.IsNaN(b.Default)
				sameBaseline := a.Baseline == b.Baseline || a.Baseline != nil && b.Baseline != nil &&
					*a.Baseline == *b.Baseline
				if a.Unit != b.Unit || a.Objective != b.Objective || a.BurnRate != b.BurnRate || !sameDefault ||
					!sameBaseline {
					t.Errorf("%s: the threshold %q is declared elsewhere with another value", p.ID, a.Name)
				}
			})
		}
	}
}

func TestInhibitionsArePairsWithoutACircle(t *testing.T) {
	all := map[string]*catalog.Pathology{}
	for _, p := range pathologies.All() {
		all[p.ID] = p
	}
	explains := map[string][]string{}
	for _, p := range pathologies.All() {
		for _, id := range slices.Concat(p.ExplainedBy, p.Explains) {
			if all[id] == nil {
				t.Fatalf("%s is explained by %q or explains it, which is not in the catalogue", p.ID, id)
			}
		}
		for _, id := range p.Explains {
			if slices.Contains(all[id].ExplainedBy, p.ID) {
				t.Errorf("%s explains %q, which says so already: declare a pair on one side", p.ID, id)
			}
		}
		for _, symptom := range p.Symptoms(pathologies.All()) {
			explains[p.ID] = append(explains[p.ID], symptom.ID)
		}
	}
	// In a circle every finding would inhibit another, and no alert would be sent. A pathology that explains none of
	// the remaining ones is in no circle.
	for range all {
		for id, symptoms := range explains {
			if !slices.ContainsFunc(symptoms, func(s string) bool { return explains[s] != nil }) {
				delete(explains, id)
			}
		}
	}
	if len(explains) > 0 {
		t.Errorf("among these is a circle of inhibitions: %v", explains)
	}
}

func TestRunbooksHaveTheirSections(t *testing.T) {
	fenced := regexp.MustCompile("(?ms)^ *```.*?^ *```")
	heading := regexp.MustCompile(`(?m)^## (.*)$`)
	for _, p := range pathologies.All() {
		text := fenced.ReplaceAllString(p.Runbook, "code") // "# …" in code is no heading
		if !strings.HasPrefix(text, "# ") {
			t.Errorf("%s: the runbook's first line is not a title such as %q", p.ID, "# "+p.Title)
		}
		var got []string
		for _, m := range heading.FindAllStringSubmatch(text, -1) {
			got = append(got, m[1])
		}
		if !slices.Equal(got, catalog.Sections) {
			t.Errorf("%s: the runbook's sections are %q, want %q", p.ID, got, catalog.Sections)
		}
		for i, body := range heading.Split(text, -1) {
			if strings.TrimSpace(body) == "" {
				t.Errorf("%s: section %d of the runbook is empty", p.ID, i)
			}
		}
	}
}

// statedLimit matches a comparison with a number.
var statedLimit = regexp.MustCompile(`(?i)\b(above|below|over|under|more than|less than|fewer than|at least|about)\s+` +
	`(?:an? )?(?:\d[\d.]*|half|fifth|quarter|tenth|second\b|twice|two|three|four|five|eight|ten|twenty) ?[a-z]*`)

// TestRunbooksTakeLimitsFromTheCondition holds that runbooks render thresholds: no sentence of "What you see" has a
// number of its own, and each name in braces is a threshold of the condition.
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

// noLimits are numbers that are no thresholds: 0, and the patterns that guides to vLLM give.
var noLimits = []string{
	"above 0.", "above 0.95", "more than 10 evictions", "above 3 s", "above 5 s", "below 50 ms", "more than 20 waiting",
}
