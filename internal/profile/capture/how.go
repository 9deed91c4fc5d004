package capture

import (
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/render"
)

// Releases of vLLM whose profiling differs.
const (
	// profilerConfig is the release of --profiler-config; before it the directory was an
	// environment variable (vLLM's documentation, contributing/profiling, of 0.32 and 0.7.3).
	profilerConfig engine.Release = "0.13"
	// detailedSteps is a release whose annotations can tell the contexts' lengths
	// (vllm/config/profiler.py of 0.32.0, detailed_trace_annotation; not in 0.23.0).
	detailedSteps engine.Release = "0.32"
)

// A Way is one way to take a trace: what it is for, and what to type.
type Way struct {
	Tool     string // torch or nsys
	Title    string
	Commands []string
	Notes    []string
}

// Ways says how to trace a release's server: about steps iterations, into a directory.
func Ways(release engine.Release, model, dir string, steps int) []Way {
	return []Way{torchWay(release, model, dir, steps), nsysWay(release, model, dir, steps)}
}

func torchWay(release engine.Release, model, dir string, steps int) Way {
	w := Way{Tool: "torch", Title: "torch.profiler: names of operators and Python functions; slows the server down while it runs"}
	if !release.AtLeast(profilerConfig) {
		w.Commands = []string{
			fmt.Sprintf("VLLM_TORCH_PROFILER_DIR=%s VLLM_RPC_TIMEOUT=1800000 vllm serve %s", dir, model),
			fmt.Sprintf("sixty profile capture http://localhost:8000 --dir %s --steps %d", dir, steps),
		}
		w.Notes = []string{fmt.Sprintf("vLLM before %s takes the directory from the environment and has no limit of its own: keep the trace short, stop_profile writes for minutes", profilerConfig)}
		return w
	}
	config := fmt.Sprintf(`{"profiler": "torch", "torch_profiler_dir": "%s", "torch_profiler_with_stack": false, "ignore_frontend": true, "max_iterations": %d`, dir, steps)
	if release.AtLeast(detailedSteps) {
		config += `, "detailed_trace_annotation": true`
	}
	config += "}"
	w.Commands = []string{
		fmt.Sprintf("vllm serve %s --profiler-config '%s'", model, config),
		fmt.Sprintf("sixty profile capture http://localhost:8000 --dir %s --steps %d", dir, steps),
	}
	w.Notes = []string{
		`"torch_profiler_with_stack": true shows Python functions, and doubles the size`,
		`"torch_profiler_record_shapes": true adds the roofline of matrix products`,
		"/start_profile is there only with this option: do not leave it on where clients can reach it",
	}
	return w
}

func nsysWay(release engine.Release, model, dir string, steps int) Way {
	out := path.Join(dir, "decode")
	record := "nsys profile --trace cuda,nvtx,osrt --cuda-graph-trace node --sample none --cpuctxsw none"
	export := fmt.Sprintf("nsys export --type sqlite --force-overwrite true %s.nsys-rep", out)
	w := Way{Tool: "nsys", Title: "Nsight Systems: exact times of kernels, all processes at once; little overhead"}
	if release.AtLeast(profilerConfig) {
		w.Commands = []string{
			fmt.Sprintf(`%s --capture-range cudaProfilerApi --capture-range-end stop -o %s vllm serve %s --profiler-config '{"profiler": "cuda", "max_iterations": %d}'`, record, out, model, steps),
			fmt.Sprintf("sixty profile capture http://localhost:8000 --steps %d", steps),
			export, fmt.Sprintf("sixty profile %s.sqlite", out),
		}
	} else {
		w.Commands = []string{
			fmt.Sprintf("%s --delay 120 --duration 10 -o %s vllm serve %s", record, out, model),
			export, fmt.Sprintf("sixty profile %s.sqlite", out),
		}
		w.Notes = append(w.Notes, "--delay covers the start of the server: put load on it before the 10 seconds begin")
	}
	w.Notes = append(w.Notes, "without --cuda-graph-trace node a CUDA graph is one block, and its kernels are unknown")
	return w
}

// Schedule is how to trace a program of one's own, in Python.
func Schedule(dir string, steps int) string {
	return fmt.Sprintf(`from torch.profiler import profile, schedule, tensorboard_trace_handler, ProfilerActivity
with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
    schedule=schedule(wait=5, warmup=2, active=%d, repeat=1),
    on_trace_ready=tensorboard_trace_handler("%s", use_gzip=True),
    record_shapes=True,
) as p:
    for batch in batches:
        step(batch)
        p.step()  # one call a step: ProfilerStep#N tells them apart`, steps, dir)
}

// How says how to take a trace of so many steps, with torch, nsys, or where tool is "" both.
func How(w io.Writer, release engine.Release, model, dir, tool string, steps int, o render.Options) error {
	t := render.NewText(o)
	t.Paragraph("", "", fmt.Sprintf("With vLLM %s, %d steps:", release, steps))
	for _, way := range Ways(release, model, dir, steps) {
		if tool != "" && way.Tool != tool {
			continue
		}
		t.Heading(way.Title)
		for _, c := range way.Commands {
			t.Command("  ", c)
		}
		for _, n := range way.Notes {
			t.Paragraph("  * ", "    ", n)
		}
	}
	if tool != "nsys" {
		t.Heading("A program of your own")
		for line := range strings.Lines(Schedule(dir, steps)) {
			t.Line("  " + strings.TrimRight(line, "\n"))
		}
	}
	_, err := t.WriteTo(w)
	return err
}

// maxSteps is how many steps of the engine a trace may hold.
const maxSteps = 10_000

// CheckSteps refuses numbers of steps that make no trace.
func CheckSteps(steps int) error {
	if steps < 1 || steps > maxSteps {
		return hint.With(fmt.Errorf("--steps: want 1 to %d", maxSteps), "twenty steps are enough for shares, two hundred for their spread")
	}
	return nil
}
