package profilereport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/profile"
	"github.com/sixty-dev/sixty/internal/profile/finding"
	"github.com/sixty-dev/sixty/internal/render"
)

// made returns a profile with steps of two phases, communication, copies, idle time, several ranks, and names with
// escapes and tags.
func made(ranks int, slower int64) *profile.Profile {
	var all []*profile.Analysis
	for rank := range ranks {
		t := profile.New("some/where/trace\x1b[31m.json.gz", "torch.profiler", 0)
		t.Rank = rank
		t.GPUs[0] = profile.GPU{Name: "NVIDIA H100 80GB HBM3"}
		corr, at := uint32(0), int64(1_000_000)
		kernel := func(name string, kind profile.Kind, dur int64) {
			corr++
			t.AddCall(0, 1, profile.Runtime, profile.Event{Start: at + 1000, Dur: 5000,
				Name: t.Names.ID([]byte("cudaLaunchKernel")), Correlation: corr})
			t.AddActivity(0, 0, 7, kind, profile.Event{Start: at + 20_000, Dur: dur, Size: 100,
				Name: t.Names.ID([]byte(name)), Correlation: corr})
			at += 20_000 + dur
		}
		for i := range int64(30) {
			note := "execute_context_0(0)_generation_8(8)"
			if i%5 == 0 {
				note = "execute_context_1(400)_generation_8(8)"
			}
			t.AddCall(0, 1, profile.Annotation, profile.Event{Start: at, Dur: 200_000, Name: t.Names.ID([]byte(note))})
			t.AddCall(0, 1, profile.Op, profile.Event{Start: at, Dur: 30_000,
				Name: t.Names.ID([]byte("aten::<script>alert(1)</script>"))})
			kernel("sgemm<script>", profile.Kernel, 100_000+i%3*1000+slower)
			kernel("flash_fwd_kernel", profile.Kernel, 60_000)
			kernel("ncclDevKernel_AllReduce", profile.Kernel, 20_000+int64(rank)*9000)
			kernel("Memcpy HtoD (Host -> Device)", profile.Memcpy, 5_000)
		}
		t.Close()
		all = append(all, profile.Analyze(t))
	}
	p := profile.Combine(all)
	p.Partial = []string{"the file is truncated after 5 events"}
	return p
}

func judged(p *profile.Profile) *finding.Verdict {
	v := finding.Judge(p, nil)
	return &v
}

// TestTheScreenFits: it has at most twenty lines of 80 columns and one that says that the trace is partial, and no escape
// sequence of a foreign name.
func TestTheScreenFits(t *testing.T) {
	for name, p := range map[string]*profile.Profile{"one": made(1, 0), "ranks": made(4, 0)} {
		for _, full := range []bool{false, true} {
			for _, width := range []int{0, 80, 120} {
				var b bytes.Buffer
				must.Succeed(t, Text(&b, p, judged(p), full, render.Options{Width: width}))
				lines := strings.Split(strings.TrimSpace(b.String()), "\n")
				if !full && len(lines)-strings.Count(b.String(), "Partial") > 20 {
					t.Errorf("%s: %d lines\n%s", name, len(lines), b.String())
				}
				for _, l := range lines {
					if n := render.Cells(l); n > max(width, 80) {
						t.Errorf("%s: %d columns: %s", name, n, l)
					}
				}
				if strings.Contains(b.String(), "\x1b") {
					t.Errorf("%s: an escape reaches the terminal", name)
				}
				if full && width == 0 && name == "ranks" {
					for _, want := range []string{
						"FOUND", "RULED OUT", "STEPS", "decode", "mixed", "KERNELS", "DEVICES", "rank 3, GPU 0", "collectives",
					} {
						if !strings.Contains(b.String(), want) {
							t.Errorf("%q is missing in\n%s", want, b.String())
						}
					}
				}
			}
		}
	}
}

func TestStepsLine(t *testing.T) {
	p := &profile.Profile{}
	p.Steps[profile.Decode] = profile.StepTimes{Count: 20, P50: 0.002, Max: 0.009}
	p.Steps[profile.Unknown] = p.Steps[profile.Decode]
	if got := stepsLine(p); got != "20 decode steps of 2 ms (median)" {
		t.Error(got)
	}
	p.Steps[profile.Decode].Max, p.Steps[profile.Unknown].Max = 0.9, 0.9
	if got := stepsLine(p); got != "20 decode steps of 2 ms (median, the longest 900 ms)" {
		t.Error(got)
	}
}

func TestTextOfNothing(t *testing.T) {
	tl := profile.New("x", "torch.profiler", 0)
	tl.Close()
	p := profile.Combine([]*profile.Analysis{profile.Analyze(tl)})
	var b bytes.Buffer
	if err := Text(&b, p, judged(p), true, render.Options{}); err != nil ||
		!strings.HasPrefix(b.String(), "no-activity") {
		t.Errorf("%v %s", err, b.String())
	}
	if err := JSON(&b, p, judged(p)); err != nil {
		t.Error(err)
	}
	if err := HTML(&b, p, judged(p)); err != nil {
		t.Error(err)
	}
}

// TestJSON holds the names of fields that programs read.
func TestJSON(t *testing.T) {
	p := made(2, 0)
	var b bytes.Buffer
	must.Succeed(t, JSON(&b, p, judged(p)))
	var out struct {
		Schema  string
		Partial []string
		Verdict struct{ ID, Severity, Summary string }
		Shares  map[string]float64
		Groups  map[string]struct {
			Share   float64
			Seconds float64
		}
		Idle      map[string]float64
		Attention float64 `json:"attention_fraction"`
		GEMM      float64 `json:"gemm_fraction"`
		Comm      float64 `json:"communication_fraction"`
		GPUIdle   float64 `json:"gpu_idle_fraction"`
		Findings  []struct {
			ID, Status, Runbook string
			Evidence            []struct {
				Signal string
				Value  float64
			}
		}
		Steps   map[string]struct{ Count int }
		Devices []struct{ Name string }
	}
	must.Succeed(t, json.Unmarshal(b.Bytes(), &out))
	sum := out.GPUIdle
	for _, g := range out.Groups {
		sum += g.Share
	}
	if out.Schema != Schema || len(out.Partial) != 1 || out.Verdict.ID == "" || sum < 0.999 || sum > 1.001 ||
		len(out.Devices) != 2 || out.Steps["decode"].Count != 48 || out.Attention <= 0 || out.GEMM <= 0 ||
		out.Comm <= 0 {
		t.Errorf("%+v, sum %v", out, sum)
	}
	if len(out.Findings) != len(finding.Kinds()) || out.Findings[0].Status != "firing" ||
		out.Findings[0].Runbook != "docs/pathologies/slow-decode.md" || len(out.Findings[0].Evidence) == 0 {
		t.Errorf("%+v", out.Findings)
	}
}

func TestHTML(t *testing.T) {
	p := made(2, 0)
	var b bytes.Buffer
	must.Succeed(t, HTML(&b, p, judged(p)))
	page := b.String()
	for _, want := range []string{"Where the time goes", "rank 0, GPU 0", "Partial: the file is truncated", "sgemm&lt;script&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, banned := range []string{"<script", "http://", "https://", "ZgotmplZ"} {
		if strings.Contains(page, banned) {
			t.Errorf("the page has %q: it must be self-contained, without foreign scripts", banned)
		}
	}
}

func TestDiff(t *testing.T) {
	before, after := made(1, 0), made(1, 50_000)
	for _, tc := range []struct {
		before, after *profile.Profile
		gate          float64
		want          string
	}{{before, after, 0.03, "worse by more than 3 %"}, {before, before, 0.03, "within 3 %"}, {after, before, 0.03, "within 3 %"}, {before, after, -1, "compared:"}} {
		d := profile.Compare(tc.before, tc.after)
		var b, j bytes.Buffer
		if err := Diff(&b, d, tc.gate, false, render.Options{}); err != nil || !strings.HasPrefix(b.String(), tc.want) {
			t.Errorf("%v, want %q:\n%s", err, tc.want, b.String())
		}
		for line := range strings.Lines(b.String()) {
			if render.Cells(strings.TrimRight(line, "\n")) > 80 {
				t.Errorf("too wide: %s", line)
			}
		}
		must.Succeed(t, DiffJSON(&j, d, tc.gate))
		var out struct {
			Schema, Verdict, Per string
			Groups               []map[string]any
		}
		if err := json.Unmarshal(j.Bytes(), &out); err != nil || out.Schema != DiffSchema || out.Per != "decode step" ||
			len(out.Groups) == 0 {
			t.Errorf("%v %+v", err, out)
		}
	}
	if s := fmt.Sprint(formatGrowth(profile.Change{After: 1}.Growth(), false)); s != "new" {
		t.Error(s)
	}
}
