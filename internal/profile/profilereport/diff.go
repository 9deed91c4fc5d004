package profilereport

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/profile"
	"github.com/sixty-dev/sixty/internal/render"
)

// Diff writes what became of one profile in another. Gate is the share by which a unit of
// work may take longer, below 0 none.
func Diff(w io.Writer, d *profile.Diff, gate float64, full bool, o render.Options) error {
	t, most := render.NewDocument("Comparison of profiles"), 5
	if full {
		most = 25
	}
	verdict, style := diffVerdict(d, gate)
	t.Answer(style, "", verdict)
	changes := []profile.Change{d.Total}
	if d.Token != nil {
		changes = append(changes, *d.Token)
	}
	parts := append(slices.Clone(d.Groups), d.Idle...)
	slices.SortStableFunc(parts, func(a, b profile.Change) int {
		return int(1e9 * (math.Abs(b.After-b.Before) - math.Abs(a.After-a.Before)))
	})
	var rows, kernels [][]string
	for _, c := range append(changes, parts[:min(len(parts), most+2)]...) {
		rows = append(rows, changeRow(c))
	}
	t.Section("Per "+d.Per, fmt.Sprintf(": %d before, %d after", d.Before, d.After))
	t.Table(render.Words(render.Columns("", "before", "after", "change", "")), rows)
	for i, c := range d.Kernels {
		if i == most || c.Before == c.After {
			break
		}
		kernels = append(kernels, append(changeRow(c)[1:4:4], c.Name))
	}
	if len(kernels) > 0 {
		t.Section("Kernels", " that changed most, per "+d.Per)
		columns := render.Words(render.Columns("before", "after", "change", ""))
		columns[3].Clip = true
		t.Table(columns, kernels)
	}
	for _, c := range d.Caveats {
		t.Paragraph("But", render.Sentence(c))
	}
	return t.Text(w, o, full)
}

func growth(c profile.Change) string {
	g := c.Growth()
	switch {
	case math.IsInf(g, 1):
		return "new"
	case g == 0:
		return "same"
	case c.After == 0:
		return "gone"
	}
	sign := "+"
	if g < 0 {
		sign = "−"
	}
	return sign + render.Percent(math.Abs(g))
}

func changeRow(c profile.Change) []string {
	chance := ""
	switch {
	case math.IsNaN(c.P):
	case c.P >= 0.01:
		chance = "may be chance"
	default:
		chance = "p < 0.01"
	}
	return []string{c.Name, render.Seconds(c.Before), render.Seconds(c.After), growth(c), chance}
}

func diffVerdict(d *profile.Diff, gate float64) (string, render.Style) {
	unit, c := d.Per, d.Judged()
	if d.OtherBatches {
		unit = "token"
	}
	what := fmt.Sprintf("a %s takes %s, %s before (%s)", unit, render.Seconds(c.After), render.Seconds(c.Before), growth(c))
	worst := profile.Change{}
	for _, c := range append(slices.Clone(d.Groups), d.Idle...) {
		if math.Abs(c.After-c.Before) > math.Abs(worst.After-worst.Before) {
			worst = c
		}
	}
	if worst.Name != "" && d.Total.Before != d.Total.After && !d.OtherBatches {
		what += fmt.Sprintf("; most of it %s (%s)", worst.Name, growth(worst))
	}
	if !c.Significant() {
		what += "; that may be chance"
	}
	switch {
	case gate < 0:
		return "compared: " + render.Sentence(what), render.Bold
	case d.Worse(gate):
		return fmt.Sprintf("worse by more than %s: ", render.Percent(gate)) + render.Sentence(what), render.Bad
	}
	return fmt.Sprintf("within %s: ", render.Percent(gate)) + render.Sentence(what), render.Good
}

// DiffSchema names the version of the JSON of a comparison.
const DiffSchema = "sixty.profile.diff/v1"

type changeJSON struct {
	Name        string   `json:"name"`
	Before      float64  `json:"before_seconds"`
	After       float64  `json:"after_seconds"`
	Growth      *float64 `json:"growth"`
	P           *float64 `json:"p"`
	Significant bool     `json:"significant"`
}

func newChange(c profile.Change) changeJSON {
	out := changeJSON{Name: c.Name, Before: c.Before, After: c.After, Significant: c.Significant()}
	if g := c.Growth(); !math.IsInf(g, 0) && !math.IsNaN(g) {
		out.Growth = &g
	}
	if !math.IsNaN(c.P) {
		out.P = &c.P
	}
	return out
}

// DiffJSON writes a comparison as one object.
func DiffJSON(w io.Writer, d *profile.Diff, gate float64) error {
	each := func(list []profile.Change) []changeJSON {
		out := []changeJSON{}
		for i := range min(len(list), maxKernels) {
			out = append(out, newChange(list[i]))
		}
		return out
	}
	verdict := "compared"
	switch {
	case gate >= 0 && d.Worse(gate):
		verdict = "worse"
	case gate >= 0:
		verdict = "within"
	}
	var token *changeJSON
	if d.Token != nil {
		c := newChange(*d.Token)
		token = &c
	}
	return render.JSON(w, struct {
		Schema  string       `json:"schema"`
		Tool    version.Tool `json:"tool"`
		Verdict string       `json:"verdict"`
		Gate    float64      `json:"gate"`
		Per     string       `json:"per"`
		Before  int          `json:"units_before"`
		After   int          `json:"units_after"`
		Total   changeJSON   `json:"total"`
		Token   *changeJSON  `json:"per_token"`
		Groups  []changeJSON `json:"groups"`
		Idle    []changeJSON `json:"idle"`
		Kernels []changeJSON `json:"kernels"`
		Caveats []string     `json:"caveats"`
	}{DiffSchema, version.This(), verdict, gate, d.Per, d.Before, d.After, newChange(d.Total), token, each(d.Groups), each(d.Idle), each(d.Kernels), list(d.Caveats)})
}
