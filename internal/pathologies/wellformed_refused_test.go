package pathologies_test

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// soundRunbook is a runbook with all its sections.
func soundRunbook(change ...string) string {
	text := "# Something is wrong\n"
	for _, s := range catalog.Sections {
		text += "\n## " + s + "\n\nText.\n"
	}
	return strings.NewReplacer(change...).Replace(text)
}

// sound is a pathology without fault.
func sound(id string, explainedBy ...string) *catalog.Pathology {
	return &catalog.Pathology{
		ID: id, Alert: "VLLM" + strings.ReplaceAll(id, "-", ""), Title: "Something is wrong", ExplainedBy: explainedBy, Runbook: soundRunbook(),
		When: catalog.All(catalog.Above(indicator.Waiting, &catalog.Threshold{Name: "some_" + id, Unit: indicator.Requests, Default: 1, Why: "because"})),
	}
}

func TestWellFormedRefuses(t *testing.T) {
	leaf := func(name string, limit float64) catalog.Cond {
		return catalog.Above(indicator.Waiting, &catalog.Threshold{Name: name, Unit: indicator.Requests, Default: limit, Why: "because"})
	}
	broken := &indicator.Signal{Name: "broken", Unit: indicator.Count, Expr: indicator.Rate("a counter")}
	with := func(change func(*catalog.Pathology)) []*catalog.Pathology {
		p := sound("a")
		change(p)
		return []*catalog.Pathology{p, sound("b")}
	}
	tests := map[string]struct {
		catalogue []*catalog.Pathology
		want      string
	}{
		"an id declared twice":          {with(func(p *catalog.Pathology) { p.ID = "b" }), `pathology "b": the id is declared twice`},
		"an alert declared twice":       {with(func(p *catalog.Pathology) { p.Alert = "VLLMb" }), `the alert "VLLMb" is also that of "a"`},
		"an id in camel case":           {with(func(p *catalog.Pathology) { p.ID = "kvCache" }), `pathology "kvCache": the id is not kebab-case`},
		"an id that ends in a dash":     {with(func(p *catalog.Pathology) { p.ID = "kv-" }), "not kebab-case"},
		"no id":                         {with(func(p *catalog.Pathology) { p.ID = "" }), "not kebab-case"},
		"an alert that is no name":      {with(func(p *catalog.Pathology) { p.Alert = "VLLM A" }), `the alert "VLLM A" is not a name`},
		"no title":                      {with(func(p *catalog.Pathology) { p.Title = " " }), "it has no title"},
		"no condition":                  {with(func(p *catalog.Pathology) { p.When = catalog.Cond{} }), "When is empty"},
		"an empty All inside":           {with(func(p *catalog.Pathology) { p.When = catalog.Any(leaf("x", 1), catalog.All()) }), "When.Any[1] is empty"},
		"two shapes at once":            {with(func(p *catalog.Pathology) { p.When.Any = p.When.All }), "When is more than one of"},
		"a comparison with nothing":     {with(func(p *catalog.Pathology) { p.When = catalog.Above(indicator.Waiting, nil) }), "compares waiting with no threshold"},
		"an operator that is none":      {with(func(p *catalog.Pathology) { p.When.All[0].Op = ">=" }), `compares with ">=": want > or <`},
		"PromQL that does not parse":    {with(func(p *catalog.Pathology) { p.When.All[0].Signal = broken }), `When.All[0]: signal "broken"`},
		"the same in the support":       {with(func(p *catalog.Pathology) { p.Supports = []catalog.Cond{catalog.Above(broken, leaf("y", 1).Threshold)} }), `Supports[0]: signal "broken"`},
		"the same in a relative limit":  {with(func(p *catalog.Pathology) { p.When.All[0].Threshold.Baseline = &catalog.Relative{Per: broken} }), `signal "broken"`},
		"a threshold without a name":    {with(func(p *catalog.Pathology) { p.When.All[0].Threshold.Name = "" }), "has no Name"},
		"a threshold without a reason":  {with(func(p *catalog.Pathology) { p.When.All[0].Threshold.Why = "" }), `threshold "some_a" has no Why`},
		"a threshold without a unit":    {with(func(p *catalog.Pathology) { p.When.All[0].Threshold.Unit = "" }), `threshold "some_a" has no Unit`},
		"one name for two numbers":      {with(func(p *catalog.Pathology) { p.When = catalog.All(leaf("x", 1), leaf("x", 2)) }), `threshold "x" is declared elsewhere with another value`},
		"one name, absolute and not":    {with(func(p *catalog.Pathology) { p.When = catalog.All(leaf("x", 1), leaf("x", catalog.None)) }), `threshold "x" is declared elsewhere`},
		"a cause that is not there":     {with(func(p *catalog.Pathology) { p.ExplainedBy = []string{"c"} }), `is explained by "c", which is not in the catalogue`},
		"a symptom that is not there":   {with(func(p *catalog.Pathology) { p.Explains = []string{"c"} }), `explains "c", which is not in the catalogue`},
		"a pair told on both sides":     {[]*catalog.Pathology{sound("a", "b"), {ID: "b", Explains: []string{"a"}}}, `explains "a", which says so already`},
		"an inhibition of itself":       {with(func(p *catalog.Pathology) { p.ExplainedBy = []string{"a"} }), "circle: a → a"},
		"a circle of inhibitions":       {[]*catalog.Pathology{sound("d"), sound("a", "c", "d"), sound("b", "a"), sound("c", "b")}, "circle: a → b → c → a"},
		"a circle through later causes": {with(func(p *catalog.Pathology) { p.ExplainedBy, p.Explains = []string{"b"}, []string{"b"} }), "circle: a → b → a"},
		"no runbook":                    {with(func(p *catalog.Pathology) { p.Runbook = "TODO" }), `the runbook has no section "Traps"`},
		"a runbook without a title":     {with(func(p *catalog.Pathology) { p.Runbook = "\n" + soundRunbook() }), "first line is not a title"},
		"a section too many":            {with(func(p *catalog.Pathology) { p.Runbook = soundRunbook() + "\n## History\n\nText.\n" }), `a section "History" that runbooks do not have`},
		"an empty section":              {with(func(p *catalog.Pathology) { p.Runbook = soundRunbook() + "\n## Traps\n" }), `section "Traps" is empty`},
		"a heading that is only quoted": {with(func(p *catalog.Pathology) { p.Runbook = soundRunbook("## Traps", "```\n## Traps\n```") }), `no section "Traps"`},
		"sections out of order":         {with(func(p *catalog.Pathology) { p.Runbook = soundRunbook("What you see", "Traps", "Traps", "What you see") }), "sections are out of order"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := wellFormed(tt.catalogue)
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}
