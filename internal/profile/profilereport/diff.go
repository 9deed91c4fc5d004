package profilereport

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/profile"
	"github.com/sixty-dev/sixty/internal/render"
)

// Diff writes a comparison of two profiles for a terminal. Gate is the share by which a unit of work may take longer,
// such as 0.03; below 0 there is no gate.
func Diff(w io.Writer, d *profile.Diff, gate float64, full bool, o render.Options) error {
	t, most := render.NewDocument("Comparison of profiles"), 5
	if full {
		most = 25
	}
	verdict, style := diffVerdict(d, gate)
	t.Answer(style, "", verdict)
	for _, c := range d.Caveats {
		t.Paragraph("But", render.Sentence(c))
	}
	changes := []profile.Change{d.Total}
	if d.Period.Before > 0 {
		changes = []profile.Change{d.Period, d.Total}
	}
	if d.Token != nil {
		changes = append(changes, *d.Token)
	}
	parts := d.Parts()
	t.Section("Per "+d.Per, fmt.Sprintf(": %d before, %d after", d.Before, d.After))
	t.Table(columnsOf(", before, after, change, launches, each, |<1"),
		changeRows(append(changes, parts[:min(len(parts), most+2)]...), most+5))
	kernels := d.Kernels
	if !full {
		kernels = slices.DeleteFunc(slices.Clone(kernels), func(c profile.Change) bool { return !c.Reported })
	}
	if changes := changeRows(kernels, most); len(changes) > 0 {
		t.Section("Kernels", ", per "+strings.TrimPrefix(d.Per, "decode "))
		for i, r := range changes {
			changes[i] = append(r[1:6:6], r[0])
		}
		t.Table(columnsOf("before, after, change, launches, each, |…"), changes)
	}
	return t.Text(w, o, full)
}

// formatGrowth formats a relative change. gone says that nothing is left.
func formatGrowth(g float64, gone bool) string {
	switch {
	case math.IsInf(g, 1):
		return "new"
	case g == 0:
		return "same"
	case gone:
		return "gone"
	case g < 0:
		return "−" + render.Percent(-g)
	}
	return "+" + render.Percent(g)
}

// changeRows returns table rows of the first changes, at most this many. Parts that are the same have no row.
func changeRows(list []profile.Change, most int) (rows [][]string) {
	for _, c := range list {
		if len(rows) == most || c.Before == c.After && c.Name != "time" && c.Name != "period" {
			continue
		}
		launches, each, chance := "", "", ""
		if c.LaunchesBefore+c.LaunchesAfter > 0 {
			if launches = render.Number(c.LaunchesAfter); launches != render.Number(c.LaunchesBefore) {
				launches = render.Number(c.LaunchesBefore) + " → " + launches
			}
			each = formatGrowth(c.MeanGrowth(), false)
		}
		switch {
		case c.Reported:
			chance = "changed"
		case !c.Significant():
			chance = "may be chance"
		case !math.IsNaN(c.P):
			chance = "p < 0.01"
		}
		rows = append(rows, []string{
			c.Name, render.Seconds(c.Before), render.Seconds(c.After),
			formatGrowth(c.Growth(), c.After == 0), launches, each, chance,
		})
	}
	return rows
}

// describeChange says how a part changed: in its number of launches, the duration of each, or as a whole.
func describeChange(c profile.Change) string {
	how := formatGrowth(c.Growth(), c.After == 0)
	switch more, each := c.LaunchesAfter/c.LaunchesBefore-1, c.MeanGrowth(); {
	case c.Before == 0 || c.After == 0 || c.LaunchesBefore == 0:
	case math.Abs(more) > 0.01 && math.Abs(each) > 0.01:
		how = fmt.Sprintf("launches %s, each %s", formatGrowth(more, false), formatGrowth(each, false))
	case math.Abs(more) > 0.01:
		how = "launches " + formatGrowth(more, false)
	default:
		how = "each " + formatGrowth(each, false)
	}
	return fmt.Sprintf("%s (%s)", c.Name, how)
}

func diffVerdict(d *profile.Diff, gate float64) (string, render.Style) {
	unit, c := d.Per, d.Judged()
	if d.OtherBatches {
		unit = "token"
	}
	what := fmt.Sprintf("a %s takes %s, %s before (%s)", unit, render.Seconds(c.After), render.Seconds(c.Before),
		formatGrowth(c.Growth(), false))
	if !c.Significant() && c.Before != c.After {
		what += "; that may be chance"
	}
	var changed []string
	for _, list := range [][]profile.Change{d.Parts(), d.Kernels} {
		for _, c := range list {
			if c.Reported {
				changed = append(changed, describeChange(c))
			}
		}
		if len(changed) > 0 {
			break // kernels are named if no group changed: their changes may cancel out
		}
	}
	switch n := len(changed); {
	case n == 0:
		what += "; no part of it changed significantly"
	case n > mostNamed:
		changed = append(changed[:mostNamed], fmt.Sprintf("%d more", n-mostNamed))
		fallthrough
	default:
		what += "; changed: " + strings.Join(changed, ", ")
	}
	switch {
	case gate < 0:
		return "compared: " + render.Sentence(what), render.Bold
	case d.Worse(gate):
		return fmt.Sprintf("worse by more than %s: ", render.Percent(gate)) + render.Sentence(what), render.Bad
	}
	return fmt.Sprintf("within %s: ", render.Percent(gate)) + render.Sentence(what), render.Good
}

const mostNamed = 4

// DiffSchema names the version of the JSON of a comparison.
const DiffSchema = "sixty.profile.diff/v1"

func newChange(c profile.Change) object {
	return object{
		"name", c.Name, "before_seconds", c.Before, "after_seconds", c.After,
		"growth", render.Finite(c.Growth()), "p", render.Finite(c.P),
		"significant", c.Significant(), "changed", c.Reported,
		"before_launches", c.LaunchesBefore, "after_launches", c.LaunchesAfter,
	}
}

// DiffJSON writes a comparison as one object.
func DiffJSON(w io.Writer, d *profile.Diff, gate float64) error {
	changes := func(list []profile.Change) []object {
		return render.Each(list[:min(len(list), maxKernels)], func(c *profile.Change) object { return newChange(*c) })
	}
	verdict := "compared"
	switch {
	case gate >= 0 && d.Worse(gate):
		verdict = "worse"
	case gate >= 0:
		verdict = "within"
	}
	var token any
	if d.Token != nil {
		token = newChange(*d.Token)
	}
	return render.JSON(w, object{
		"schema", DiffSchema, "tool", version.This(), "verdict", verdict, "gate", gate,
		"per", d.Per, "units_before", d.Before, "units_after", d.After,
		"period", newChange(d.Period), "total", newChange(d.Total), "per_token", token,
		"groups", changes(d.Groups), "idle", changes(d.Idle), "kernels", changes(d.Kernels),
		"caveats", nonNil(d.Caveats),
	})
}
