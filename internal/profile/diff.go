package profile

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// A Change is what became of one quantity between two profiles, in seconds for each unit
// of work.
type Change struct {
	Name                        string
	Before, After               float64
	P                           float64 // that steps alike would differ so; NaN is not known
	LaunchesBefore, LaunchesNow float64 // for each unit, where it is kernels
	Named                       bool    // it changed, not by chance, and enough to be told
}

// Growth is the relative change; +Inf where there was nothing before.
func (c Change) Growth() float64 { return growth(c.Before, c.After) }

func growth(before, after float64) float64 {
	switch {
	case before == after:
		return 0
	case before == 0:
		return math.Inf(1)
	}
	return after/before - 1
}

// MeanGrowth is how much longer or shorter one launch became.
func (c Change) MeanGrowth() float64 {
	if c.LaunchesBefore == 0 || c.LaunchesNow == 0 {
		return 0
	}
	return growth(c.Before/c.LaunchesBefore, c.After/c.LaunchesNow)
}

// Significant reports whether chance hardly explains the change. Where nothing is known of
// chance it is believed.
func (c Change) Significant() bool { return math.IsNaN(c.P) || c.P < significance }

const (
	// significance is how unlikely a difference must be.
	significance = 0.01
	// surely is how unlikely one of the many parts must be.
	surely = 1e-3
	// A part is told where it changed by these shares of itself, and of the unit of work: kernels by less than
	// idleness, which differs from run to run.
	ownKernels, unitKernels = 0.02, 0.002
	ownIdle, unitIdle       = 0.1, 0.01
	// launchesMore is by which share the number of launches of a unit differs where chance does not decide it.
	launchesMore = 0.02
	// otherBatches is by which share steps' tokens differ where times of steps say nothing.
	otherBatches = 0.05
)

// A Diff compares two profiles.
type Diff struct {
	Per          string // what a unit of work is: "decode step", "step", "trace"
	Before       int    // units
	After        int
	Period       Change // from one unit to the next; zero where it is not known
	Total        Change // of a unit, from its first activity to its last
	Token        *Change
	Groups       []Change
	Idle         []Change
	Kernels      []Change // as Parts are ordered
	Caveats      []string // what else differs: to be said first
	OtherBatches bool     // they differ: then the time for each token counts
}

// Compare says what grew from one profile to another, for each step of the phase that both
// have most of; without steps for the whole trace.
func Compare(before, after *Profile) *Diff {
	phase, per := Unknown, "step"
	for _, p := range []Phase{Decode, Mixed, Prefill} {
		a, b := before.Steps[p].Count, after.Steps[p].Count
		if a >= 3 && b >= 3 && min(a, b) > min(before.Steps[phase].Count, after.Steps[phase].Count)/2 {
			phase, per = p, p.String()+" step"
			break
		}
	}
	d := &Diff{Per: per, Caveats: otherwise(before, after)}
	x, y := sampled(before, phase), sampled(after, phase)
	if len(x) == 0 || len(y) == 0 {
		d.Per, x, y = "trace", []*Step{whole(before)}, []*Step{whole(after)}
		if before.Devices == 0 || after.Devices == 0 {
			d.Caveats = append(d.Caveats, "one of the traces has no GPU: only steps can be compared")
		}
		d.Caveats = append(d.Caveats, "not both traces have steps: whole traces are compared, and the difference may be chance or more work")
	}
	d.Before, d.After = len(x), len(y)
	if min(d.Before, d.After) < 3 && d.Per != "trace" {
		d.Caveats = append(d.Caveats, "fewer than three steps: the difference may be chance")
	}
	between := func(name string, f func(*Step) float64) Change { return change(name, of(x, f), of(y, f)) }
	d.Total = between("time", func(s *Step) float64 { return float64(s.Time()) / 1e9 })
	last := func(s *Step) bool { return s.Period == 0 }
	d.Period = change("period", of(slices.DeleteFunc(slices.Clone(x), last), (*Step).period), of(slices.DeleteFunc(slices.Clone(y), last), (*Step).period))
	if n := between("tokens", func(s *Step) float64 { return float64(s.Tokens()) }); n.Before > 0 && n.After > 0 {
		u := d.judged()
		d.Token = &Change{Name: "time per token", Before: u.Before / n.Before, After: u.After / n.After, P: u.P}
		if d.OtherBatches = math.Abs(n.Growth()) > otherBatches; d.OtherBatches {
			d.Caveats = append(d.Caveats, fmt.Sprintf("the batches differ, %.4g and %.4g tokens per step, so the time per token is compared", n.Before, n.After))
		}
	}
	unit := max(d.Period.Before, d.Total.Before)
	for g := range Groups {
		c := between(g.String(), func(s *Step) float64 { return float64(s.Group[g]) / 1e9 })
		n := between("launches", func(s *Step) float64 { return float64(s.Count[g]) })
		c.LaunchesBefore, c.LaunchesNow = n.Before, n.After
		if c.Before > 0 || c.After > 0 {
			d.Groups = append(d.Groups, c.named(unit, ownKernels, unitKernels))
		}
	}
	for k := range Causes {
		name, idle := k.String(), func(s *Step) float64 { return float64(s.Causes[k]) / 1e9 }
		switch k {
		case HostLate: // which of the two a gap is, its length decides
			name, idle = "host", func(s *Step) float64 { return float64(s.Causes[HostLate]+s.Causes[HostWork]) / 1e9 }
		case HostWork:
			continue
		}
		if c := between("idle: "+name, idle); c.Before > 0 || c.After > 0 {
			d.Idle = append(d.Idle, c.named(unit, ownIdle, unitIdle))
		}
	}
	d.kernels(before, after, unit)
	return d
}

// named decides whether a change is told.
func (c Change) named(unit, own, ofUnit float64) Change {
	more := math.Abs(growth(c.LaunchesBefore, c.LaunchesNow)) > launchesMore
	c.Named = (c.P < surely || math.IsNaN(c.P) || more) && math.Abs(c.After-c.Before) > max(own*c.Before, ofUnit*unit)
	return c
}

// otherwise says what of two profiles is not comparable.
func otherwise(before, after *Profile) (out []string) {
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

// whole is a profile as one step, of the mean of its devices.
func whole(p *Profile) *Step {
	n := int64(max(p.Devices, 1))
	s := &Step{GPUTo: p.Wall / n}
	for g := range p.Group {
		s.Group[g], s.Count[g] = p.Group[g].Time/n, int32(min(int64(p.Group[g].Count)/n, math.MaxInt32)) //nolint:gosec // bounded
	}
	for c := range p.Idle {
		s.Causes[c] = float32(p.Idle[c] / n)
	}
	return s
}

func (s *Step) period() float64 { return float64(s.Period) / 1e9 }

func of(list []*Step, f func(*Step) float64) []float64 {
	out := make([]float64, len(list))
	for i, s := range list {
		out[i] = f(s)
	}
	return out
}

func sampled(p *Profile, phase Phase) []*Step {
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

// kernels compares kernels by their names, each for a unit: a step of any phase, or the trace of a device.
func (d *Diff) kernels(before, after *Profile, unit float64) {
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
		c := Change{Name: name, Before: b.sum[0] / units[0], After: b.sum[1] / units[1], LaunchesBefore: b.count[0] / units[0], LaunchesNow: b.count[1] / units[1], P: 1}
		if slices.ContainsFunc(d.Groups, func(g Change) bool { return g.Named && g.Name == b.group }) {
			c.P = math.NaN() // the runs of a kernel differ more from layer to layer than from trace to trace
		} else if b.count[0] >= 3 && b.count[1] >= 3 {
			mean := [2]float64{b.sum[0] / b.count[0], b.sum[1] / b.count[1]}
			c.P = welch(mean, [2]float64{b.squares[0]/b.count[0] - mean[0]*mean[0], b.squares[1]/b.count[1] - mean[1]*mean[1]}, b.count)
		}
		d.Kernels = append(d.Kernels, c.named(unit, ownKernels, unitKernels))
	}
	slices.SortStableFunc(d.Kernels, byWeight)
}

// change compares samples by Welch's t-test.
func change(name string, before, after []float64) Change {
	c := Change{Name: name, P: math.NaN()}
	if len(before) == 0 || len(after) == 0 {
		return c
	}
	c.Before, c.After = stat.Mean(before, nil), stat.Mean(after, nil)
	if len(before) >= 3 && len(after) >= 3 {
		c.P = welch([2]float64{c.Before, c.After}, [2]float64{stat.Variance(before, nil), stat.Variance(after, nil)}, [2]float64{float64(len(before)), float64(len(after))})
	}
	return c
}

// welch is how likely samples alike have such means.
func welch(mean, variance, n [2]float64) float64 {
	a, b := max(variance[0], 0)/n[0], max(variance[1], 0)/n[1]
	if a+b == 0 {
		if mean[0] != mean[1] {
			return 0
		}
		return 1
	}
	t := (mean[1] - mean[0]) / math.Sqrt(a+b)
	freedom := (a + b) * (a + b) / (a*a/(n[0]-1) + b*b/(n[1]-1))
	return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.CDF(-math.Abs(t))
}

// Parts are the groups and the causes of idleness, those that changed and the largest changes first.
func (d *Diff) Parts() []Change {
	parts := slices.Concat(d.Groups, d.Idle)
	slices.SortStableFunc(parts, byWeight)
	return parts
}

// byWeight orders changes: those that are told first, then the largest.
func byWeight(a, b Change) int {
	weight := func(c Change) float64 {
		if c.Named {
			return 1e9 + math.Abs(c.After-c.Before)
		}
		return math.Abs(c.After - c.Before)
	}
	return cmp.Compare(weight(b), weight(a))
}

// judged is the change of a unit that counts: from one to the next or, where that is not known or not
// longer, and the unit itself takes longer, of the unit.
func (d *Diff) judged() Change {
	p, t := d.Period, d.Total
	if p.Before == 0 || !(p.Growth() > 0 && p.Significant()) && t.Growth() > 0 && t.Significant() && !(p.Growth() < -launchesMore && p.Significant()) {
		return t
	}
	return p
}

// Judged is the change that counts: of a unit of work or, where the batches differ, of a token.
func (d *Diff) Judged() Change {
	if d.Token != nil && d.OtherBatches {
		return *d.Token
	}
	return d.judged()
}

// Worse reports whether the work takes longer than before by more than a share, and not by
// chance.
func (d *Diff) Worse(gate float64) bool {
	c := d.Judged()
	return c.Growth() > gate && c.Significant()
}
