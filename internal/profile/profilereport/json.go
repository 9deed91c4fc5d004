package profilereport

import (
	"io"

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

type object = render.Object

func toSeconds(ns int64) float64 { return float64(ns) / 1e9 }

// JSON writes a profile as one object, documented in docs/profile.md.
func JSON(w io.Writer, p *profile.Profile, v *finding.Verdict) error {
	id, severity, summary := makeHeadline(p, v)
	var stragglers, perToken any
	if p.Stragglers.Known {
		stragglers = p.Stragglers
	}
	if p.Tokens > 0 {
		perToken = p.Seconds() / float64(p.Tokens)
	}
	sources := []object{}
	for _, a := range p.Ranks {
		sources = append(sources, object{"path", a.Source, "tool", a.Tool, "rank", a.Rank, "events", a.Events})
	}
	return render.JSON(w, object{
		"schema", Schema, "tool", version.This(), "partial", nonNil(p.Partial), "notes", nonNil(p.Notes),
		"verdict", object{"id", id, "severity", render.OrNone(severity), "summary", summary},
		"findings", append(render.Each(v.Findings, newFinding), render.Each(v.Others, newFinding)...),
		"wall_seconds", toSeconds(p.Wall), "before_seconds", toSeconds(p.Before), "after_seconds", toSeconds(p.After),
		"workload", p.Workload.String(),
		"shares", newShares(&p.Breakdown), "one_time_seconds", toSeconds(p.OnceTime()),
		"gaps", render.Each(longestGaps(p), newGap),
		"groups", newGroups(p), "idle", newIdle(p), "steps", newSteps(p), "steps_by", p.StepsBy,
		"kernels", render.Each(p.Kernels[:min(len(p.Kernels), maxKernels)], newKernel),
		"launches", newLaunches(p),
		"roofline", render.Each(p.Roofline, newRate),
		"devices", newDevices(p), "stragglers", stragglers, "sources", sources,
		"tokens", p.Tokens, "seconds_per_token", perToken,
		"attention_fraction", p.Share(p.Group[profile.Attention].Time),
		"gemm_fraction", p.Share(p.Group[profile.GEMM].Time + p.Group[profile.MoE].Time),
		"communication_fraction", p.Share(p.Communication), "gpu_idle_fraction", p.Share(p.IdleTime()),
	})
}

func newGroups(p *profile.Profile) object {
	groups := object{}
	for g := range profile.Groups {
		if x := p.Group[g]; x.Count > 0 {
			known := max(toSeconds(x.Known), 1e-9)
			groups = append(groups, g.String(), object{
				"share", p.Share(x.Time), "seconds", toSeconds(x.Time), "sum_seconds", toSeconds(x.Sum),
				"count", x.Count, "alone_seconds", toSeconds(x.Alone),
				"flops_per_second", render.OrNone(x.Flops / known), "bytes_per_second", render.OrNone(x.Bytes / known),
			})
		}
	}
	return groups
}

func newIdle(p *profile.Profile) object {
	idle := object{}
	for c := range profile.Causes {
		idle = append(idle, c.String(), p.Share(p.Idle[c]))
	}
	return idle
}

func newSteps(p *profile.Profile) object {
	steps := object{}
	for phase, name := range []string{"all", "prefill", "decode", "mixed"} {
		if s := p.Steps[phase]; s.Count > 0 {
			steps = append(steps, name, s)
		}
	}
	return steps
}

// newGap has from_seconds since the device's first activity.
func newGap(g *gap) object {
	return object{
		"device", g.device, "from_seconds", toSeconds(g.From - g.first), "seconds", toSeconds(g.Time),
		"cause", g.Cause.String(), "one_time", g.Once, "host", g.Host, "before", g.Before,
	}
}

func newKernel(k *profile.KernelStat) object {
	return object{
		"name", k.Name, "library", render.OrNone(k.Library), "group", k.Group.String(),
		"launched_for", render.OrNone(k.Below), "count", k.Count, "sum_seconds", toSeconds(k.Sum),
		"max_seconds", toSeconds(k.Max), "replayed_by_graphs", k.Graph, "operator", render.OrNone(k.Operator),
	}
}

func newLaunches(p *profile.Profile) object {
	h := &p.Host
	return object{
		"launches", h.Launches, "graph_launches", h.GraphLaunches, "seconds", toSeconds(h.LaunchTime),
		"synchronizations", h.Syncs, "synchronization_seconds", toSeconds(h.SyncTime),
		"kernels", p.KernelRuns, "kernels_replayed_by_graphs", p.GraphKernels,
		"kernels_under_10us", p.SmallKernels, "graphs_without_their_kernels", p.WholeGraphs,
	}
}

func newRate(r *profile.Rate) object {
	var share any
	if r.PeakShare > 0 {
		share = render.Finite(r.PeakShare)
	}
	return object{
		"operator", r.Operator, "dims", r.Dims, "count", r.Count, "seconds", toSeconds(r.Time),
		"flops_per_second", r.Flops, "bytes_per_second", r.Bytes, "share_of_peak", share,
		"bound", render.OrNone(r.Bound),
	}
}

func newDevices(p *profile.Profile) []object {
	devices := []object{}
	for a, d := range p.EachDevice {
		devices = append(devices, object{
			"name", a.DeviceName(d), "gpu", d.Name, "rank", a.Rank, "wall_seconds", toSeconds(d.Wall),
			"shares", newShares(&d.Breakdown),
		})
	}
	return devices
}

func newShares(b *profile.Breakdown) object {
	return object{
		"busy", b.Share(b.Busy), "compute", b.Share(b.Compute), "communication", b.Share(b.Communication),
		"communication_exposed", b.Share(b.Exposed), "communication_hidden", b.Share(b.Hidden),
		"copies_exposed", b.Share(b.ExposedCopies), "idle", b.Share(b.IdleTime()),
	}
}

func newFinding(f *finding.Result) object {
	status := map[catalog.Truth]string{catalog.True: "firing", catalog.False: "ok", catalog.Unknown: "unknown"}[f.Holds]
	return object{
		"id", f.Kind.ID, "status", status, "severity", f.Severity.String(), "summary", f.Summary,
		"reasons", nonNil(f.Reasons), "share_of_wall", f.Cost,
		"evidence", report.EvidenceJSON(f.Evidence), "fixes", report.FixesJSON(f.Fixes),
		"runbook", "docs/pathologies/slow-decode.md",
	}
}

func nonNil(in []string) []string { return append([]string{}, in...) }
