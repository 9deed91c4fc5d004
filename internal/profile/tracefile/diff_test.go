package tracefile

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/profile"
)

// edit changes a trace.
type edit struct {
	kernel  string  // part of the name of the kernels to change
	scale   float64 // factor of their duration; 0 is 1
	times   int     // launches instead of one; 0 is 1
	gone    bool    // they are not launched
	instead string  // another name
	between float64 // µs that the host computes before each step
}

// activity is an activity of the base trace. testdata/decode.json.gz names its source.
type activity struct {
	name, category, call string
	start, dur           float64
	launch               int
}

func base(t *testing.T) (out []activity) {
	t.Helper()
	f, err := os.Open("testdata/decode.json.gz")
	must.Succeed(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must.Succeed(t, err)
	var data struct{ Activities [][6]any }
	must.Succeed(t, json.NewDecoder(z).Decode(&data))
	for _, a := range data.Activities {
		out = append(out, activity{a[0].(string), a[1].(string), a[5].(string), a[2].(float64), a[3].(float64), int(a[4].(float64))})
	}
	return out
}

// steps repeats the base trace's decode step twenty-four times, in torch.profiler's format, and reads it. Durations vary
// by 3 % at random.
func steps(t *testing.T, of []activity, seed uint64, e edit) *profile.Profile {
	t.Helper()
	var b strings.Builder
	r, at := rand.New(rand.NewPCG(seed, 7)), 1000.0
	event := func(cat, name string, pid int, start, dur float64, corr int) {
		quoted, _ := json.Marshal(name) //nolint:errchkjson // a string
		fmt.Fprintf(&b, `{"ph":"X","cat":%q,"name":%s,"pid":%d,"tid":1,"ts":%.3f,"dur":%.3f,`+
			`"args":{"device":0,"stream":0,"correlation":%d}},`+"\n", cat, quoted, pid, start, dur, corr)
	}
	b.WriteString("[")
	for step := range 24 {
		at += 30 + e.between
		begin := at
		event("user_annotation", "execute_context_0(0)_generation_32(32)", 9, at-20, 18, 0)
		end, launched := 0.0, map[int]bool{}
		for _, a := range of {
			corr := 100*step + a.launch
			if !launched[a.launch] {
				launched[a.launch] = true
				event("cuda_runtime", a.call, 9, begin-12+0.2*float64(len(launched)), 0.1, corr)
			}
			at += max(0, a.start-end) // the base trace's gaps
			end = a.start + a.dur
			name, dur, times := a.name, a.dur*max(0.7, 1+0.03*r.NormFloat64()), 1
			if e.kernel != "" && strings.Contains(name, e.kernel) {
				dur, times = dur*cmp.Or(e.scale, 1), cmp.Or(e.times, 1)
				if e.gone {
					times = 0
				}
				if e.instead != "" {
					name = e.instead
				}
			}
			for range times {
				event(a.category, name, 0, at, dur, corr)
				at += dur
			}
		}
	}
	b.WriteString("{}]")
	tl, err := Read(t.Context(), write(t, "t.json", []byte(b.String())), 0)
	must.Succeed(t, err)
	return profile.Combine([]*profile.Analysis{profile.Analyze(tl)})
}

// TestDiffReportsExactlyWhatWasEdited edits a real trace in twelve ways, and repeats it without an edit six times.
func TestDiffReportsExactlyWhatWasEdited(t *testing.T) {
	const norm, experts, attention, cast = "Rmsnorm2d", "x1_swiglu", "kernel_unified_attention_3d", "triton_poi_fused__to_copy"
	of := base(t)
	before := steps(t, of, 1, edit{})
	tests := map[string]struct {
		edit
		want  string
		worse bool // by 3 %
	}{
		"norm 20 % slower":      {edit{kernel: norm, scale: 1.2}, "normalisation +0% each +20%; Rmsnorm2d", false},
		"norm twice":            {edit{kernel: norm, times: 2}, "normalisation +100% each +0%; Rmsnorm2d", true},
		"experts 15 % slower":   {edit{kernel: experts, scale: 1.15}, "MoE +0% each +7%; x1_swiglu", true},
		"experts 15 % faster":   {edit{kernel: experts, scale: 0.85}, "MoE +0% each -6%; x1_swiglu", false},
		"attention 50 % slower": {edit{kernel: attention, scale: 1.5}, "attention +0% each +34%; unified_attention", false},
		"attention gone":        {edit{kernel: attention, gone: true}, "attention -33% each -52%; unified_attention", false},
		"cast renamed":          {edit{kernel: cast, instead: "new_library::other_kernel_v2"}, "elementwise -46% each -40%, other +0% each +0%; other_kernel, to_copy", false},
		"cast twice":            {edit{kernel: cast, times: 2}, "elementwise +46% each +15%; to_copy", false},
		"cast 30 % slower":      {edit{kernel: cast, scale: 1.3}, "elementwise +0% each +21%; to_copy", false},
		"cast gone":             {edit{kernel: cast, gone: true}, "elementwise -46% each -40%; to_copy", false},
		"2 ms between steps":    {edit{between: 2000}, "idle: host", true},
		"0.8 ms between steps":  {edit{between: 800}, "idle: host", true},
	}
	for i := range 6 {
		tests[fmt.Sprintf("repetition %d", i)] = struct {
			edit
			want  string
			worse bool
		}{}
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := profile.Compare(before, steps(t, of, 100+uint64(name[len(name)-1])+uint64(len(name)), tc.edit))
			var parts, kernels []string
			for _, c := range slices.Concat(d.Groups, d.Idle) {
				switch {
				case !c.Reported:
				case c.LaunchesBefore+c.LaunchesAfter > 0:
					more := 0.0
					if c.LaunchesBefore > 0 {
						more = 100 * (c.LaunchesAfter/c.LaunchesBefore - 1)
					}
					parts = append(parts, fmt.Sprintf("%s %+.0f%% each %+.0f%%", c.Name, more, 100*c.MeanGrowth()))
				default:
					parts = append(parts, c.Name)
				}
			}
			for _, k := range d.Kernels {
				if k.Reported {
					kernels = append(kernels, k.Name)
				}
			}
			want, of, _ := strings.Cut(tc.want, "; ")
			if got := strings.Join(parts, ", "); got != want || d.Worse(0.03) != tc.worse {
				t.Errorf("%q, worse %v (%+.3f); want %q, %v", got, d.Worse(0.03), d.Judged().Growth(), want, tc.worse)
			}
			words := strings.FieldsFunc(of, func(r rune) bool { return r == ',' || r == ' ' })
			for _, k := range kernels {
				if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(k, w) }) {
					t.Errorf("the kernel %s is reported", k)
				}
			}
			if len(kernels) < len(words) {
				t.Errorf("kernels %q; want %q", kernels, words)
			}
		})
	}
}
