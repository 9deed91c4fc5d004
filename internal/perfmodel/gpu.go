package perfmodel

import (
	"fmt"
	"strings"

	"github.com/sixty-dev/sixty/internal/hint"
)

const (
	tera = 1e12
	giga = 1e9
)

// A GPU is one accelerator as its data sheet gives it. The numbers are peaks that no
// kernel reaches: a share of them is taken where nothing was measured.
type GPU struct {
	Name string

	// Memory is the nominal size in bytes: a data sheet's 80 GB are 80 GiB, of
	// which a driver shows up to 2 % less.
	Memory float64

	// Bandwidth is that of the memory, in bytes per second.
	Bandwidth float64

	// BF16 and FP8 are matrix arithmetic with 32-bit accumulation and without
	// structured sparsity, in operations per second. BF16 is FP16 where the
	// former does not exist; FP8 and FP4 are 0 where the hardware has none.
	BF16, FP8, FP4 float64

	aliases []string // names that nvidia-smi, rocm-smi and DCGM give
}

// Where a chip has several boards, the most common one in servers comes first:
// its chip's name alone means that one.
var specs = []GPU{
	// NVIDIA H100, H200, H20, GH200 data sheets (Hopper): half of the figures with sparsity.
	{"H100 SXM", 80 * gib, 3350 * giga, 989 * tera, 1979 * tera, 0, []string{"H100 80GB HBM3", "H800"}},
	{"H100 PCIe", 80 * gib, 2000 * giga, 756 * tera, 1513 * tera, 0, nil},
	{"H100 NVL", 94 * gib, 3900 * giga, 835 * tera, 1671 * tera, 0, nil},
	{"H200 SXM", 141 * gib, 4800 * giga, 989 * tera, 1979 * tera, 0, []string{"H200 141GB HBM3e"}},
	{"H200 NVL", 141 * gib, 4800 * giga, 835 * tera, 1671 * tera, 0, nil},
	{"H20", 96 * gib, 4000 * giga, 148 * tera, 296 * tera, 0, nil},
	{"GH200", 96 * gib, 4000 * giga, 989 * tera, 1979 * tera, 0, []string{"GH200 480GB"}},
	// NVIDIA HGX B200, HGX B300 and GB200 NVL72 data sheets (Blackwell): half of the figures
	// with sparsity. B200's FP4 is half of 18 PFLOPS, by the table for one GPU.
	{"B200", 180 * gib, 7700 * giga, 2250 * tera, 4500 * tera, 9000 * tera, nil},
	{"B300", 270 * gib, 7700 * giga, 2250 * tera, 4500 * tera, 14000 * tera, nil},
	{"GB200", 186 * gib, 8000 * giga, 2500 * tera, 5000 * tera, 10000 * tera, nil},
	// NVIDIA A100, A30, A40, A10, A10G data sheets (Ampere).
	{"A100 SXM 80GB", 80 * gib, 2039 * giga, 312 * tera, 0, 0, []string{"A100-SXM4-80GB", "A800"}},
	{"A100 PCIe 80GB", 80 * gib, 1935 * giga, 312 * tera, 0, 0, nil},
	{"A100 40GB", 40 * gib, 1555 * giga, 312 * tera, 0, 0, []string{"A100-SXM4-40GB", "A100-PCIE-40GB"}},
	{"A30", 24 * gib, 933 * giga, 165 * tera, 0, 0, nil},
	{"A40", 48 * gib, 696 * giga, 149.7 * tera, 0, 0, nil},
	{"A10", 24 * gib, 600 * giga, 125 * tera, 0, 0, nil},
	{"A10G", 24 * gib, 600 * giga, 70 * tera, 0, 0, nil},
	{"RTX A6000", 48 * gib, 768 * giga, 154.8 * tera, 0, 0, []string{"A6000"}},
	// NVIDIA L4, L40, L40S, RTX 6000 Ada data sheets (Ada).
	{"L4", 24 * gib, 300 * giga, 121 * tera, 242 * tera, 0, nil},
	{"L40S", 48 * gib, 864 * giga, 362 * tera, 733 * tera, 0, nil},
	{"L40", 48 * gib, 864 * giga, 181 * tera, 362 * tera, 0, nil},
	{"RTX 6000 Ada", 48 * gib, 960 * giga, 364 * tera, 728 * tera, 0, []string{"RTX 6000 Ada Generation"}},
	// NVIDIA Ada and Blackwell GPU architecture white papers (GeForce, RTX PRO). RTX 5090's FP4
	// is half of 3,352 AI TOPS.
	{"RTX 4090", 24 * gib, 1008 * giga, 165.2 * tera, 330.3 * tera, 0, []string{"GeForce RTX 4090"}},
	{"RTX 5090", 32 * gib, 1792 * giga, 209.5 * tera, 419 * tera, 1676 * tera, []string{"GeForce RTX 5090"}},
	{"RTX PRO 6000", 96 * gib, 1792 * giga, 503.8 * tera, 1007.6 * tera, 2015.2 * tera, []string{"RTX PRO 6000 Blackwell Workstation Edition"}},
	{"RTX PRO 6000 Server", 96 * gib, 1597 * giga, 503.8 * tera, 1007.6 * tera, 2015.2 * tera, []string{"RTX PRO 6000 Blackwell Server Edition"}},
	// NVIDIA GA102 white paper (RTX 3090), V100 and T4 data sheets: FP16.
	{"RTX 3090", 24 * gib, 936 * giga, 71 * tera, 0, 0, []string{"GeForce RTX 3090"}},
	{"V100 32GB", 32 * gib, 900 * giga, 125 * tera, 0, 0, []string{"V100-SXM2-32GB", "V100-PCIE-32GB"}},
	{"V100 16GB", 16 * gib, 900 * giga, 125 * tera, 0, 0, []string{"V100-SXM2-16GB", "V100-PCIE-16GB"}},
	{"T4", 16 * gib, 320 * giga, 65 * tera, 0, 0, nil},
	// AMD Instinct data sheets, without sparsity: MI355X has 5 PFLOPS in FP8 by AMD at ISSCC
	// 2026, and twice that in MXFP4.
	{"MI300X", 192 * gib, 5300 * giga, 1307.4 * tera, 2614.9 * tera, 0, nil},
	{"MI325X", 256 * gib, 6000 * giga, 1307.4 * tera, 2614.9 * tera, 0, nil},
	{"MI355X", 288 * gib, 8000 * giga, 2516.6 * tera, 5033.2 * tera, 10066.3 * tera, nil},
	{"MI210", 64 * gib, 1638 * giga, 181 * tera, 0, 0, nil},
	// Intel Gaudi white papers.
	{"Gaudi 2", 96 * gib, 2450 * giga, 432 * tera, 865 * tera, 0, nil},
	{"Gaudi 3", 128 * gib, 3700 * giga, 1835 * tera, 1835 * tera, 0, nil},
}

// GPUs returns every known accelerator.
func GPUs() []GPU { return append([]GPU(nil), specs...) }

// FindGPU returns the accelerator of a name as people, nvidia-smi or DCGM write it:
// "h100", "A100-SXM4-80GB", "NVIDIA GeForce RTX 4090". A name that several have
// begun with means the first of them.
func FindGPU(name string) (GPU, error) {
	want := plain(name)
	if want != "" {
		for _, s := range specs {
			if plain(s.Name) == want {
				return s, nil
			}
			for _, a := range s.aliases {
				if plain(a) == want {
					return s, nil
				}
			}
		}
		for _, s := range specs {
			if rest, ok := strings.CutPrefix(plain(s.Name), want); ok && !digit(want, rest) {
				return s, nil
			}
		}
	}
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
	}
	return GPU{}, hint.With(fmt.Errorf("unknown accelerator %q", name), "one of "+strings.Join(names, ", "))
}

// digit reports whether a cut goes through a number or a chip's name, as "A1"
// does in "A100" and "L40" in "L40S".
func digit(head, rest string) bool {
	word := func(b byte) bool { return b >= '0' && b <= '9' }
	return rest != "" && word(head[len(head)-1]) && (word(rest[0]) || len(rest) == 1)
}

// plain drops what names differ in without meaning anything by it.
func plain(name string) string {
	s := strings.ToLower(name)
	for _, maker := range []string{"nvidia", "amd", "intel", "instinct", "tesla"} {
		s = strings.ReplaceAll(s, maker, "")
	}
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' || r == '_' {
			return -1
		}
		return r
	}, s)
}
