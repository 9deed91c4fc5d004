package perfmodel

import (
	"cmp"
	_ "embed" // gpus.yaml
	"fmt"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// A GPU is one accelerator as its data sheet gives it; gpus.yaml says where each number is
// from. They are peaks that no kernel reaches: a share of them is taken where nothing was
// measured. A zero value is not known, or not there.
type GPU struct {
	Name       string   `json:"name"`
	Aliases    []string `json:"aliases"` // names that nvidia-smi, rocm-smi and DCGM give
	Family     string   `json:"family"`
	Capability float64  `json:"capability"` // NVIDIA's compute capability

	Memory  float64 `json:"memory"`  // in bytes, nominal
	Visible float64 `json:"visible"` // of it, to PyTorch

	// Bandwidth is that of the memory, Link and Bus that between the GPUs of one machine, over
	// links of their own or over PCIe, Host that from the host's memory: bytes per second.
	Bandwidth float64 `json:"bandwidth"`
	Link      float64 `json:"link"`
	Bus       float64 `json:"bus"`
	Host      float64 `json:"host"`

	// Matrix arithmetic with 32-bit accumulation, in operations per second.
	BF16 float64 `json:"bf16"`
	FP8  float64 `json:"fp8"`
	FP4  float64 `json:"fp4"`

	Node  int     `json:"node"`  // accelerators of one machine whose links are as fast as that
	Price float64 `json:"price"` // dollars an hour
}

//go:embed gpus.yaml
var gpusYAML []byte

// GPUs returns every known accelerator.
var GPUs = sync.OnceValue(func() []GPU {
	var out []GPU
	mustParse(gpusYAML, &out)
	for i := range out {
		g := &out[i]
		for unit, of := range map[float64][]*float64{
			gib:  {&g.Memory, &g.Visible},
			1e9:  {&g.Bandwidth, &g.Link, &g.Bus, &g.Host},
			1e12: {&g.BF16, &g.FP8, &g.FP4},
		} {
			for _, v := range of {
				*v *= unit
			}
		}
	}
	return out
})

// mustParse reads data of this package, which tests have read before.
func mustParse(data []byte, to any) {
	if err := yaml.UnmarshalStrict(data, to); err != nil {
		panic(fmt.Sprintf("perfmodel: its own data: %v", err))
	}
}

// NodeSize is how many accelerators of a kind one machine has whose links are as fast as
// the data sheet says.
func (g GPU) NodeSize() int { return cmp.Or(g.Node, 8) }

// FindGPU returns the accelerator of a name as people, nvidia-smi or DCGM write it:
// "h100", "A100-SXM4-80GB", "NVIDIA GeForce RTX 4090". A name that several have
// begun with means the first of them.
func FindGPU(name string) (GPU, error) {
	want, all := plain(name), GPUs()
	named := func(g GPU) bool {
		return plain(g.Name) == want || slices.ContainsFunc(g.Aliases, func(a string) bool { return plain(a) == want })
	}
	begins := func(g GPU) bool {
		rest, ok := strings.CutPrefix(plain(g.Name), want)
		return ok && !digit(want, rest)
	}
	if want != "" {
		for _, is := range []func(GPU) bool{named, begins} {
			if i := slices.IndexFunc(all, is); i >= 0 {
				return all[i], nil
			}
		}
	}
	var names []string
	for _, g := range all {
		names = append(names, g.Name)
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
