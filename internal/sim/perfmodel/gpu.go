package perfmodel

import (
	"cmp"
	_ "embed" // gpus.yaml
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
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
	Chip       string   `json:"chip"`
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

// Slower is the fastest accelerator that was measured of which a GPU of the same maker has
// every number of the data sheet at least as large, of the same chip if there is one:
// whatever is not known of the latter, the former is no faster. False where there is none.
func (g GPU) Slower() (best GPU, ok bool) {
	for _, s := range GPUs() {
		if (s.Capability > 0) != (g.Capability > 0) || s.Capability > g.Capability || !Fitted().measured(s.Chip) {
			continue
		}
		at, over := true, false
		for _, x := range [][2]float64{
			{s.Bandwidth, g.Bandwidth}, {s.BF16, g.BF16}, {s.FP8, g.FP8}, {s.FP4, g.FP4}, {max(s.Link, s.Bus), max(g.Link, g.Bus)}, {s.Host, g.Host},
		} {
			at, over = at && x[0] <= x[1], over || x[0] < x[1]
		}
		same, has := s.Chip == g.Chip, ok && best.Chip == g.Chip
		if at && over && (same && !has || same == has && s.BF16*s.Bandwidth > best.BF16*best.Bandwidth) {
			best, ok = s, true
		}
	}
	return best, ok
}

// FindGPU returns the accelerator of a name as people, nvidia-smi or DCGM write it:
// "h100", "A100-SXM4-80GB", "NVIDIA GeForce RTX 4090". A name that several have
// begun with means the first of them; the size of its memory chooses among them, and none
// is taken for one of another size.
func FindGPU(name string) (GPU, error) {
	want, all := plain(name), GPUs()
	named := func(g GPU) bool {
		return plain(g.Name) == want || slices.ContainsFunc(g.Aliases, func(a string) bool { return plain(a) == want })
	}
	if i := slices.IndexFunc(all, named); i >= 0 && want != "" {
		return all[i], nil
	}
	head, size := want, 0.0
	if m := sized.FindStringSubmatch(strings.TrimSpace(name)); m != nil {
		head = plain(m[1])
		size, _ = strconv.ParseFloat(m[2], 64)
	}
	var begun, names []string
	for _, g := range all {
		names = append(names, g.Name)
		board := g.Name
		if m := sized.FindStringSubmatch(board); m != nil {
			board = m[1]
		}
		rest, ok := strings.CutPrefix(plain(board), head)
		if !ok || head == "" || digit(head, rest) {
			continue
		}
		if size == 0 || math.Abs(g.Memory/gib-size) < 0.06*size {
			return g, nil
		}
		begun = append(begun, fmt.Sprintf("%s has %.0f GB", g.Name, g.Memory/gib))
	}
	if len(begun) > 0 {
		return GPU{}, hint.With(fmt.Errorf("unknown GPU %q: %s", name, strings.Join(begun, ", ")), "name one of these, or give only the memory (--gpu "+fmt.Sprintf("%.0fGiB", size)+"), without step times")
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(distance(want, a), distance(want, b)) })
	return GPU{}, hint.With(fmt.Errorf("unknown accelerator %q", name), "the nearest known ones: "+strings.Join(names[:nearest], ", "))
}

// nearest is how many names an unknown one is answered with.
const nearest = 5

// sized is a name with the size of a memory.
var sized = regexp.MustCompile(`(?i)^(.+?)[\s_-]+(\d+)\s*gi?b$`)

// distance is how far a plain name is from an accelerator's.
func distance(want, name string) int {
	name = plain(name)
	return hint.Distance(want, name[:min(len(name), len(want)+1)], 100)
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
