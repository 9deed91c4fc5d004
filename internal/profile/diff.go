package profile

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	gonum "gonum.org/v1/gonum/stat"

	"github.com/sixty-dev/sixty/internal/base/stat"
)

// A Change is one quantity in two profiles, in seconds per unit of work.
type Change struct {
	Name                        string
	Before, After               float64
	P                           float64 // chance of such a difference between equal steps; NaN is unknown
	LaunchesBefore, LaunchesNow float64 // per unit, for kernels
	Named                       bool    // it changed, not by chance, and enough to be reported
}

// Growth is the relative change; +Inf if there was nothing before.
func (c Change) Growth() float64 { return relativeGrowth(c.Before, c.After) }

func relativeGrowth(before, after float64) float64 {
	switch {
	case before == after:
		return 0
	case before == 0:
		return math.Inf(1)
	}
	return after/before - 1
}

// MeanGrowth is the relative change of one launch.
func (c Change) MeanGrowth() float64 {
	if c.LaunchesBefore == 0 || c.LaunchesNow == 0 {
		return 0
	}
	return relativeGrowth(c.Before/c.LaunchesBefore, c.After/c.LaunchesNow)
}

// Significant reports whether chance hardly explains the change. A change of unknown chance counts.
func (c Change) Significant() bool { return math.IsNaN(c.P) || c.P < significance }

const (
	// significance is how unlikely a difference must be.
	significance = 0.01
	// surely is how unlikely the difference of one of many parts must be.
	surely = 1e-3
	// A part is reported if it changed by these shares of itself and of the unit of work. Kernels
	// need less than idleness, which differs from run to run.
	ownKernels, unitKernels = 0.02, 0.002
	ownIdle, unitIdle       = 0.1, 0.01
	// launchesMore is the relative difference in launches per unit that chance does not explain.
	launchesMore = 0.02
	// otherBatches is the relative difference in tokens per step from which step times say nothing.
	otherBatches = 0.05
)

// A Diff compares two profiles.
type Diff struct {
	Per          string // the unit of work: "decode step", "step", "trace"
	Before       int    // units
	After        int
	Period       Change // from one unit to the next; zero if unknown
	Total        Change // a unit, from its first activity to its last
	Token        *Change
	Groups       []Change
	Idle         []Change
	Kernels      []Change // in the order of Parts
	Caveats      []string // other differences, to be reported first
	OtherBatches bool     // the batches differ, so the time per token counts
}

// Compare compares two profiles by steps of their most common phase, or by whole traces if there are no steps.
func Compare(before, after *Profile) *Diff {
	phase, per := Unknown, "step"
	for _, p := range []Phase{Decode, Mixed, Prefill} {
		a, b := before.Steps[p].Count, after.Steps[p].Count
		if a >= 3 && b >= 3 && min(a, b) > min(before.Steps[phase].Count, after.Steps[phase].Count)/2 {
			phase, per = p, p.String()+" step"
			break
		}
	}
	d := &Diff{Per: per, Caveats: listCaveats(before, after)}
	p := stepPair{stepsIn(before, phase), stepsIn(after, phase)}
	if len(p.before) == 0 || len(p.after) == 0 {
		d.Per, p = "trace", stepPair{[]*Step{asOneStep(before)}, []*Step{asOneStep(after)}}
		if before.Devices == 0 || after.Devices == 0 {
			d.Caveats = append(d.Caveats, "one of the traces has no GPU: only steps can be compared")
		}
		d.Caveats = append(d.Caveats, "not both traces have steps: "+
			"whole traces are compared, and the difference may be chance or more work")
	}
	d.Before, d.After = len(p.before), len(p.after)
	if min(d.Before, d.After) < 3 && d.Per != "trace" {
		d.Caveats = append(d.Caveats, "fewer than three steps: the difference may be chance")
	}
	d.Total = p.compare("time", func(s *Step) float64 { return float64(s.Time()) / 1e9 })
	last := func(s *Step) bool { return s.Period == 0 }
	x, y := slices.DeleteFunc(slices.Clone(p.before), last), slices.DeleteFunc(slices.Clone(p.after), last)
	d.Period = stepPair{x, y}.compare("period", (*Step).periodSeconds)
	if n := p.compare("tokens", func(s *Step) float64 { return float64(s.Tokens()) }); n.Before > 0 && n.After > 0 {
		u := d.judgeUnit()
		d.Token = &Change{Name: "time per token", Before: u.Before / n.Before, After: u.After / n.After, P: u.P}
		if d.OtherBatches = math.Abs(n.Growth()) > otherBatches; d.OtherBatches {
			d.Caveats = append(d.Caveats, fmt.Sprintf(
				"the batches differ, %.4g and %.4g tokens per step, so the time per token is compared", n.Before,
				n.After))
		}
	}
	unit := max(d.Period.Before, d.Total.Before)
	d.compareGroups(p, unit)
	d.compareCauses(p, unit)
	d.compareKernels(before, after, unit)
	return d
}

type stepPair struct{ before, after []*Step }

func (p stepPair) compare(name string, f func(*Step) float64) Change {
	return compareSamples(name, valuesOf(p.before, f), valuesOf(p.after, f))
}

func (d *Diff) compareGroups(p stepPair, unit float64) {
	for g := range Groups {
		c := p.compare(g.String(), func(s *Step) float64 { return float64(s.Group[g]) / 1e9 })
		n := p.compare("launches", func(s *Step) float64 { return float64(s.Count[g]) })
		c.LaunchesBefore, c.LaunchesNow = n.Before, n.After
		if c.Before > 0 || c.After > 0 {
			d.Groups = append(d.Groups, c.markNamed(unit, ownKernels, unitKernels))
		}
	}
}

func (d *Diff) compareCauses(p stepPair, unit float64) {
	for k := range Causes {
		name, idle := k.String(), func(s *Step) float64 { return float64(s.Causes[k]) / 1e9 }
		switch k {
		case HostLate: // only a gap's length distinguishes it from HostWork
			name = "host"
			idle = func(s *Step) float64 { return float64(s.Causes[HostLate]+s.Causes[HostWork]) / 1e9 }
		case HostWork:
			continue
		}
		if c := p.compare("idle: "+name, idle); c.Before > 0 || c.After > 0 {
			d.Idle = append(d.Idle, c.markNamed(unit, ownIdle, unitIdle))
		}
	}
}

func (c Change) markNamed(unit, own, ofUnit float64) Change {
	more := math.Abs(relativeGrowth(c.LaunchesBefore, c.LaunchesNow)) > launchesMore
	likely := c.P < surely || math.IsNaN(c.P) || more
	c.Named = likely && math.Abs(c.After-c.Before) > max(own*c.Before, ofUnit*unit)
	return c
}

// listCaveats lists differences that make two profiles incomparable.
func listCaveats(before, after *Profile) (out []string) {
	differ := func(what string, a, b any) {
		if a != b && a != "" && b != "" {
			out = append(out, fmt.Sprintf("%s: %v before, %v after", what, a, b))
		}
	}
	differ("other hardware", before.GPU().Name, after.GPU().Name)
	differ("another number of GPUs", before.Devices, after.Devices)
	differ("another kind of program", before.Workload, after.Workload)
	differ("steps are detected differently", before.StepsBy, after.StepsBy)
	shapes := func(p *Profile) map[string]bool {
		m := map[string]bool{}
		for _, r := range p.Roofline {
			m[r.Operator+" "+r.Dims] = true
		}
		return m
	}
	a, b := shapes(before), shapes(after)
	n, m := len(a), len(b)
	for s := range a {
		if b[s] {
			n, m = n-1, m-1
		}
	}
	if len(a) > 0 && len(b) > 0 && n+m > 0 {
		out = append(out, fmt.Sprintf("other shapes: %d of %d only before, %d of %d only after", n, len(a), m, len(b)))
	}
	return out
}

func asOneStep(p *Profile) *Step {
	n := int64(max(p.Devices, 1))
	s := &Step{GPUTo: p.Wall / n}
	for g := range p.Group {
		s.Group[g] = p.Group[g].Time / n
		s.Count[g] = int32(min(int64(p.Group[g].Count)/n, math.MaxInt32)) //nolint:gosec // bounded
	}
	for c := range p.Idle {
		s.Causes[c] = float32(p.Idle[c] / n)
	}
	return s
}

func (s *Step) periodSeconds() float64 { return float64(s.Period) / 1e9 }

func valuesOf(list []*Step, f func(*Step) float64) []float64 {
	out := make([]float64, len(list))
	for i, s := range list {
		out[i] = f(s)
	}
	return out
}

func stepsIn(p *Profile, phase Phase) []*Step {
	var out []*Step
	for _, a := range p.Ranks {
		for i := range a.Steps {
			if s := &a.Steps[i]; phase == Unknown || s.Phase == phase {
				out = append(out, s)
			}
		}
	}
	return out
}

func (d *Diff) compareKernels(before, after *Profile, unit float64) {
	type both struct {
		count, sum, squares [2]float64
		group               string
	}
	all, units := map[string]*both{}, [2]float64{}
	for i, p := range []*Profile{before, after} {
		units[i] = float64(max(p.Steps[Unknown].Count, 1))
		if d.Per == "trace" {
			units[i] = float64(max(p.Devices, 1))
		}
		for k := range p.Kernels {
			k := &p.Kernels[k]
			b := all[k.Short]
			if b == nil {
				b = &both{group: k.Group.String()}
				all[k.Short] = b
			}
			b.count[i] += float64(k.Count)
			b.sum[i] += float64(k.Sum) / 1e9
			b.squares[i] += k.Squares
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b := all[name]
		c := Change{
			Name: name, Before: b.sum[0] / units[0], After: b.sum[1] / units[1],
			LaunchesBefore: b.count[0] / units[0], LaunchesNow: b.count[1] / units[1], P: 1,
		}
		if slices.ContainsFunc(d.Groups, func(g Change) bool { return g.Named && g.Name == b.group }) {
			c.P = math.NaN() // a kernel's runs differ more between layers than between traces
		} else if b.count[0] >= 3 && b.count[1] >= 3 {
			var mean, variance [2]float64
			for i := range mean {
				mean[i] = b.sum[i] / b.count[i]
				variance[i] = b.squares[i]/b.count[i] - mean[i]*mean[i]
			}
			c.P = stat.WelchP(mean, variance, b.count)
		}
		d.Kernels = append(d.Kernels, c.markNamed(unit, ownKernels, unitKernels))
	}
	slices.SortStableFunc(d.Kernels, byWeight)
}

// compareSamples compares samples by Welch's t-test.
func compareSamples(name string, before, after []float64) Change {
	c := Change{Name: name, P: math.NaN()}
	if len(before) == 0 || len(after) == 0 {
		return c
	}
	c.Before, c.After = gonum.Mean(before, nil), gonum.Mean(after, nil)
	if len(before) >= 3 && len(after) >= 3 {
		c.P = stat.WelchP([2]float64{c.Before, c.After},
			[2]float64{gonum.Variance(before, nil), gonum.Variance(after, nil)},
			[2]float64{float64(len(before)), float64(len(after))})
	}
	return c
}

// Parts are the groups and the causes of idleness: reported changes first, then by size.
func (d *Diff) Parts() []Change {
	parts := slices.Concat(d.Groups, d.Idle)
	slices.SortStableFunc(parts, byWeight)
	return parts
}

// byWeight orders changes: reported ones first, then by size.
func byWeight(a, b Change) int {
	weight := func(c Change) float64 {
		if c.Named {
			return 1e9 + math.Abs(c.After-c.Before)
		}
		return math.Abs(c.After - c.Before)
	}
	return cmp.Compare(weight(b), weight(a))
}

// judgeUnit is the change of a unit that counts. It is the period, unless that is unknown, or only
// the unit itself takes significantly longer.
func (d *Diff) judgeUnit() Change {
	p, t := d.Period, d.Total
	longer := p.Growth() > 0 && p.Significant()
	shorter := p.Growth() < -launchesMore && p.Significant()
	if p.Before == 0 || !longer && !shorter && t.Growth() > 0 && t.Significant() {
		return t
	}
	return p
}

// Judged is the change that counts: per token if the batches differ, else per unit of work.
func (d *Diff) Judged() Change {
	if d.Token != nil && d.OtherBatches {
		return *d.Token
	}
	return d.judgeUnit()
}

// Worse reports whether the work takes longer than before by more than a share, and not by chance.
func (d *Diff) Worse(gate float64) bool {
	c := d.Judged()
	return c.Growth() > gate && c.Significant()
}
