package profilereport

import (
	"io"
	"math"

	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/profile"
	"github.com/sixty-dev/sixty/internal/profile/finding"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report"
)

// Schema names the version of the JSON; changes to it only add.
const Schema = "sixty.profile/v1"

// maxKernels bounds the list of kernels in JSON and on the page.
const maxKernels = 200

type (
	profileJSON struct {
		Schema        string                       `json:"schema"`
		Tool          version.Tool                 `json:"tool"`
		Partial       []string                     `json:"partial"`
		Notes         []string                     `json:"notes"`
		Verdict       verdictJSON                  `json:"verdict"`
		Findings      []findingJSON                `json:"findings"`
		Wall          float64                      `json:"wall_seconds"`
		Before        float64                      `json:"before_seconds"`
		After         float64                      `json:"after_seconds"`
		Workload      string                       `json:"workload"`
		Shares        sharesJSON                   `json:"shares"`
		Once          float64                      `json:"one_time_seconds"`
		Gaps          []gapJSON                    `json:"gaps"`
		Groups        map[string]groupJSON         `json:"groups"`
		Idle          map[string]float64           `json:"idle"`
		Steps         map[string]profile.StepTimes `json:"steps"`
		StepsBy       string                       `json:"steps_by"`
		Kernels       []kernelJSON                 `json:"kernels"`
		Launchers     []launcherJSON               `json:"launchers"`
		Launches      launchesJSON                 `json:"launches"`
		Roofline      []rateJSON                   `json:"roofline"`
		Devices       []deviceJSON                 `json:"devices"`
		Stragglers    *profile.Straggle            `json:"stragglers"`
		Sources       []sourceJSON                 `json:"sources"`
		TokensTotal   int64                        `json:"tokens"`
		SecondsToken  *float64                     `json:"seconds_per_token"`
		AttentionOf   float64                      `json:"attention_fraction"`
		GEMMOf        float64                      `json:"gemm_fraction"`
		CommOf        float64                      `json:"communication_fraction"`
		GPUIdleOf     float64                      `json:"gpu_idle_fraction"`
		MemoryMaximum map[int]uint64               `json:"memory_allocated_max_bytes"`
	}
	verdictJSON struct {
		ID       string `json:"id"`
		Severity string `json:"severity,omitempty"`
		Summary  string `json:"summary"`
	}
	findingJSON struct {
		ID       string   `json:"id"`
		Status   string   `json:"status"`
		Severity string   `json:"severity"`
		Summary  string   `json:"summary"`
		Reasons  []string `json:"reasons"`
		Cost     float64  `json:"share_of_wall"`
		Evidence any      `json:"evidence"`
		Fixes    any      `json:"fixes"`
		Runbook  string   `json:"runbook"`
	}
	sharesJSON struct {
		Busy          float64 `json:"busy"`
		Compute       float64 `json:"compute"`
		Communication float64 `json:"communication"`
		Exposed       float64 `json:"communication_exposed"`
		Hidden        float64 `json:"communication_hidden"`
		Copies        float64 `json:"copies_exposed"`
		Idle          float64 `json:"idle"`
	}
	groupJSON struct {
		Share float64 `json:"share"`
		Time  float64 `json:"seconds"`
		Sum   float64 `json:"sum_seconds"`
		Count int     `json:"count"`
		Alone float64 `json:"alone_seconds"`
		Flops float64 `json:"flops_per_second,omitempty"`
	}
	launcherJSON struct {
		Name     string  `json:"name"`
		Depth    int     `json:"depth"`
		Time     float64 `json:"seconds"`
		Launches int     `json:"launches"`
		Flops    float64 `json:"flops,omitempty"`
	}
	kernelJSON struct {
		Name     string  `json:"name"`
		Library  string  `json:"library,omitempty"`
		Group    string  `json:"group"`
		Count    int     `json:"count"`
		Sum      float64 `json:"sum_seconds"`
		Max      float64 `json:"max_seconds"`
		Graph    int     `json:"replayed_by_graphs"`
		Operator string  `json:"operator,omitempty"`
	}
	gapJSON struct {
		Device string  `json:"device"`
		From   float64 `json:"from_seconds"` // since the device's first activity
		Time   float64 `json:"seconds"`
		Cause  string  `json:"cause"`
		Once   bool    `json:"one_time"`
		Host   string  `json:"host"`
		Before string  `json:"before"`
	}
	launchesJSON struct {
		Launches    int     `json:"launches"`
		Graphs      int     `json:"graph_launches"`
		Time        float64 `json:"seconds"`
		Syncs       int     `json:"synchronizations"`
		SyncTime    float64 `json:"synchronization_seconds"`
		Kernels     int     `json:"kernels"`
		Replayed    int     `json:"kernels_replayed_by_graphs"`
		Small       int     `json:"kernels_under_10us"`
		WholeGraphs int     `json:"graphs_without_their_kernels"`
	}
	rateJSON struct {
		Operator string   `json:"operator"`
		Dims     string   `json:"dims"`
		Count    int      `json:"count"`
		Time     float64  `json:"seconds"`
		Flops    float64  `json:"flops_per_second"`
		Bytes    float64  `json:"bytes_per_second"`
		Peak     *float64 `json:"share_of_peak"`
		Bound    string   `json:"bound,omitempty"`
	}
	deviceJSON struct {
		Name   string     `json:"name"`
		GPU    string     `json:"gpu"`
		Rank   int        `json:"rank"`
		Wall   float64    `json:"wall_seconds"`
		Shares sharesJSON `json:"shares"`
	}
	sourceJSON struct {
		Path   string `json:"path"`
		Tool   string `json:"tool"`
		Rank   int    `json:"rank"`
		Events int64  `json:"events"`
	}
)

// JSON writes a profile as one object, documented in docs/profile.md.
func JSON(w io.Writer, p *profile.Profile, v *finding.Verdict) error {
	return render.JSON(w, newJSON(p, v))
}

func sec(ns int64) float64 { return float64(ns) / 1e9 }

func newJSON(p *profile.Profile, v *finding.Verdict) profileJSON {
	id, severity, summary := headline(p, v)
	out := profileJSON{
		Schema: Schema, Tool: version.This(), Partial: list(p.Partial), Notes: list(p.Notes), Verdict: verdictJSON{id, severity, summary},
		Findings: []findingJSON{}, Wall: sec(p.Wall), Groups: map[string]groupJSON{}, Idle: map[string]float64{}, Steps: map[string]profile.StepTimes{}, StepsBy: p.StepsBy,
		Gaps: []gapJSON{}, Launchers: []launcherJSON{}, Kernels: []kernelJSON{}, Roofline: []rateJSON{}, Devices: []deviceJSON{}, Sources: []sourceJSON{}, TokensTotal: p.Tokens, MemoryMaximum: map[int]uint64{},
		Launches: launchesJSON{
			p.Host.Launches, p.Host.GraphLaunches, sec(p.Host.LaunchTime), p.Host.Syncs, sec(p.Host.SyncTime), p.Runs, p.Graph, p.Small, p.WholeGraph,
		},
		AttentionOf: p.Share(p.Group[profile.Attention].Time), GEMMOf: p.Share(p.Group[profile.GEMM].Time + p.Group[profile.MoE].Time),
		CommOf: p.Share(p.Communication), GPUIdleOf: p.Share(p.IdleTime()),
	}
	out.Before, out.After, out.Once, out.Workload = sec(p.Before), sec(p.After), sec(p.OnceTime()), p.Workload.String()
	for _, g := range gaps(p) {
		out.Gaps = append(out.Gaps, gapJSON{g.on, sec(g.From - g.since), sec(g.Time), g.Cause.String(), g.Once, g.Host, g.Before})
	}
	out.Shares = newShares(&p.Work)
	if p.Tokens > 0 {
		s := p.Seconds() / float64(p.Tokens)
		out.SecondsToken = &s
	}
	for i := range v.Findings {
		out.Findings = append(out.Findings, newFinding(&v.Findings[i], "firing"))
	}
	for i := range v.Others {
		status := "ok"
		if v.Others[i].Holds == catalog.Unknown {
			status = "unknown"
		}
		out.Findings = append(out.Findings, newFinding(&v.Others[i], status))
	}
	for g := range profile.Groups {
		if x := p.Group[g]; x.Count > 0 {
			out.Groups[g.String()] = groupJSON{p.Share(x.Time), sec(x.Time), sec(x.Sum), x.Count, sec(x.Alone), x.Flops / max(sec(x.Known), 1e-9)}
		}
	}
	for c := range profile.Causes {
		out.Idle[c.String()] = p.Share(p.Idle[c])
	}
	for phase, name := range []string{"all", "prefill", "decode", "mixed"} {
		if s := p.Steps[phase]; s.Count > 0 {
			out.Steps[name] = s
		}
	}
	for i := range min(len(p.Kernels), maxKernels) {
		k := &p.Kernels[i]
		out.Kernels = append(out.Kernels, kernelJSON{k.Name, k.Library, k.Group.String(), k.Count, sec(k.Sum), sec(k.Max), k.Graph, k.Operator})
	}
	for _, l := range launchers(p) {
		out.Launchers = append(out.Launchers, launcherJSON{l.Name, l.depth, sec(l.Time), l.Count, l.Flops})
	}
	for _, r := range p.Roofline {
		j := rateJSON{Operator: r.Operator, Dims: r.Dims, Count: r.Count, Time: sec(r.Time), Flops: r.Flops, Bytes: r.Bytes}
		if r.Peak > 0 && !math.IsInf(r.Peak, 0) {
			j.Peak, j.Bound = &r.Peak, r.Bound
		}
		out.Roofline = append(out.Roofline, j)
	}
	for _, a := range p.Ranks {
		for _, d := range a.Devices {
			out.Devices = append(out.Devices, deviceJSON{a.DeviceName(d), d.Name, a.Rank, sec(d.Wall), newShares(&d.Work)})
		}
		for id, points := range a.Memory {
			for _, m := range points {
				out.MemoryMaximum[id] = max(out.MemoryMaximum[id], m.Allocated)
			}
		}
		out.Sources = append(out.Sources, sourceJSON{a.Source, a.Tool, a.Rank, a.Events})
	}
	if s := p.Straggle; s.Known {
		out.Stragglers = &s
	}
	return out
}

func newShares(w *profile.Work) sharesJSON {
	return sharesJSON{
		w.Share(w.Busy), w.Share(w.Compute), w.Share(w.Communication), w.Share(w.Exposed), w.Share(w.Hidden), w.Share(w.ExposedCopies), w.Share(w.IdleTime()),
	}
}

func newFinding(f *finding.Result, status string) findingJSON {
	return findingJSON{
		ID: f.Kind.ID, Status: status, Severity: f.Severity.String(), Summary: f.Summary, Reasons: list(f.Reasons), Cost: f.Cost,
		Evidence: report.EvidenceJSON(f.Evidence), Fixes: report.FixesJSON(f.Fixes), Runbook: "docs/pathologies/slow-decode.md",
	}
}

func list(in []string) []string { return append([]string{}, in...) }
