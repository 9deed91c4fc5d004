// Package profile says where a GPU's time went. It answers two questions about a trace of torch.profiler or Nsight
// Systems: which kernels took the device's time, and why the device was idle between them.
//
// The data, in the order in which they are made:
//
//   - A Timeline holds a trace: a packed Log of Events for each kind of activity of a Stream of a device, and for each
//     class of calls of a Thread of the host. The packages torch and nsys fill it.
//   - Analyze makes an Analysis of one Timeline, in five passes:
//     readNames classifies each name once;
//     findSteps finds the iterations of the engine or of the training loop;
//     walkThreads goes through the threads' calls, and finds the launches and what the host did between them;
//     sweepDevices goes through each device's activities by time, and makes its Breakdown;
//     finishAnalysis sorts the kernels and computes the rates of operators.
//   - Combine adds the analyses of several ranks up to a Profile, and compares how long devices waited for others.
//   - Compare makes a Diff of two profiles, step by step, with Welch's t-test against chance.
//
// In a Breakdown, each nanosecond of a device's wall time belongs to a Group of computing kernels, to exposed
// communication, to exposed copies, or to one Cause of idleness. So the parts add up to the wall time.
//
// A device's activity and the host's call that launched it share a correlation number. Through it, a kernel gets the
// step and the operator that it was launched for, and a gap before it gets its cause.
//
// All times are nanoseconds, if a name or comment says nothing else. The package judges nothing; package finding does.
// It performs no I/O and reads no clock: the same trace gives the same analysis.
package profile

import (
	"cmp"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	gonum "gonum.org/v1/gonum/stat"

	"github.com/sixty-dev/sixty/internal/base/stat"
)

// A Profile is the analyses of one or several ranks together.
type Profile struct {
	Ranks      []*Analysis
	Devices    int
	Breakdown               // sum over all devices
	Kernels    []KernelStat // the heaviest first
	HostOnly   bool         // an analysis has the host and no device
	Workload   Workload
	Quantised  bool              // the products' weights have 8 bits or fewer
	AMD        bool              // the GPUs are AMD's
	Truncated  bool              // a file ends in the middle
	Before     int64             // recorded time before a device's first activity, mean over devices
	After      int64             // recorded time after its last, likewise
	Steps      [Phases]StepTimes // by phase; all steps under Unknown
	StepsBy    string            // how steps were detected; "" without steps
	Tokens     int64             // computed in all steps
	Stragglers Stragglers
	Host       Host
	Roofline   []Rate
	Partial    []string // why the profile is not of the whole traces
	Notes      []string
}

// StepTimes are the times of the steps of one phase.
type StepTimes struct {
	Count         int     `json:"count"`
	Mean          float64 `json:"mean_seconds"`
	P50           float64 `json:"p50_seconds"`
	P95           float64 `json:"p95_seconds"`
	Max           float64 `json:"max_seconds"`
	Deviation     float64 `json:"coefficient_of_variation"` // standard deviation over mean
	Period        float64 `json:"period_p50_seconds"`       // from a step's start to the next one's
	Busy          float64 `json:"device_busy_seconds"`      // this and the following: means over the steps
	Idle          float64 `json:"device_idle_seconds"`
	Late          float64 `json:"host_late_seconds"`
	Exposed       float64 `json:"communication_exposed_seconds"`
	Launches      float64 `json:"launches"`
	Kernels       float64 `json:"kernels"`
	PrefillTokens float64 `json:"prefill_tokens"`
	Decodes       float64 `json:"decode_requests"`
}

// unknownShare is the least share of the GPU's time of a kernel that a note says no rule knows.
const unknownShare = 0.02

type kernelKey struct {
	group Group
	name  string
}

// Combine adds the analyses of ranks up to a profile.
func Combine(ranks []*Analysis) *Profile {
	p := &Profile{Ranks: ranks}
	kernels := map[kernelKey]*KernelStat{}
	var stepsByPhase [Phases][]*Step
	for _, a := range ranks {
		a.severalRanks = len(ranks) > 1
		p.addRank(a, kernels, &stepsByPhase)
	}
	for _, k := range kernels {
		p.Kernels = append(p.Kernels, *k)
	}
	slices.SortFunc(p.Kernels, func(a, b KernelStat) int {
		return cmp.Or(cmp.Compare(b.Sum, a.Sum), cmp.Compare(a.Name, b.Name))
	})
	for phase, steps := range stepsByPhase {
		p.Steps[phase] = summarizeSteps(steps)
	}
	p.Before, p.After = p.Before/int64(max(p.Devices, 1)), p.After/int64(max(p.Devices, 1))
	p.findStragglers()
	var unknown []string
	for i := range p.Kernels {
		if k := &p.Kernels[i]; k.Group == Other && p.ShareOfBusy(k.Sum) > unknownShare {
			unknown = append(unknown,
				fmt.Sprintf("%.80s (%.1f %% of the GPU's time)", k.Short, 100*p.ShareOfBusy(k.Sum)))
		}
	}
	if len(unknown) > 0 {
		p.Notes = append(p.Notes, "neither name nor launcher identifies the purpose of: "+strings.Join(unknown, ", "))
	}
	slices.SortStableFunc(p.Roofline, func(a, b Rate) int { return cmp.Compare(b.Time, a.Time) })
	return p
}

func (p *Profile) addRank(a *Analysis, kernels map[kernelKey]*KernelStat, stepsByPhase *[Phases][]*Step) {
	for _, d := range a.Devices {
		p.Devices++
		addNumbers(reflect.ValueOf(&p.Breakdown).Elem(), reflect.ValueOf(&d.Breakdown).Elem())
		p.Before += max(0, d.From-a.From)
		p.After += max(0, a.From+a.Span-d.From-d.Wall)
	}
	for _, k := range a.Kernels {
		key := kernelKey{k.Group, k.Name}
		if sum := kernels[key]; sum != nil {
			sum.Count, sum.Sum, sum.Max = sum.Count+k.Count, sum.Sum+k.Sum, max(sum.Max, k.Max)
			sum.Squares, sum.Graph = sum.Squares+k.Squares, sum.Graph+k.Graph
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
	p.Truncated, p.HostOnly = p.Truncated || a.Truncated, p.HostOnly || a.HostOnly
	p.Workload = max(p.Workload, a.Workload)
	p.Quantised, p.AMD = p.Quantised || a.Quantised, p.AMD || a.AMD
	p.StepsBy = cmp.Or(p.StepsBy, a.StepsBy)
	addNumbers(reflect.ValueOf(&p.Host).Elem(), reflect.ValueOf(&a.Host).Elem())
	p.Roofline = append(p.Roofline, a.Roofline...)
	prefix := ""
	if a.severalRanks {
		prefix = a.Name() + ": "
	}
	for _, s := range a.Partial {
		p.Partial = append(p.Partial, prefix+s)
	}
	for _, s := range a.Notes {
		if !slices.Contains(p.Notes, s) {
			p.Notes = append(p.Notes, s)
		}
	}
}

// Name distinguishes an analysis from others: by its rank or, if it is unknown, by its file.
func (a *Analysis) Name() string {
	if a.Rank >= 0 {
		return fmt.Sprintf("rank %d", a.Rank)
	}
	return path.Base(a.Source)
}

// DeviceName distinguishes a device from all others of the profile.
func (a *Analysis) DeviceName(d *Device) string {
	name := fmt.Sprintf("GPU %d", d.ID)
	if a.Rank >= 0 || a.severalRanks {
		name = a.Name() + ", " + name
	}
	return name
}

func summarizeSteps(steps []*Step) StepTimes {
	t := StepTimes{Count: len(steps)}
	if len(steps) == 0 {
		return t
	}
	var times, periods []float64
	for _, s := range steps {
		times = append(times, float64(s.Time())/1e9)
		if s.Period > 0 {
			periods = append(periods, s.periodSeconds())
		}
	}
	mean := func(f func(*Step) float64) float64 { return gonum.Mean(valuesOf(steps, f), nil) }
	slices.Sort(times)
	t.Mean, t.Max = gonum.Mean(times, nil), times[len(times)-1]
	t.P50, t.P95 = stat.Quantile(times, 0.5), stat.Quantile(times, 0.95)
	if t.Mean > 0 {
		t.Deviation = gonum.PopStdDev(times, nil) / t.Mean
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

// Heaviest returns the kernel that takes the most of a group's time; its zero value is no kernel.
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

// Seconds is the mean wall time of a device, in seconds.
func (p *Profile) Seconds() float64 { return float64(p.Wall) / 1e9 / float64(max(p.Devices, 1)) }

// RecordedShare is the wall time as a share of the recorded time, from 0 to 1.
func (p *Profile) RecordedShare() float64 {
	each := p.Wall / int64(max(p.Devices, 1))
	return shareOf(each, each+p.Before+p.After)
}

// LongestGap returns the longest recurring gap with a cause, by the cause's name, among the devices' Gaps; or nil.
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

// GPU describes the first device; its zero value is no device.
func (p *Profile) GPU() GPU {
	for _, d := range p.EachDevice {
		return d.GPU
	}
	return GPU{}
}
