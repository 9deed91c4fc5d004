package profile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// A Change is what became of one quantity between two profiles, in seconds for each unit
// of work.
type Change struct {
	Name          string
	Before, After float64
	P             float64 // that steps alike would differ so; NaN is not known
}

// Growth is the relative change; +Inf where there was nothing before.
func (c Change) Growth() float64 {
	switch {
	case c.Before == c.After:
		return 0
	case c.Before == 0:
		return math.Inf(1)
	}
	return c.After/c.Before - 1
}

// Significant reports whether chance hardly explains the change. Where nothing is known of
// chance it is believed.
func (c Change) Significant() bool { return math.IsNaN(c.P) || c.P < significance }

// significance is how unlikely a difference must be.
const significance = 0.01

// A Diff compares two profiles.
type Diff struct {
	Per          string // what a unit of work is: "decode step", "step", "trace"
	Before       int    // units
	After        int
	Total        Change // of a unit
	Token        *Change
	Groups       []Change
	Idle         []Change
	Kernels      []Change // the largest changes first
	Tested       bool
	Caveats      []string
	BeforeTokens float64 // mean of a unit
	AfterTokens  float64
	OtherBatches bool // they differ: then the time for each token counts
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
	d := &Diff{Per: per}
	x, y := sampled(before, phase), sampled(after, phase)
	if len(x) == 0 || len(y) == 0 {
		d.Per = "trace"
		d.Before, d.After = 1, 1
		d.Total = Change{"wall time", before.Seconds(), after.Seconds(), math.NaN()}
		if before.Devices == 0 || after.Devices == 0 {
			d.Caveats = append(d.Caveats, "one of the traces has no GPU: nothing of it can be compared but steps")
		}
		d.Caveats = append(d.Caveats, "steps are not told apart in both traces: whole traces are compared, and nothing says how much of the difference is chance or more work")
		d.groups(func(p *Profile, g Group) []float64 {
			return []float64{float64(p.Group[g].Time) / 1e9 / float64(max(p.Devices, 1))}
		},
			func(p *Profile, c Cause) []float64 {
				return []float64{float64(p.Idle[c]) / 1e9 / float64(max(p.Devices, 1))}
			}, before, after)
		d.kernels(before, after, 1/float64(max(before.Devices, 1)), 1/float64(max(after.Devices, 1)))
		return d
	}
	d.Before, d.After, d.Tested = len(x), len(y), len(x) >= 3 && len(y) >= 3
	of := func(list []*Step, f func(*Step) int64) []float64 {
		out := make([]float64, len(list))
		for i, s := range list {
			out[i] = float64(f(s)) / 1e9
		}
		return out
	}
	pick := func(p *Profile) []*Step {
		if p == before {
			return x
		}
		return y
	}
	d.Total = change("time", of(x, (*Step).Time), of(y, (*Step).Time))
	if a, b := tokens(x), tokens(y); a > 0 && b > 0 {
		d.BeforeTokens, d.AfterTokens = a/float64(len(x)), b/float64(len(y))
		d.Token = &Change{"time per token", d.Total.Before * float64(len(x)) / a, d.Total.After * float64(len(y)) / b, d.Total.P}
		if r := d.AfterTokens / d.BeforeTokens; r > 1.05 || r < 0.95 {
			d.OtherBatches = true
			d.Caveats = append(d.Caveats, "the batches differ, so that the time for each token counts")
		}
	}
	d.groups(func(p *Profile, g Group) []float64 { return of(pick(p), func(s *Step) int64 { return s.Group[g] }) }, nil, before, after)
	idle := change("idle", of(x, func(s *Step) int64 { return s.Idle }), of(y, func(s *Step) int64 { return s.Idle }))
	late := change("idle: host late", of(x, func(s *Step) int64 { return s.HostLate }), of(y, func(s *Step) int64 { return s.HostLate }))
	d.Idle = []Change{idle, late}
	d.kernels(before, after, 1/float64(max(before.Steps[Unknown].Count, 1)), 1/float64(max(after.Steps[Unknown].Count, 1)))
	if !d.Tested {
		d.Caveats = append(d.Caveats, "fewer than three steps: nothing says how much of the difference is chance")
	}
	return d
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

func tokens(list []*Step) float64 {
	n := 0.0
	for _, s := range list {
		n += float64(s.Tokens())
	}
	return n
}

func (d *Diff) groups(of func(*Profile, Group) []float64, idle func(*Profile, Cause) []float64, before, after *Profile) {
	for g := range Groups {
		if c := change(g.String(), of(before, g), of(after, g)); c.Before > 0 || c.After > 0 {
			d.Groups = append(d.Groups, c)
		}
	}
	if idle == nil {
		return
	}
	for c := range Causes {
		if x := change("idle: "+c.String(), idle(before, c), idle(after, c)); x.Before > 0 || x.After > 0 {
			d.Idle = append(d.Idle, x)
		}
	}
}

// kernels compares the sums of kernels by their names, each for a unit.
func (d *Diff) kernels(before, after *Profile, perBefore, perAfter float64) {
	sums := map[string]*Change{}
	add := func(p *Profile, per float64, to func(*Change) *float64) {
		for i := range p.Kernels {
			k := &p.Kernels[i]
			c := sums[k.Short]
			if c == nil {
				c = &Change{Name: k.Short, P: math.NaN()}
				sums[k.Short] = c
			}
			*to(c) += float64(k.Sum) / 1e9 * per
		}
	}
	add(before, perBefore, func(c *Change) *float64 { return &c.Before })
	add(after, perAfter, func(c *Change) *float64 { return &c.After })
	for _, c := range sums {
		d.Kernels = append(d.Kernels, *c)
	}
	slices.SortFunc(d.Kernels, func(a, b Change) int {
		return cmp.Or(cmp.Compare(math.Abs(b.After-b.Before), math.Abs(a.After-a.Before)), cmp.Compare(a.Name, b.Name))
	})
}

// change compares samples by Welch's t-test.
func change(name string, before, after []float64) Change {
	c := Change{Name: name, P: math.NaN(), Before: stat.Mean(before, nil), After: stat.Mean(after, nil)}
	if len(before) < 3 || len(after) < 3 {
		return c
	}
	a, b := stat.Variance(before, nil)/float64(len(before)), stat.Variance(after, nil)/float64(len(after))
	if a+b == 0 {
		c.P = 1
		if c.Before != c.After {
			c.P = 0
		}
		return c
	}
	t := (c.After - c.Before) / math.Sqrt(a+b)
	freedom := (a + b) * (a + b) / (a*a/float64(len(before)-1) + b*b/float64(len(after)-1))
	c.P = 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.CDF(-math.Abs(t))
	return c
}

// Judged is the change that counts: of a unit of work or, where the batches differ, of a token.
func (d *Diff) Judged() Change {
	if d.Token != nil && d.OtherBatches {
		return *d.Token
	}
	return d.Total
}

// Worse reports whether the work takes longer than before by more than a share, and not by
// chance.
func (d *Diff) Worse(gate float64) bool {
	c := d.Judged()
	return c.Growth() > gate && c.Significant()
}

// ParseGate reads a share by which a step may take longer, as "3%" or "0.03"; -1 is none.
func ParseGate(text string) (float64, error) {
	if text == "" {
		return -1, nil
	}
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || math.IsNaN(v) || v < 0 || v > 100 {
		return 0, hint.With(fmt.Errorf("--gate: %q is no share", text), "write it as 3% or 0.03")
	}
	return v, nil
}
