package finding

import (
	"fmt"
	"math"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/profile"
	"github.com/sixty-dev/sixty/internal/render"
)

// The thresholds.
var (
	fewKernels = threshold("too_few_kernels", indicator.Count, 20, "shares of less than twenty kernels are those of chance")
	shortSpan  = threshold("too_short", indicator.Seconds, 0.0005, "half a millisecond is no step of anything")
	hostBound  = threshold("host_bound", indicator.Ratio, 0.15, "a GPU that waits for its host for a seventh "+
		"of the time: a well-fed decode keeps that under a few percent")
	hostFelt = threshold("host_felt", indicator.Ratio, 0.05, "launching one by one costs nothing while each "+
		"kernel takes longer than its launch: then the GPU does not wait")
	nothingQueue = threshold("nothing_queued", indicator.Ratio, 0.4,
		"most of the window had no work: the trace was taken without load, and its shares say little of a busy server")
	exposedMuch = threshold("communication_bound", indicator.Ratio, 0.15,
		"tensor parallelism over NVLink exposes 5 to 15 % in decode; more says that it costs more than it should")
	attentionBig = threshold("attention_bound", indicator.Ratio, 0.4,
		"at usual contexts attention takes 10 to 30 % of a step; above that contexts are long or the kernel is slow")
	gemmMost     = threshold("gemm_bound", indicator.Ratio, 0.6, "products take most of a healthy step: then weights and batch decide")
	convolveMost = threshold("convolution_bound", indicator.Ratio, 0.5, "most of what the GPU does is convolution")
	samplingBig  = threshold("sampling_bound", indicator.Ratio, 0.08,
		"sampling takes 1 to 4 % of a step; more says that sorting or penalties over the vocabulary weigh")
	copiesBig = threshold("copies_bound", indicator.Ratio, 0.1,
		"copies belong behind computation; a tenth of the time exposed says that something moves in each step")
	smallMany = threshold("small_kernels_many", indicator.Ratio, 0.5,
		"half of the kernels are shorter than a launch takes on the host and on the device together")
	smallCount = threshold("small_kernels_count", indicator.Count, 200, "fewer launches are no storm")
	smallFelt  = threshold("small_kernels_time", indicator.Ratio, 0.2, "many small kernels beside large ones cost little")
	elementBig = threshold("elementwise_bound", indicator.Ratio, 0.3,
		"fused, elementwise kernels take 5 to 15 % of a step; a third says that each runs alone")
	noGraphs = threshold("no_graphs", indicator.Ratio, 0.05, "with CUDA graphs nearly all kernels of a "+
		"decode step are replayed by one")
	manyLaunches = threshold("many_launches", indicator.Count, 100,
		"a step of some hundred launches takes milliseconds on the host alone")
	stragglers = threshold("rank_straggles", indicator.Ratio, 0.05, "what ranks wait for the slowest of them is lost on all of them")
	mixedSlow  = threshold("mixed_slow", indicator.Times, 2.5, "a decode that shares its step with prefill chunks waits for them")
	mixedMuch  = threshold("mixed_much", indicator.Ratio, 0.2, "rare mixed steps are the price of admission")
	waiting    = threshold("dependency_bound", indicator.Ratio, 0.15, "work was queued and did not run")
	none       = threshold("no_gpu", indicator.Count, 0.5, "a trace without device activity")
	busyEnough = threshold("busy_enough", indicator.Ratio, 0.7, "a GPU that mostly works is bound by its kernels, not by its host")
	onceMuch   = threshold("one_time", indicator.Ratio, 0.2, "what happens once says nothing of the steps that follow")
	captured   = threshold("graph_capture", indicator.Ratio, 0.1, "launches into a graph that is captured put nothing on the device")
	unused     = threshold("gpu_unused", indicator.Ratio, 0.1, "the shares between the first kernel and the last are those of a tenth of the time")
	causeMuch  = threshold("idle_cause", indicator.Ratio, 0.1, "a tenth of the time for one cause is worth its cure")
	quietMuch  = threshold("idle_unknown", indicator.Ratio, 0.25, "the causes of a quarter of the time are not in the trace")
)

// fewLaunches of a step take no time that is worth telling.
const fewLaunches = 20

// Kinds lists everything that a profile is judged by. Those that leave nothing else to judge come first.
func Kinds() []*Kind { return kinds }

var kinds = append([]*Kind{
	onCPU, capture, cannotTell, gpuUnused, oneTime, straggler, hostLate, eager, communication, copies, dependency, attention,
	sampling, smallKernels, elementwise, prefillBeside, gemm, convolution,
},
	idleKind("host-work", "The host computes while the GPU waits", profile.HostWork, hostBound, catalog.Ticket),
	idleKind("data-loading", "The GPU waits for its data to be loaded", profile.DataLoading, causeMuch, catalog.Ticket),
	idleKind("synchronising", "The host waits for the GPU, and the GPU then for the host", profile.Synchronising, causeMuch, catalog.Ticket),
	idleKind("blocking-copies", "The host waits in copies", profile.HostCopy, causeMuch, catalog.Ticket),
	idleKind("allocating", "The GPU waits while memory is allocated", profile.Allocating, causeMuch, catalog.Ticket),
	idleKind("garbage-collection", "The GPU waits for Python's garbage collection", profile.GarbageCollection, causeMuch, catalog.Ticket),
	idleKind("locks", "The host waits for a lock", profile.LockWait, causeMuch, catalog.Ticket),
	idleKind("first-use", "Code is loaded or compiled while the GPU waits", profile.FirstUse, causeMuch, catalog.Info),
	idleKind("start-delayed", "Kernels begin long after their launch", profile.StartDelayed, causeMuch, catalog.Info),
	idleKind("profiler", "The profiler holds the host up", profile.ProfilerTime, causeMuch, catalog.Info),
	idleKind("nothing-queued", "Nothing was queued: the trace was taken of an idle server", profile.NothingToDo, nothingQueue, catalog.Ticket),
	idleKind("host-quiet", "The GPU waits, and nothing of the host was recorded", profile.HostQuiet, quietMuch, catalog.Info),
	idleKind("launch-unknown", "The GPU is idle, and the trace does not say why", profile.NotRecorded, quietMuch, catalog.Info),
)

func kind(id, title string, severity catalog.Severity, when catalog.Cond, cost func(*profile.Profile) float64, refine func(*pass)) *Kind {
	return &Kind{Pathology: catalog.Pathology{ID: id, Title: title, Severity: severity, When: when}, Cost: cost, refine: refine}
}

func alone(k *Kind) *Kind {
	k.Alone = true
	return k
}

// idleKind is a cause of idleness that takes too much of the time.
func idleKind(id, title string, c profile.Cause, most *catalog.Threshold, severity catalog.Severity) *Kind {
	return kind(id, title, severity, catalog.Above(idle[c], most), share(c), func(p *pass) {
		p.summary = fmt.Sprintf("%s: %s of the time, and the GPU is busy %s", title, p.text(idle[c]), p.text(GPUBusy))
		if g := p.p.LongestGap(c); g != nil && g.Host != "" {
			p.reason("In the longest of these gaps, %s, the host is in %s.", render.Seconds(float64(g.Time)/1e9), render.Clip(render.Clean(g.Host), 100))
		}
	})
}

func share(causes ...profile.Cause) func(*profile.Profile) float64 {
	return func(p *profile.Profile) float64 {
		sum, h := int64(0), p.Habit()
		for _, c := range causes {
			sum += h.Idle[c]
		}
		return h.Share(sum)
	}
}

func group(groups ...profile.Group) func(*profile.Profile) float64 {
	return func(p *profile.Profile) float64 {
		sum, h := int64(0), p.Habit()
		for _, g := range groups {
			sum += h.Group[g].Time
		}
		return h.Share(sum)
	}
}

func nothing(*profile.Profile) float64 { return 0 }

var onCPU = alone(kind("cpu-only", "There is no GPU in the trace", catalog.Info, catalog.Above(NoDevice, none), nothing,
	func(p *pass) {
		p.summary = "There is no GPU in the trace: operators were recorded, and nothing that a device did"
		if p.p.Cut {
			p.summary = "The trace ends before anything that a GPU did: the file is cut off"
			p.reason("torch.profiler writes what devices did behind what the host did. Copy the file again, whole.")
			p.fixes = ""
			return
		}
		p.reason("If there should be one, the profiler recorded no device: activities without CUDA, or CUPTI taken by another tool.")
		p.reason("Of a model that runs on the CPU only the steps are told; torch.profiler's own key_averages() sums up its operators.")
	}))

var capture = alone(kind("graph-capture", "A CUDA graph is being captured", catalog.Info, catalog.Above(Captured, captured), nothing,
	func(p *pass) {
		p.summary = fmt.Sprintf("The trace shows how a CUDA graph is captured, not how it runs: %s of the launches went into a graph", p.text(Captured))
		p.reason("Its shares say nothing of a server or a training loop after its start.")
	}))

var cannotTell = alone(kind("cannot-tell", "Too little was recorded to judge", catalog.Info,
	catalog.Any(catalog.Below(Kernels, fewKernels), catalog.Below(Span, shortSpan)), nothing,
	func(p *pass) {
		p.summary = fmt.Sprintf("Cannot tell: the trace holds %d kernels and copies, %s from the first to the last",
			p.p.Runs+p.p.Group[profile.Copies].Count, p.text(Span))
	}))

var gpuUnused = alone(kind("gpu-unused", "The GPU worked for a small part of what was recorded", catalog.Info, catalog.Below(Recorded, unused), nothing,
	func(p *pass) {
		p.summary = fmt.Sprintf("The GPU worked for %s of %s that were recorded", render.Seconds(float64(p.p.Busy)/1e9/float64(p.p.Devices)),
			render.Seconds(float64(p.p.Before+p.p.After)/1e9+p.p.Seconds()))
		p.reason("%s lie before its first activity, %s behind the last: shares of the time between say little.",
			render.Seconds(float64(p.p.Before)/1e9), render.Seconds(float64(p.p.After)/1e9))
	}))

var oneTime = kind("one-time", "A gap that does not come back takes much of the trace", catalog.Info, catalog.Above(OneTime, onceMuch),
	func(p *profile.Profile) float64 { return p.Share(p.OnceTime()) },
	func(p *pass) {
		h := p.p.Habit()
		p.summary = fmt.Sprintf("%s of the trace happened once; without it the GPU is busy %s of %s", p.text(OneTime), p.text(GPUBusy),
			render.Seconds(float64(h.Wall)/1e9/float64(p.p.Devices)))
	})

var hostLate = kind("host-bound", "The GPU waits for its host", catalog.Ticket,
	catalog.Above(HostBound, hostBound), share(profile.HostLate, profile.LaunchGap),
	func(p *pass) {
		p.summary = fmt.Sprintf("The GPU waits for its host %s of the time: it is busy %s", p.text(HostBound), p.text(GPUBusy))
		if l := p.Now(Launches); l.OK && l.V > fewLaunches {
			p.reason("A step takes %s launches on the host; each takes %s there, and what Python does between "+
				"two of them.", indicator.FormatNumber(l.V, indicator.Count), p.text(LaunchTime))
		}
		p.fixes = "host-bound/eager"
		if g := p.Now(GraphKernels); g.OK && g.V >= 0.05 {
			p.reason("%s of the kernels were replayed by graphs: what is late is what runs between graphs, in Python.", p.text(GraphKernels))
			p.fixes = "host-bound/graphs"
		}
		if p.p.Host.Stacks {
			p.reason("Python functions were recorded, which makes the host slower: confirm it without with_stack.")
		}
	})

var eager = kind("eager-mode", "Kernels are launched one by one: eager mode was left on", catalog.Info,
	catalog.All(catalog.Below(GraphKernels, noGraphs), catalog.Above(Launches, manyLaunches), catalog.Above(HostBound, hostFelt)),
	share(profile.LaunchGap, profile.HostLate),
	func(p *pass) {
		p.summary = fmt.Sprintf("No CUDA graphs: a step launches %s kernels one by one", p.text(Launches))
		if p.p.Workload.Samples() {
			p.reason("Prefill of long prompts does not need graphs: there each kernel takes longer than its launch. Decode does.")
		}
	})

var communication = kind("communication-bound", "Communication between GPUs is not hidden", catalog.Ticket,
	catalog.Above(Exposed, exposedMuch), exposed,
	func(p *pass) {
		p.summary = fmt.Sprintf("Communication takes %s of the time while no GPU computes", p.text(Exposed))
		switch s := p.Now(Straggling); {
		case s.OK && s.V > 0.02:
			p.reason("%s more is waiting for a slower rank, not transfer.", p.text(Straggling))
		case !s.OK:
			p.reason("How much of it is waiting for a slower rank only the traces of all ranks tell.")
		}
	})

var straggler = kind("rank-straggles", "Ranks wait for a slower one", catalog.Ticket,
	catalog.Above(Straggling, stragglers), func(p *profile.Profile) float64 { return p.Straggle.Share },
	func(p *pass) {
		s := &p.p.Straggle
		p.summary = fmt.Sprintf("Ranks wait for a slower one %s of the time", p.text(Straggling))
		if s.Last != "" {
			p.summary += fmt.Sprintf(": %s comes last in %s of the collectives", s.Last, render.Percent(s.LastShare))
		}
		if s.Why != "" {
			p.summary += ", for " + s.Why
			p.fixes = "rank-straggles/" + s.Cause
		}
		p.reason("The same collective takes as long as its last rank is late: a rank whose communication kernels " +
			"are short is the one that the others wait for.")
	})

var copies = kind("copies-bound", "Copies are not hidden behind computation", catalog.Ticket,
	catalog.Above(ExposedCopies, copiesBig), func(p *profile.Profile) float64 { h := p.Habit(); return h.Share(h.ExposedCopies) },
	func(p *pass) {
		p.summary = fmt.Sprintf("The GPU copies memory %s of the time and computes nothing meanwhile", p.text(ExposedCopies))
		for i := range p.p.Kernels {
			k := &p.p.Kernels[i]
			if k.Group != profile.Copies {
				continue
			}
			p.reason("Most of it is %s: %d times, %s together.", k.Short, k.Count, indicator.FormatNumber(float64(k.Sum)/1e9, indicator.Seconds))
			switch {
			case strings.Contains(k.Name, "PtoP"):
				p.fixes = "copies-bound/peers"
			case strings.Contains(k.Name, "DtoD"), strings.Contains(k.Name, "Memset"), strings.Contains(k.Name, "rocclr"):
				p.fixes = "copies-bound/device"
			default:
				p.fixes = "copies-bound/host"
			}
			break
		}
	})

var dependency = kind("dependency-bound", "Work is queued and waits for another stream", catalog.Ticket,
	catalog.Above(Waiting, waiting), share(profile.Dependency, profile.CopyWait),
	func(p *pass) {
		p.summary = fmt.Sprintf("Launched work waits %s of the time for another stream, an event or a copy", p.text(Waiting))
	})

var attention = kind("attention-bound", "Attention dominates", catalog.Ticket,
	catalog.Above(Attention, attentionBig), group(profile.Attention),
	func(p *pass) {
		p.summary = fmt.Sprintf("Attention takes %s of the GPU's time", p.text(Attention))
		if 2*p.p.Unfused > p.p.Group[profile.Attention].Sum {
			p.summary += ", in products and softmax one after the other, not in one kernel"
			p.reason("Between them all scores are written to memory and read again, which grows with the square of the length.")
			p.fixes = "attention-bound/unfused"
			return
		}
		if p.p.Workload.Samples() {
			p.reason("Its time grows with the square of a prompt's length in prefill, and in decode with the " +
				"contexts of all running requests, whose whole KV cache it reads.")
			return
		}
		p.reason("Its time grows with the square of the length.")
	})

var sampling = kind("sampling-bound", "Sampling is on the critical path", catalog.Ticket,
	catalog.Above(Sampling, samplingBig), group(profile.Sampling),
	func(p *pass) {
		p.summary = fmt.Sprintf("Sampling takes %s of the GPU's time", p.text(Sampling))
		p.reason("Top-k and top-p sort the vocabulary for every token; penalties and logprobs read it once more.")
	})

var smallKernels = kind("small-kernels", "A storm of small kernels", catalog.Info,
	catalog.All(catalog.Above(SmallKernels, smallMany), catalog.Above(Kernels, smallCount), catalog.Above(SmallTime, smallFelt)),
	func(p *profile.Profile) float64 {
		h := p.Habit()
		return h.Share(p.SmallTime + h.Idle[profile.LaunchGap])
	},
	func(p *pass) {
		p.summary = fmt.Sprintf("%s of %s kernels take less than 10 µs", p.text(SmallKernels), p.text(Kernels))
		if n := p.Now(Narrow); n.OK && n.V > 0.1 {
			p.reason("%s of the GPU's time goes to kernels with fewer blocks than it has multiprocessors: they "+
				"leave most of it idle.", p.text(Narrow))
		}
	})

var elementwise = kind("elementwise-bound", "Unfused elementwise kernels dominate", catalog.Ticket,
	catalog.Above(Elementwise, elementBig), group(profile.Elementwise),
	func(p *pass) {
		p.summary = fmt.Sprintf("Elementwise kernels take %s of the GPU's time", p.text(Elementwise))
		p.reason("Each reads and writes its tensors once: unfused they are bound by memory, whatever the GPU computes.")
	})

var prefillBeside = kind("prefill-beside-decode", "Decode waits for prefill in the same step", catalog.Ticket,
	catalog.All(catalog.Above(MixedOver, mixedSlow), catalog.Above(MixedShare, mixedMuch)),
	func(p *profile.Profile) float64 {
		d, x, all := p.Steps[profile.Decode], p.Steps[profile.Mixed], p.Steps[profile.Unknown]
		v := (x.Mean - d.Mean) * float64(x.Count) / (all.Mean * float64(all.Count))
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return 0
		}
		return v
	},
	func(p *pass) {
		p.summary = fmt.Sprintf("Steps with prefill take %s, those without %s: streams wait for prompts", p.text(MixedStep), p.text(DecodeStep))
	})

var gemm = kind("gemm-bound", "The GPU computes: matrix products lead", catalog.Info,
	catalog.All(catalog.Above(GPUBusy, busyEnough), catalog.Above(GEMM, gemmMost)), group(profile.GEMM, profile.MoE),
	func(p *pass) {
		p.summary = fmt.Sprintf("The GPU works %s of the time, %s of that in matrix products", p.text(GPUBusy), p.text(GEMM))
		if p.p.Workload.Samples() {
			p.reason("That is what a healthy server looks like. In decode the products read all weights for a few " +
				"tokens: fewer bytes or more requests at once make it cheaper.")
		} else {
			p.reason("That is what a healthy program looks like.")
		}
		if !p.p.Quantised {
			p.fixes = "gemm-bound/16"
		}
	})

var convolution = kind("convolution-bound", "The GPU computes: convolutions lead", catalog.Info,
	catalog.All(catalog.Above(GPUBusy, busyEnough), catalog.Above(Convolution, convolveMost)), group(profile.Convolution),
	func(p *pass) {
		p.summary = fmt.Sprintf("The GPU works %s of the time, %s of that in convolutions", p.text(GPUBusy), p.text(Convolution))
		p.reason("That is what a healthy program looks like.")
	})
