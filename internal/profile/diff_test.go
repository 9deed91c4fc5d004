package profile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// edit changes a trace.
type edit struct {
	kernel  string  // part of the name of the kernels to change; "" is none
	slower  float64 // factor of their duration
	times   int     // launches instead of one
	between int64   // µs that the host computes before each step
	stall   int64   // µs that the host computes once
}

// serve makes forty decode steps of a server. Each kernel's duration varies by 5 % at random.
func serve(seed uint64, e edit) *Profile {
	m, r, at := newMade(), rand.New(rand.NewPCG(seed, 1)), int64(1000)
	for step := range 40 {
		at += 100 + e.between
		if step == 20 {
			at += e.stall
		}
		m.call(Annotation, "execute_context_0(0)_generation_16(16)", at-60, 50, 0)
		for range 12 {
			for _, k := range []struct {
				name string
				dur  float64
			}{
				{"sm90_xmma_gemm_bf16bf16_qkv", 120},
				{"void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>", 60},
				{"void vllm::rms_norm_kernel<c10::BFloat16>", 8},
				{"nvjet_tst_128x128_mlp", 200},
				{"ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 25},
				{"void vllm::act_and_mul_kernel<silu>", 15},
			} {
				n := 1
				if e.kernel != "" && strings.Contains(k.name, e.kernel) {
					k.dur *= e.slower
					n = e.times
				}
				for range n {
					dur := int64(k.dur*(0.95+0.1*r.Float64())*1000) / 1000
					m.launched(k.name, at-30, at, dur)
					at += dur + 2
				}
			}
		}
	}
	m.Close()
	return Combine([]*Analysis{Analyze(m.Timeline)})
}

func TestDiffReportsExactlyWhatChanged(t *testing.T) {
	base := serve(1, edit{})
	for name, tc := range map[string]struct {
		edit
		want  string
		worse bool
	}{
		"norm launched twice":       {edit{kernel: "rms_norm", slower: 1, times: 2}, "normalisation +100% each +0%", false},
		"products 10 % slower":      {edit{kernel: "nvjet", slower: 1.1, times: 1}, "GEMM +0% each +6%", true},
		"activation is gone":        {edit{kernel: "act_and_mul", slower: 1}, "activation -100% each +0%", false},
		"communication 50 % slower": {edit{kernel: "nccl", slower: 1.5, times: 1}, "communication +0% each +50%", false},
		"200 µs between steps":      {edit{between: 200}, "idle: host", true},
		"one stall":                 {edit{stall: 50_000}, "", false},
		"a repetition":              {edit{}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := Compare(base, serve(uint64(len(name))+7, tc.edit))
			var got []string
			for _, c := range slices.Concat(d.Groups, d.Idle) {
				switch {
				case !c.Reported:
				case c.LaunchesBefore+c.LaunchesAfter > 0:
					more := 0.0
					if c.LaunchesBefore > 0 {
						more = c.LaunchesAfter/c.LaunchesBefore - 1
					}
					got = append(got, fmt.Sprintf("%s %+.0f%% each %+.0f%%", c.Name, 100*more, 100*c.MeanGrowth()))
				default:
					got = append(got, c.Name)
				}
			}
			if s := strings.Join(got, ", "); s != tc.want || d.Worse(0.03) != tc.worse {
				t.Errorf("%q, worse %v (%+.3f, p %.2g); want %q, %v",
					s, d.Worse(0.03), d.Judged().Growth(), d.Judged().P, tc.want, tc.worse)
			}
			for _, k := range d.Kernels {
				if k.Reported && tc.want == "" {
					t.Errorf("the kernel %s is reported: %+v", k.Name, k)
				}
			}
		})
	}
}

func TestOtherHardwareAndProgramsAreCaveats(t *testing.T) {
	a, b := serve(1, edit{}), serve(1, edit{})
	a.Ranks[0].Devices[0].Name, b.Ranks[0].Devices[0].Name = "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"
	b.Workload = SGLang
	if got := strings.Join(Compare(a, b).Caveats, "; "); !strings.Contains(got, "H100") ||
		!strings.Contains(got, "SGLang") {
		t.Error(got)
	}
}
