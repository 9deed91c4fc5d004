package profile

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	gonum "gonum.org/v1/gonum/stat"

	"github.com/sixty-dev/sixty/internal/base/stat"
)

// A Profile is the analyses of one or several ranks together.
type Profile struct {
	Ranks     []*Analysis
	Devices   int
	Work                   // sum over all devices
	Kernels   []KernelStat // the heaviest first
	HostOnly  bool         // the host was recorded, and no device
	Workload  Workload
	Quantised bool              // the products' weights have 8 bits or fewer
	AMD       bool              // the GPUs are AMD's
	Cut       bool              // a file ends in the middle
	Before    int64             // nanoseconds before a device's first activity, mean over devices
	After     int64             // and after its last
	Steps     [Phases]StepTimes // by phase; all steps under Unknown
	StepsBy   string
	Tokens    int64
	Straggle  Straggle
	Host      Host
	Roofline  []Rate
	Partial   []string
	Notes     []string
}

// StepTimes are the times of the steps of one phase, in seconds.
type StepTimes struct {
	Count         int     `json:"count"`
	Mean          float64 `json:"mean_seconds"`
	P50           float64 `json:"p50_seconds"`
	P95           float64 `json:"p95_seconds"`
	Max           float64 `json:"max_seconds"`
	Deviation     float64 `json:"coefficient_of_variation"` // the standard deviation over the mean
	Period        float64 `json:"period_p50_seconds"`       // from step to step
	Busy          float64 `json:"device_busy_seconds"`      // per step: the device's work, and then its waiting
	Idle          float64 `json:"device_idle_seconds"`
	Late          float64 `json:"host_late_seconds"`
	Exposed       float64 `json:"communication_exposed_seconds"`
	Launches      float64 `json:"launches"`
	Kernels       float64 `json:"kernels"`
	PrefillTokens float64 `json:"prefill_tokens"` // mean of a step
	Decodes       float64 `json:"decode_requests"`
}

// Straggle says how devices wait for each other in communication. It compares the durations of the
// same collective on each: the device that arrives last has the shortest.
type Straggle struct {
	Known       bool    `json:"-"`
	Collectives int     `json:"collectives"`
	Share       float64 `json:"share"`      // waiting for others, as a share of all devices' wall time
	Last        string  `json:"last"`       // the device that the others wait for most
	LastShare   float64 `json:"last_share"` // share of collectives for which it came last
	Since       int     `json:"since_step"` // step from which on it comes last in most; -1 is unknown
	Why         string  `json:"why"`        // the part that takes longer on it; "" is unknown
	Cause       string  `json:"cause"`      // the kind of Why: kernels or host
}

// unknownMuch is the share of the GPU's time from which a kernel without a rule is reported.
const unknownMuch = 0.02

// Combine puts the analyses of ranks together.
func Combine(ranks []*Analysis) *Profile {
	p := &Profile{Ranks: ranks}
	kernels := map[string]*KernelStat{}
	var stepsByPhase [Phases][]*Step
	for _, a := range ranks {
		a.among = len(ranks) > 1
		p.addRank(a, kernels, &stepsByPhase)
	}
	for _, k := range kernels {
		p.Kernels = append(p.Kernels, *k)
	}
	slices.SortFunc(p.Kernels, func(a, b KernelStat) int {
		return cmp.Or(cmp.Compare(b.Sum, a.Sum), cmp.Compare(a.Name, b.Name))
	})
	for i, list := range stepsByPhase {
		p.Steps[i] = summarizeSteps(list)
	}
	p.Before, p.After = p.Before/int64(max(p.Devices, 1)), p.After/int64(max(p.Devices, 1))
	p.findStragglers()
	var unknown []string
	for i := range p.Kernels {
		if k := &p.Kernels[i]; k.Group == Other && p.OfBusy(k.Sum) > unknownMuch {
			unknown = append(unknown, fmt.Sprintf("%.80s (%.1f %% of the GPU's time)", k.Short, 100*p.OfBusy(k.Sum)))
		}
	}
	if len(unknown) > 0 {
		p.Notes = append(p.Notes, "neither name nor launcher identifies the purpose of: "+strings.Join(unknown, ", "))
	}
	slices.SortStableFunc(p.Roofline, func(a, b Rate) int { return cmp.Compare(b.Time, a.Time) })
	return p
}

func (p *Profile) addRank(a *Analysis, kernels map[string]*KernelStat, stepsByPhase *[Phases][]*Step) {
	for _, d := range a.Devices {
		p.Devices++
		p.addDevice(&d.Work)
		p.Before += max(0, d.From-a.From)
		p.After += max(0, a.From+a.Span-d.From-d.Wall)
	}
	for i := range a.Kernels {
		k := a.Kernels[i]
		key := string(rune(k.Group)) + k.Name
		if o := kernels[key]; o != nil {
			o.Count, o.Sum, o.Max = o.Count+k.Count, o.Sum+k.Sum, max(o.Max, k.Max)
			o.Squares, o.Graph = o.Squares+k.Squares, o.Graph+k.Graph
		} else {
			kernels[key] = &k
		}
	}
	for i := range a.Steps {
		s := &a.Steps[i]
		stepsByPhase[Unknown] = append(stepsByPhase[Unknown], s)
		if s.Phase != Unknown {
			stepsByPhase[s.Phase] = append(stepsByPhase[s.Phase], s)
		}
		p.Tokens += int64(s.Tokens())
	}
	p.HostOnly = p.HostOnly || a.HostOnly
	p.Workload = max(p.Workload, a.Workload)
	p.Quantised, p.AMD = p.Quantised || a.Quantised, p.AMD || a.AMD
	p.StepsBy = cmp.Or(p.StepsBy, a.StepsBy)
	addNumbers(reflect.ValueOf(&p.Host).Elem(), reflect.ValueOf(&a.Host).Elem())
	p.Roofline = append(p.Roofline, a.Roofline...)
	of := ""
	if len(p.Ranks) > 1 {
		of = a.Name() + ": "
	}
	for _, s := range a.Partial {
		p.Cut = p.Cut || strings.HasPrefix(s, "the file ends")
		p.Partial = append(p.Partial, of+s)
	}
	for _, s := range a.Notes {
		if !slices.Contains(p.Notes, s) {
			p.Notes = append(p.Notes, s)
		}
	}
}

// Name distinguishes an analysis from others.
func (a *Analysis) Name() string {
	if a.Rank >= 0 {
		return fmt.Sprintf("rank %d", a.Rank)
	}
	return path.Base(a.Source)
}

// DeviceName names a device among all.
func (a *Analysis) DeviceName(d *Device) string {
	name := fmt.Sprintf("GPU %d", d.ID)
	if a.Rank >= 0 || a.among {
		name = a.Name() + ", " + name
	}
	return name
}

func summarizeSteps(list []*Step) StepTimes {
	t := StepTimes{Count: len(list)}
	if len(list) == 0 {
		return t
	}
	var took, periods []float64
	for _, s := range list {
		took = append(took, float64(s.Time())/1e9)
		if s.Period > 0 {
			periods = append(periods, s.periodSeconds())
		}
	}
	mean := func(f func(*Step) float64) float64 { return gonum.Mean(valuesOf(list, f), nil) }
	slices.Sort(took)
	t.Mean, t.Max = gonum.Mean(took, nil), took[len(took)-1]
	t.P50, t.P95 = stat.Quantile(took, 0.5), stat.Quantile(took, 0.95)
	if t.Mean > 0 {
		t.Deviation = gonum.PopStdDev(took, nil) / t.Mean
	}
	t.Busy = mean(func(s *Step) float64 { return float64(s.Busy) / 1e9 })
	t.Idle = mean(func(s *Step) float64 { return float64(s.Idle) / 1e9 })
	t.Late = mean(func(s *Step) float64 { return float64(s.HostLate) / 1e9 })
	t.Exposed = mean(func(s *Step) float64 { return float64(s.Exposed) / 1e9 })
	t.Kernels = mean(func(s *Step) float64 { return float64(s.Kernels) })
	t.Launches = mean(func(s *Step) float64 { return float64(s.Launches) })
	t.PrefillTokens = mean(func(s *Step) float64 { return float64(s.PrefillTokens) })
	t.Decodes = mean(func(s *Step) float64 { return float64(s.DecodeRequests) })
	t.Period = stat.Median(periods)
	return t
}

// findStragglers compares the devices' communication kernels, the first with the first and so on.
// Devices with different numbers of such kernels take part in different collectives.
func (p *Profile) findStragglers() {
	groups := map[int][]*member{}
	for a, d := range p.EachDevice {
		if n := len(d.Waits); n > 0 {
			groups[n] = append(groups[n], &member{Device: d, name: a.DeviceName(d)})
		}
	}
	s, waited := &p.Straggle, int64(0)
	var worst *member
	var peers []*member
	for _, n := range slices.Sorted(maps.Keys(groups)) {
		members := groups[n]
		if len(members) < 2 {
			continue
		}
		compareWaits(members)
		s.Collectives += n
		for _, m := range members {
			waited += m.waited
			if worst == nil || m.waited > worst.waited {
				worst, peers = m, members
			}
		}
	}
	if s.Collectives == 0 || p.Wall == 0 {
		return
	}
	s.Known, s.Share = true, float64(waited)/float64(p.Wall)
	n := len(worst.Waits)
	if len(worst.last) == 0 {
		return
	}
	s.Last, s.LastShare = worst.name, float64(len(worst.last))/float64(n)
	for k, i := range worst.last { // since when it comes last in most collectives
		if 4*(len(worst.last)-k) > 3*(n-i) {
			s.Since = int(worst.WaitSteps[i])
			break
		}
	}
	s.explain(worst, peers)
}

type member struct {
	*Device
	name   string
	waited int64 // by others for it
	last   []int // collectives for which it came last
}

func compareWaits(members []*member) {
	for i := range members[0].Waits {
		byWait := func(a, b *member) int { return cmp.Compare(a.Waits[i], b.Waits[i]) }
		last, longest := slices.MinFunc(members, byWait), slices.MaxFunc(members, byWait).Waits[i]
		least := last.Waits[i]
		for _, m := range members {
			last.waited += m.Waits[i] - least
		}
		if longest > least+least/10 {
			last.last = append(last.last, i)
		}
	}
}

// explain finds the group or cause that takes the worst member longer than the median of its peers,
// by at least half of their waiting.
func (s *Straggle) explain(worst *member, peers []*member) {
	longest, enough := int64(0), worst.waited/int64(2*(len(peers)-1))
	more := func(f func(*Device) int64) (more, typical int64) {
		var others []int64
		for _, m := range peers {
			if m != worst {
				others = append(others, f(m.Device))
			}
		}
		typical = stat.Median(others)
		return f(worst.Device) - typical, typical
	}
	for g := range Communication {
		t, typical := more(func(d *Device) int64 { return d.Group[g].Time })
		if t > max(longest, enough) {
			longest, s.Cause = t, "kernels"
			s.Why = fmt.Sprintf("its %s kernels take %.0f %% longer", g, 100*shareOf(t, typical))
		}
	}
	for c := range LaunchGap {
		if t, _ := more(func(d *Device) int64 { return d.Idle[c] }); t > max(longest, enough) {
			longest, s.Cause, s.Why = t, "host", fmt.Sprintf("its host is %s longer in: %s", formatSeconds(t), c)
		}
	}
}

// Heaviest is the kernel that takes the most of a group's time, without a name if the group has no kernel.
func (p *Profile) Heaviest(g Group) KernelStat {
	for i := range p.Kernels {
		if p.Kernels[i].Group == g {
			return p.Kernels[i]
		}
	}
	return KernelStat{}
}

// EachDevice calls yield for all devices of all ranks.
func (p *Profile) EachDevice(yield func(*Analysis, *Device) bool) {
	for _, a := range p.Ranks {
		for _, d := range a.Devices {
			if !yield(a, d) {
				return
			}
		}
	}
}

// Seconds is the mean wall time of a device.
func (p *Profile) Seconds() float64 { return float64(p.Wall) / 1e9 / float64(max(p.Devices, 1)) }

// OfRecorded is the share of the recorded time between a device's first activity and its last.
func (p *Profile) OfRecorded() float64 {
	each := p.Wall / int64(max(p.Devices, 1))
	return shareOf(each, each+p.Before+p.After)
}

// LongestGap is the longest gap of a cause that comes back, among the gaps that are shown; or nil.
func (p *Profile) LongestGap(cause string) *Gap {
	var longest *Gap
	for _, d := range p.EachDevice {
		for i := range d.Gaps {
			if g := &d.Gaps[i]; g.Cause.String() == cause && !g.Once && (longest == nil || g.Time > longest.Time) {
				longest = g
			}
		}
	}
	return longest
}

// GPU is the first device; its zero value: no device.
func (p *Profile) GPU() GPU {
	for _, d := range p.EachDevice {
		return d.GPU
	}
	return GPU{}
}
