package finding

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/profile"
)

// The thresholds.
var (
	hostBound = threshold("host_bound", indicator.Ratio, 0.15, "a GPU that waits for its host for a seventh "+
		"of the time: a well-fed decode keeps that under a few percent")
	hostFelt = threshold("host_felt", indicator.Ratio, 0.05, "launching one by one costs nothing while each "+
		"kernel takes longer than its launch: then the GPU does not wait")
	nothingQueue = threshold("nothing_queued", indicator.Ratio, 0.4,
		"most of the window had no work: the trace was taken without load, and its shares say little of a busy "+
			"server")
	exposedMuch = threshold("communication_bound", indicator.Ratio, 0.15,
		"tensor parallelism over NVLink exposes 5 to 15 % in decode; more says that it costs more than it should")
	attentionBig = threshold("attention_bound", indicator.Ratio, 0.4,
		"at usual contexts attention takes 10 to 30 % of a step; above that contexts are long or the kernel is slow")
	gemmMost = threshold("gemm_bound", indicator.Ratio, 0.6, "products take most of a healthy step: then "+
		"weights and batch decide")
	samplingBig = threshold("sampling_bound", indicator.Ratio, 0.08,
		"sampling takes 1 to 4 % of a step; more says that sorting or penalties over the vocabulary weigh")
	copiesBig = threshold("copies_bound", indicator.Ratio, 0.1,
		"copies belong behind computation; a tenth of the time exposed says that something moves between host "+
			"and GPU in each step")
	smallMany = threshold("small_kernels_many", indicator.Ratio, 0.5,
		"half of the kernels are shorter than a launch takes on the host and on the device together")
	smallCount = threshold("small_kernels_count", indicator.Count, 200, "fewer launches are no storm")
	elementBig = threshold("elementwise_bound", indicator.Ratio, 0.3,
		"fused, elementwise kernels take 5 to 15 % of a step; a third says that each runs alone")
	noGraphs = threshold("no_graphs", indicator.Ratio, 0.05, "with CUDA graphs nearly all kernels of a "+
		"decode step are replayed by one")
	manyLaunches = threshold("many_launches", indicator.Count, 100,
		"a step of some hundred launches takes milliseconds on the host alone")
	stragglers = threshold("rank_straggles", indicator.Ratio, 0.05,
		"what ranks wait for the slowest of them is lost on all of them")
	mixedSlow = threshold("mixed_slow", indicator.Times, 2.5, "a decode that shares its step with prefill "+
		"chunks waits for them")
	mixedMuch   = threshold("mixed_much", indicator.Ratio, 0.2, "rare mixed steps are the price of admission")
	waitingMuch = threshold("dependency_bound", indicator.Ratio, 0.15, "work was queued and did not run")
	none        = threshold("no_gpu", indicator.Count, 0.5, "a trace without device activity")
	busyEnough  = threshold("busy_enough", indicator.Ratio, 0.7, "a GPU that mostly works is bound by its "+
		"kernels, not by its host")
)

// fewLaunches of a step take no time that is worth telling.
const fewLaunches = 20

func share(causes ...profile.Cause) func(*profile.Profile) float64 {
	return func(p *profile.Profile) float64 {
		sum := int64(0)
		for _, c := range causes {
			sum += p.Idle[c]
		}
		return p.Share(sum)
	}
}

func group(groups ...profile.Group) func(*profile.Profile) float64 {
	return func(p *profile.Profile) float64 {
		sum := int64(0)
		for _, g := range groups {
			sum += p.Group[g].Time
		}
		return p.Share(sum)
	}
}

// Fixes that several kinds share.
var (
	leaveEager = catalog.Fix{
		Summary: "Remove --enforce-eager, so that decode steps are replayed as CUDA graphs", Changes: []catalog.Change{{
			Flag: "--enforce-eager", From: "true",
		}},
		Instead:  "Capture the step as a CUDA graph: torch.compile(mode=\"reduce-overhead\"), or torch.cuda.graph",
		Tradeoff: "a longer start, and up to a few GiB of GPU memory for the graphs",
		Verify: "a second profile shows most kernels replayed by graphs and less than 5 % of idle time for the " +
			"host's sake",
	}
	asyncScheduling = catalog.Fix{
		Summary: "Schedule the next step while the GPU computes this one", Changes: []catalog.Change{{
			Flag: "--async-scheduling", To: "true",
		}},
		Tradeoff: "some features exclude it (see vLLM's log at start); it is the default since 0.14",
		Verify:   "idle time between steps disappears from a second profile",
	}
	fasterHost = catalog.Fix{
		Summary: "Give the process whole cores: pin it near the GPU's NUMA node, take CPU limits and noisy " +
			"neighbours away, set the CPU governor to performance",
		Tradeoff: "cores that nothing else may use", Verify: "launches take less than 10 µs each, and host-late " +
			"time falls",
	}
)

// Kinds lists everything that a profile is judged by.
func Kinds() []*Kind {
	return []*Kind{
		nothingQueued, hostLate, eager, communication, straggler, copies, dependency, attention, sampling,
		smallKernels, elementwise, prefillBeside, gemm, onCPU,
	}
}

func kind(id, title string, severity catalog.Severity, when catalog.Cond, cost func(*profile.Profile) float64, refine func(*catalog.Pass), fixes ...catalog.Fix) *Kind {
	return &Kind{
		Pathology: catalog.Pathology{
			ID: id, Title: title, Severity: severity, When: when, Refine: refine, Fixes: fixes,
		},
		Cost: cost, Leads: "slow-decode",
	}
}

func text(p *catalog.Pass, s *indicator.Signal) string {
	return indicator.Format(p.Now(s), s.Unit)
}

var hostLate = kind("host-bound", "The GPU waits for its host", catalog.Ticket,
	catalog.Above(HostBound, hostBound), share(profile.HostLate, profile.LaunchGap),
	func(p *catalog.Pass) {
		p.Summary = fmt.Sprintf("The GPU waits for its host %s of the time: it is busy %s", text(p, HostBound), text(p, GPUBusy))
		graphs := p.Now(GraphKernels)
		if l := p.Now(Launches); l.OK && l.V > fewLaunches {
			p.Reason("A step takes %s launches on the host; each takes %s there, and what Python does between "+
				"two of them.", indicator.FormatNumber(l.V, indicator.Count), text(p, LaunchTime))
		}
		if graphs.OK && graphs.V < 0.05 {
			p.Reason("Hardly any kernel was replayed by a CUDA graph.")
			return
		}
		p.Reason("%s of the kernels were replayed by graphs: what is late is what runs between graphs, in Python.", text(p, GraphKernels))
		p.Fixes = []catalog.Fix{asyncScheduling, fasterHost}
	}, leaveEager, asyncScheduling, fasterHost)

var eager = kind("eager-mode", "Kernels are launched one by one: eager mode was left on", catalog.Info,
	catalog.All(catalog.Below(GraphKernels, noGraphs), catalog.Above(Launches, manyLaunches), catalog.Above(HostBound, hostFelt)), share(profile.LaunchGap, profile.HostLate),
	func(p *catalog.Pass) {
		p.Summary = fmt.Sprintf("No CUDA graphs: a step launches %s kernels one by one", text(p, Launches))
		p.Reason("Prefill of long prompts does not need graphs: there each kernel takes longer than its launch. " +
			"Decode does.")
	}, leaveEager)

var nothingQueued = kind("nothing-queued", "Nothing was queued: the trace was taken of an idle server", catalog.Ticket,
	catalog.Above(NothingToDo, nothingQueue), share(profile.NothingToDo),
	func(p *catalog.Pass) {
		p.Summary = fmt.Sprintf("There was nothing to do %s of the time, and the device was busy %s", text(p, NothingToDo), text(p, GPUBusy))
		p.Reason("Shares of such a trace say little about a server under load. Look at the shares of the " +
			"device's time, not of wall time.")
	},
	catalog.Fix{
		Summary: "Take the trace under load: sixty profile capture URL --load 8",
		Instead: "Take the trace under load", Tradeoff: "requests of its own",
		Verify: "nothing to do falls below a tenth",
	},
	catalog.Fix{
		Summary: "If users did wait meanwhile, look before the engine: gateway, tokenizer, API server (sixty " +
			"diagnose URL)",
		Tradeoff: "none", Verify: "num_requests_running is above 0 while users wait",
	})

var communication = kind("communication-bound", "Communication between GPUs is not hidden", catalog.Ticket,
	catalog.Above(Exposed, exposedMuch), func(p *profile.Profile) float64 { return p.Share(p.Exposed + p.Idle[profile.CommWait]) },
	func(p *catalog.Pass) {
		p.Summary = fmt.Sprintf("Communication takes %s of the time while no GPU computes", text(p, Exposed))
		if s := p.Now(Straggling); s.OK && s.V > 0.02 {
			p.Reason("%s is waiting for a slower rank, not transfer.", text(p, Straggling))
		}
	},
	catalog.Fix{
		Summary: "Use fewer GPUs for each replica, if the model fits: halve --tensor-parallel-size and run two " +
			"replicas",
		Instead:  "Use fewer GPUs for each replica, if the model fits",
		Tradeoff: "the KV cache of a replica shrinks; sixty tune says what fits",
		Verify:   "exposed communication falls below 10 %",
	},
	catalog.Fix{
		Summary:  "Keep tensor parallelism within what NVLink connects, and use pipeline parallelism between hosts",
		Tradeoff: "a longer first token",
		Verify:   "nvidia-smi topo -m shows NV links between the ranks of a group; all-reduce kernels become shorter",
	},
	catalog.Fix{
		Summary: "Fuse all-reduce with the normalisation behind it (compilation config " +
			"pass_config.fuse_allreduce_rms, Hopper and newer), and check that custom all-reduce is on",
		Instead:  "Overlap communication with computation, or fuse all-reduce with the normalisation behind it",
		Tradeoff: "try it out: kernels differ", Verify: "fewer all-reduce kernels of the NCCL name",
	})

var straggler = kind("rank-straggles", "Ranks wait for a slower one", catalog.Ticket,
	catalog.Above(Straggling, stragglers), func(p *profile.Profile) float64 { return p.Straggle.Share },
	func(p *catalog.Pass) {
		p.Summary = fmt.Sprintf("Ranks wait for a slower one %s of the time", text(p, Straggling))
		if v, ok := p.View.(view); ok && v.p.Straggle.Last != "" {
			p.Summary += fmt.Sprintf("; %s comes last in %s of the collectives", v.p.Straggle.Last, indicator.FormatNumber(v.p.Straggle.LastShare, indicator.Ratio))
		}
		p.Reason("The same collective takes as long as its last rank is late: a rank whose communication kernels " +
			"are short is the one that the others wait for.")
	},
	catalog.Fix{
		Summary: "Compare clocks, power and temperature of the slow rank's GPU with the others': nvidia-smi -q " +
			"-d CLOCK,POWER,PERFORMANCE",
		Tradeoff: "none", Verify: "all ranks' communication kernels take alike",
	},
	fasterHost)

var copies = kind("copies-bound", "Copies are not hidden behind computation", catalog.Ticket,
	catalog.Above(ExposedCopies, copiesBig), func(p *profile.Profile) float64 { return p.Share(p.ExposedCopies) },
	func(p *catalog.Pass) {
		p.Summary = fmt.Sprintf("The GPU copies memory %s of the time and computes nothing meanwhile", text(p, ExposedCopies))
		if v, ok := p.View.(view); ok {
			for i := range v.p.Kernels {
				if k := &v.p.Kernels[i]; k.Group == profile.Copies {
					p.Reason("Most of it is %s: %d times, %s together.", k.Short, k.Count, indicator.FormatNumber(float64(k.Sum)/1e9, indicator.Seconds))
					break
				}
			}
		}
	},
	catalog.Fix{
		Summary: "Keep weights and KV cache on the GPU: leave out CPU offloading (--cpu-offload-gb, KV " +
			"connectors), or give it a smaller model or more GPUs",
		Instead: "Keep weights and activations on the GPU: leave out offloading to the CPU, or give it a " +
			"smaller model or more GPUs",
		Tradeoff: "memory; sixty tune says what fits", Verify: "copies from host to device leave the steps",
	},
	catalog.Fix{
		Summary:  "Copy from pinned memory, asynchronously, on a stream of its own",
		Tradeoff: "a change of the program", Verify: "copies overlap with kernels in a second profile",
	})

var dependency = kind("dependency-bound", "Work is queued and waits for another stream", catalog.Ticket,
	catalog.Above(Waiting, waitingMuch), share(profile.Dependency, profile.CopyWait),
	func(p *catalog.Pass) {
		p.Summary = fmt.Sprintf("Launched work waits %s of the time for another stream, an event or a copy", text(p, Waiting))
	},
	catalog.Fix{
		Summary: "Look in the trimmed trace for what ends when the waiting ends: sixty profile TRACE --trim " +
			"worst.json.gz, open it in ui.perfetto.dev",
		Tradeoff: "none", Verify: "the stream that holds the others up is known",
	})

var attention = kind("attention-bound", "Attention dominates", catalog.Ticket,
	catalog.Above(Attention, attentionBig), group(profile.Attention),
	func(p *catalog.Pass) {
		p.Summary = fmt.Sprintf("Attention takes %s of the GPU's time", text(p, Attention))
		p.Reason("Its time grows with the square of a prompt's length in prefill, and in decode with the " +
			"contexts of all running requests, whose whole KV cache it reads.")
	},
	catalog.Fix{
		Summary:  "Keep the KV cache in 8 bits: half as much to read",
		Changes:  []catalog.Change{{Flag: "--kv-cache-dtype", To: "fp8"}},
		Tradeoff: "answers may change a little: evaluate it",
		Verify:   "attention's share falls; ITL at long contexts falls", Risk: true,
	},
	catalog.Fix{
		Summary:  "Try another attention backend (--attention-backend FLASHINFER or FLASH_ATTN)",
		Instead:  "Try another attention kernel, of FlashAttention, cuDNN or FlashInfer",
		Tradeoff: "some models and dtypes have one backend only",
		Verify:   "attention kernels take less per step at the same contexts",
	},
	catalog.Fix{
		Summary:  "Bound the contexts: --max-model-len, shorter histories, or a replica for long prompts alone",
		Instead:  "Bound the contexts: shorter sequences, a sliding window, or a replica for long prompts alone",
		Tradeoff: "longer requests are refused", Verify: "mean context per request falls",
	})

var sampling = kind("sampling-bound", "Sampling is on the critical path", catalog.Ticket,
	catalog.Above(Sampling, samplingBig), group(profile.Sampling),
	func(p *catalog.Pass) {
		p.Summary = fmt.Sprintf("Sampling takes %s of the GPU's time", text(p, Sampling))
		p.Reason("Top-k and top-p sort the vocabulary for every token; penalties and logprobs read it once more.")
	},
	catalog.Fix{
		Summary: "See that FlashInfer's sampling kernels are used, which do not sort: flashinfer installed, " +
			"VLLM_USE_FLASHINFER_SAMPLER not 0",
		Instead:  "Use sampling kernels that do not sort, such as FlashInfer's",
		Tradeoff: "try it out: other random numbers", Verify: "sort and cumsum kernels disappear",
	},
	catalog.Fix{
		Summary: "Ask clients to leave out penalties, logprobs and top-k where they do not need them; guided " +
			"decoding costs a mask for each step",
		Tradeoff: "a change of clients", Verify: "sampling's share falls below 4 %",
	})

var smallKernels = kind("small-kernels", "A storm of small kernels", catalog.Info,
	catalog.All(catalog.Above(SmallKernels, smallMany), catalog.Above(Kernels, smallCount)),
	func(p *profile.Profile) float64 { return p.Share(p.SmallTime + p.Idle[profile.LaunchGap]) },
	func(p *catalog.Pass) {
		p.Summary = fmt.Sprintf("%s of %s kernels take less than 10 µs", text(p, SmallKernels), text(p, Kernels))
		if n := p.Now(Narrow); n.OK && n.V > 0.1 {
			p.Reason("%s of the GPU's time goes to kernels with fewer blocks than it has multiprocessors: they "+
				"leave most of it idle.", text(p, Narrow))
		}
		if g := p.Now(GraphKernels); g.OK && g.V > 0.5 {
			p.Fixes = p.Fixes[1:]
		}
	},
	leaveEager,
	catalog.Fix{
		Instead: "Let torch.compile(model) fuse them, and use larger batches",
		Summary: "Let torch.compile fuse them (-O3, no --enforce-eager), and decode more requests at once: a " +
			"kernel for 64 takes hardly longer than for 4",
		Tradeoff: "compilation at start", Verify: "fewer kernels per step",
	})

var elementwise = kind("elementwise-bound", "Unfused elementwise kernels dominate", catalog.Ticket,
	catalog.Above(Elementwise, elementBig), group(profile.Elementwise),
	func(p *catalog.Pass) {
		p.Summary = fmt.Sprintf("Elementwise kernels take %s of the GPU's time", text(p, Elementwise))
		p.Reason("Each reads and writes its tensors once: unfused they are bound by memory, whatever the GPU computes.")
	},
	catalog.Fix{
		Summary: "Let torch.compile fuse them: vLLM's default (-O2 or -O3); remove --enforce-eager",
		Instead: "Let torch.compile(model) fuse them", Tradeoff: "compilation at start",
		Verify: "triton_poi_fused kernels in place of elementwise ones, and fewer of them",
	})

var prefillBeside = kind("prefill-beside-decode", "Decode waits for prefill in the same step", catalog.Ticket,
	catalog.All(catalog.Above(MixedOver, mixedSlow), catalog.Above(MixedShare, mixedMuch)),
	func(p *profile.Profile) float64 {
		d, x := p.Steps[profile.Decode], p.Steps[profile.Mixed]
		return finiteOrZero((x.Mean - d.Mean) * float64(x.Count) / (p.Steps[profile.Unknown].Mean * float64(p.Steps[profile.Unknown].Count)))
	},
	func(p *catalog.Pass) {
		p.Summary = fmt.Sprintf("Steps with prefill take %s, those without %s: streams wait for prompts", text(p, MixedStep), text(p, DecodeStep))
	},
	catalog.Fix{
		Summary:  "Lower --max-num-batched-tokens, so that a step takes a smaller chunk of a prompt",
		Instead:  "Let a step take a smaller chunk of a prompt",
		Tradeoff: "a later first token, and less prefill per second",
		Verify:   "mixed steps become shorter; itl_p95 falls",
	},
	catalog.Fix{
		Summary:  "Separate prefill and decode (a KV connector with a prefill and a decode pool)",
		Tradeoff: "more GPUs and a fast network", Verify: "decode replicas have no mixed steps",
	})

var gemm = kind("gemm-bound", "The GPU computes: matrix products lead", catalog.Info,
	catalog.All(catalog.Above(GPUBusy, busyEnough), catalog.Above(GEMM, gemmMost)), group(profile.GEMM, profile.MoE),
	func(p *catalog.Pass) {
		p.Summary = fmt.Sprintf("The GPU works %s of the time, %s of that in matrix products", text(p, GPUBusy), text(p, GEMM))
		p.Reason("That is what a healthy server looks like. In decode the products read all weights for a few " +
			"tokens: fewer bytes or more requests at once make it cheaper.")
		if v, ok := p.View.(view); ok && v.p.Quantised {
			p.Fixes = p.Fixes[1:]
		}
	},
	catalog.Fix{
		Summary: "Quantise the weights", Changes: []catalog.Change{{Flag: "--quantization", To: "fp8"}},
		Instead: "Compute with fewer bits: FP8 or INT8 weights", Tradeoff: "answers may change a little: evaluate it",
		Verify: "GEMM kernels take about half as long in decode", Risk: true,
	},
	catalog.Fix{
		Summary: "Serve more requests at once on each replica (--max-num-seqs), if latency allows",
		Instead: "Use larger batches, if latency allows", Tradeoff: "longer steps", Verify: "tokens per second rise",
	})

var onCPU = kind("cpu-only", "There is no GPU in the trace", catalog.Info,
	catalog.Above(NoDevice, none), func(*profile.Profile) float64 { return 0 },
	func(p *catalog.Pass) {
		p.Summary = "There is no GPU in the trace: operators were recorded, and nothing that a device did"
		p.Reason("If there should be one, the profiler recorded no device: activities without CUDA, or CUPTI " +
			"taken by another tool.")
		p.Reason("Of a model that runs on the CPU only the steps are told; torch.profiler's own key_averages() " +
			"sums up its operators.")
	},
	catalog.Fix{
		Summary: "Record the device: ProfilerActivity.CUDA among the activities, no other profiler attached, " +
			"CAP_SYS_ADMIN or NVreg_RestrictProfilingToAdminUsers=0 where counters are read",
		Tradeoff: "none", Verify: "the trace has events of the category kernel",
	})
