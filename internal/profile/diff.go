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

// A Change is a quantity before and after, in seconds per unit of work.
type Change struct {
	Name          string
	Before, After float64
	P             float64 // probability of such a difference if nothing changed; NaN is unknown

	LaunchesBefore, LaunchesAfter float64 // per unit, of kernels

	Reported bool // it is significant and large enough
}

// Growth is the relative change: 0.1 is 10 % more; +Inf if there was nothing before.
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

// MeanGrowth is the relative change of the mean duration of a launch; 0 if there are no launches.
func (c Change) MeanGrowth() float64 {
	if c.LaunchesBefore == 0 || c.LaunchesAfter == 0 {
		return 0
	}
	return relativeGrowth(c.Before/c.LaunchesBefore, c.After/c.LaunchesAfter)
}

// Significant reports whether chance hardly explains the change. A change with an unknown P counts as significant.
func (c Change) Significant() bool { return math.IsNaN(c.P) || c.P < significance }

const (
	significance = 0.01 // largest P of a significant change
	// partSignificance is the largest P of a reported part. There are many parts, so that it must be smaller.
	partSignificance = 1e-3
	// A part is reported if it changed by these shares of itself and of the unit of work. Idleness
	// must change more than kernels, because it differs from run to run.
	ownKernels, unitKernels = 0.02, 0.002
	ownIdle, unitIdle       = 0.1, 0.01
	// launchGrowth is the relative change in launches per unit that is not chance.
	launchGrowth = 0.02
	// shorterPeriod is the relative change of the period from which it counts as shorter.
	shorterPeriod = -0.02
	// otherBatches is the relative change in tokens per step from which step times cannot be compared.
	otherBatches = 0.05
)

// A Diff compares two profiles by a unit of work: a step, or a whole trace.
type Diff struct {
	Per          string // the unit: "decode step", "step", "trace"
	Before       int    // number of units
	After        int
	Period       Change   // from the start of a unit to the next one's; zero if unknown
	Total        Change   // a unit, from its first activity to its last
	Token        *Change  // time per token; nil if unknown
	Groups       []Change // the groups of kernels
	Idle         []Change // the causes of idleness
	Kernels      []Change // in the order of Parts
	Caveats      []string // why the profiles may not be comparable
	OtherBatches bool     // the batches differ, so that Token counts
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
	p := stepPair{stepsOfPhase(before, phase), stepsOfPhase(after, phase)}
	if len(p.before) == 0 || len(p.after) == 0 {
		d.Per, p = "trace", stepPair{[]*Step{traceAsStep(before)}, []*Step{traceAsStep(after)}}
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
	isLast := func(s *Step) bool { return s.Period == 0 }
	d.Period = stepPair{
		slices.DeleteFunc(slices.Clone(p.before), isLast), slices.DeleteFunc(slices.Clone(p.after), isLast),
	}.compare("period", (*Step).periodSeconds)
	d.compareTokens(p)
	unit := max(d.Period.Before, d.Total.Before)
	d.compareGroups(p, unit)
	d.compareCauses(p, unit)
	d.compareKernels(before, after, unit)
	return d
}

// A stepPair holds the steps to compare.
type stepPair struct{ before, after []*Step }

func (p stepPair) compare(name string, f func(*Step) float64) Change {
	return compareSamples(name, valuesOf(p.before, f), valuesOf(p.after, f))
}

func (d *Diff) compareTokens(p stepPair) {
	n := p.compare("tokens", func(s *Step) float64 { return float64(s.Tokens()) })
	if n.Before == 0 || n.After == 0 {
		return
	}
	u := d.judgeUnit()
	d.Token = &Change{Name: "time per token", Before: u.Before / n.Before, After: u.After / n.After, P: u.P}
	if d.OtherBatches = math.Abs(n.Growth()) > otherBatches; d.OtherBatches {
		d.Caveats = append(d.Caveats, fmt.Sprintf(
			"the batches differ, %.4g and %.4g tokens per step, so the time per token is compared", n.Before, n.After))
	}
}

// compareGroups compares the groups of kernels. unit is the time of a unit of work before, in seconds.
func (d *Diff) compareGroups(p stepPair, unit float64) {
	for g := range Groups {
		c := p.compare(g.String(), func(s *Step) float64 { return float64(s.Group[g]) / 1e9 })
		n := p.compare("launches", func(s *Step) float64 { return float64(s.Count[g]) })
		c.LaunchesBefore, c.LaunchesAfter = n.Before, n.After
		if c.Before > 0 || c.After > 0 {
			d.Groups = append(d.Groups, c.markReported(unit, ownKernels, unitKernels))
		}
	}
}

func (d *Diff) compareCauses(p stepPair, unit float64) {
	for k := range Causes {
		name, idle := k.String(), func(s *Step) float64 { return float64(s.Causes[k]) / 1e9 }
		switch k {
		case HostLate: // with HostWork, because only the length of a gap distinguishes them
			name = "host"
			idle = func(s *Step) float64 { return float64(s.Causes[HostLate]+s.Causes[HostWork]) / 1e9 }
		case HostWork:
			continue
		}
		if c := p.compare("idle: "+name, idle); c.Before > 0 || c.After > 0 {
			d.Idle = append(d.Idle, c.markReported(unit, ownIdle, unitIdle))
		}
	}
}

// markReported sets Reported for a part that is significant, or has another number of launches, and that changed by a
// share of itself and a share of a unit's time.
func (c Change) markReported(unit, ownShare, unitShare float64) Change {
	launches := math.Abs(relativeGrowth(c.LaunchesBefore, c.LaunchesAfter)) > launchGrowth
	significant := c.P < partSignificance || math.IsNaN(c.P) || launches
	c.Reported = significant && math.Abs(c.After-c.Before) > max(ownShare*c.Before, unitShare*unit)
	return c
}

// listCaveats lists differences because of which two profiles may not be comparable.
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

// traceAsStep returns the mean device of a profile as a step.
func traceAsStep(p *Profile) *Step {
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

// stepsOfPhase returns the steps of a phase, or all steps for Unknown.
func stepsOfPhase(p *Profile, phase Phase) []*Step {
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

// kernelPair sums up the kernels with one short name before, at index 0, and after, at index 1.
type kernelPair struct {
	count, sum, squares [2]float64
	group               string
}

func (d *Diff) compareKernels(before, after *Profile, unit float64) {
	pairs, units := map[string]*kernelPair{}, [2]float64{}
	for i, p := range []*Profile{before, after} {
		units[i] = float64(max(p.Steps[Unknown].Count, 1))
		if d.Per == "trace" {
			units[i] = float64(max(p.Devices, 1))
		}
		for j := range p.Kernels {
			k := &p.Kernels[j]
			pair := pairs[k.Short]
			if pair == nil {
				pair = &kernelPair{group: k.Group.String()}
				pairs[k.Short] = pair
			}
			pair.count[i] += float64(k.Count)
			pair.sum[i] += float64(k.Sum) / 1e9
			pair.squares[i] += k.Squares
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		k := pairs[name]
		c := Change{
			Name: name, Before: k.sum[0] / units[0], After: k.sum[1] / units[1],
			LaunchesBefore: k.count[0] / units[0], LaunchesAfter: k.count[1] / units[1], P: k.chance(),
		}
		if slices.ContainsFunc(d.Groups, func(g Change) bool { return g.Reported && g.Name == k.group }) {
			c.P = math.NaN() // the group is significant; a kernel's runs differ more between layers than between traces
		}
		d.Kernels = append(d.Kernels, c.markReported(unit, ownKernels, unitKernels))
	}
	slices.SortStableFunc(d.Kernels, byWeight)
}

// chance returns the P of the difference between the mean durations of a run; 1 if there are too few runs.
func (k *kernelPair) chance() float64 {
	if min(k.count[0], k.count[1]) < 3 {
		return 1
	}
	var mean, variance [2]float64
	for i := range mean {
		mean[i] = k.sum[i] / k.count[i]
		variance[i] = k.squares[i]/k.count[i] - mean[i]*mean[i]
	}
	return stat.WelchP(mean, variance, k.count)
}

// compareSamples compares the means of two samples by Welch's t-test.
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

// Parts are the groups and the causes of idleness, ordered by byWeight.
func (d *Diff) Parts() []Change {
	parts := slices.Concat(d.Groups, d.Idle)
	slices.SortStableFunc(parts, byWeight)
	return parts
}

// byWeight orders changes: first the reported ones, then the largest in seconds.
func byWeight(a, b Change) int {
	weight := func(c Change) float64 {
		if c.Reported {
			return 1e9 + math.Abs(c.After-c.Before)
		}
		return math.Abs(c.After - c.Before)
	}
	return cmp.Compare(weight(b), weight(a))
}

// judgeUnit returns Period, or Total if the period is unknown, or if Total became significantly longer while the period
// became neither longer nor shorter.
func (d *Diff) judgeUnit() Change {
	p, t := d.Period, d.Total
	longer := p.Growth() > 0 && p.Significant()
	shorter := p.Growth() < shorterPeriod && p.Significant()
	if p.Before == 0 || !longer && !shorter && t.Growth() > 0 && t.Significant() {
		return t
	}
	return p
}

// Judged returns the change that decides: Token if the batches differ, else Period or Total.
func (d *Diff) Judged() Change {
	if d.Token != nil && d.OtherBatches {
		return *d.Token
	}
	return d.judgeUnit()
}

// Worse reports whether the judged change is a significant growth by more than gate, such as 0.03.
func (d *Diff) Worse(gate float64) bool {
	c := d.Judged()
	return c.Growth() > gate && c.Significant()
}
