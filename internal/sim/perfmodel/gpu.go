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

// A GPU is an accelerator as its data sheet describes it. gpus.yaml has the source of each number. The numbers are
// peaks that no kernel reaches, so estimates use a share of them. A zero value means that the number is not known or
// the feature does not exist.
type GPU struct {
	Name       string   `json:"name"`
	Aliases    []string `json:"aliases"` // names that nvidia-smi, rocm-smi and DCGM give
	Chip       string   `json:"chip"`
	Family     string   `json:"family"`
	Capability float64  `json:"capability"` // NVIDIA's compute capability

	Memory  float64 `json:"memory"`  // in bytes, nominal
	Visible float64 `json:"visible"` // to PyTorch

	// Bytes per second. Bandwidth is the memory's. Link and Bus connect the GPUs of one machine, by links of their own
	// or by PCIe. Host connects a GPU with the host's memory.
	Bandwidth float64 `json:"bandwidth"`
	Link      float64 `json:"link"`
	Bus       float64 `json:"bus"`
	Host      float64 `json:"host"`

	// Matrix arithmetic with 32-bit accumulation, in operations per second.
	BF16 float64 `json:"bf16"`
	FP8  float64 `json:"fp8"`
	FP4  float64 `json:"fp4"`

	Node  int     `json:"node"`  // accelerators of one machine that Link connects
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

// mustParse reads data of this package, which the tests read too.
func mustParse(data []byte, to any) {
	if err := yaml.UnmarshalStrict(data, to); err != nil {
		panic(fmt.Sprintf("perfmodel: its own data: %v", err))
	}
}

// NodeSize is how many accelerators of one machine are connected at the data sheet's speed.
func (g GPU) NodeSize() int { return cmp.Or(g.Node, 8) }

// Slower returns a measured accelerator of the same maker that is no better than g in any number of the data sheet. So
// g is at least as fast, although it may be less well known. Slower prefers the same chip, then the fastest. It returns
// false if there is none.
func (g GPU) Slower() (best GPU, ok bool) {
	for _, s := range GPUs() {
		if (s.Capability > 0) != (g.Capability > 0) || s.Capability > g.Capability || !Fitted().hasMeasured(s.Chip) {
			continue
		}
		at, over := true, false
		for _, x := range [][2]float64{
			{s.Bandwidth, g.Bandwidth},
			{s.BF16, g.BF16},
			{s.FP8, g.FP8},
			{s.FP4, g.FP4},
			{max(s.Link, s.Bus), max(g.Link, g.Bus)},
			{s.Host, g.Host},
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

// FindGPU returns the accelerator with a name as users, nvidia-smi or DCGM write it: "h100", "A100-SXM4-80GB", "NVIDIA
// GeForce RTX 4090". The beginning of a name suffices; if several names begin so, the first is meant. A memory size in
// the name must match.
func FindGPU(name string) (GPU, error) {
	want, all := plainName(name), GPUs()
	named := func(g GPU) bool {
		return plainName(g.Name) == want ||
			slices.ContainsFunc(g.Aliases, func(a string) bool { return plainName(a) == want })
	}
	if i := slices.IndexFunc(all, named); i >= 0 && want != "" {
		return all[i], nil
	}
	head, size := want, 0.0
	if m := nameWithSize.FindStringSubmatch(strings.TrimSpace(name)); m != nil {
		head = plainName(m[1])
		size, _ = strconv.ParseFloat(m[2], 64)
	}
	var begun, names []string
	for _, g := range all {
		names = append(names, g.Name)
		board := g.Name
		if m := nameWithSize.FindStringSubmatch(board); m != nil {
			board = m[1]
		}
		rest, ok := strings.CutPrefix(plainName(board), head)
		if !ok || head == "" || cutsWord(head, rest) {
			continue
		}
		if size == 0 || math.Abs(g.Memory/gib-size) < 0.06*size {
			return g, nil
		}
		begun = append(begun, fmt.Sprintf("%s has %.0f GB", g.Name, g.Memory/gib))
	}
	if len(begun) > 0 {
		return GPU{}, hint.With(fmt.Errorf("unknown GPU %q: %s", name, strings.Join(begun, ", ")), fmt.Sprintf(
			"name one of these, or give only the memory (--gpu %.0fGiB), without step times", size))
	}
	slices.SortStableFunc(names,
		func(a, b string) int { return cmp.Compare(nameDistance(want, a), nameDistance(want, b)) })
	return GPU{}, hint.With(fmt.Errorf("unknown accelerator %q", name),
		"the nearest known ones: "+strings.Join(names[:nearestNames], ", "))
}

// nearestNames is how many known names the error for an unknown name lists.
const nearestNames = 5

// nameWithSize matches a name with the size of a memory.
var nameWithSize = regexp.MustCompile(`(?i)^(.+?)[\s_-]+(\d+)\s*gi?b$`)

// nameDistance is the edit distance between a plain name and an accelerator's.
func nameDistance(want, name string) int {
	name = plainName(name)
	return hint.Distance(want, name[:min(len(name), len(want)+1)], 100)
}

// cutsWord reports whether a cut goes through a number or a chip's name, as "A1" does in "A100" and "L40" in "L40S".
func cutsWord(head, rest string) bool {
	word := func(b byte) bool { return b >= '0' && b <= '9' }
	return rest != "" && word(head[len(head)-1]) && (word(rest[0]) || len(rest) == 1)
}

// plainName returns a name in lower case without makers, spaces and hyphens.
func plainName(name string) string {
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

// visibleMemory is the memory that a driver shows.
func (g GPU) visibleMemory() Estimate {
	if v := g.Visible; v > 0 {
		return Estimate{v, v * 0.995, v * 1.006} // drivers and ECC differ
	}
	return Estimate{g.Memory * 0.985, g.Memory * 0.96, g.Memory}
}

// ParseGPU reads the name of an accelerator, or a memory size for one without a data sheet: "H100", "80GiB".
func ParseGPU(text string) (GPU, Estimate, error) {
	if bytes, ok := ParseMemory(text); ok {
		return GPU{}, Exact(bytes), nil
	}
	g, err := FindGPU(text)
	return g, g.visibleMemory(), err
}
