package profile

import (
	_ "embed"
	"encoding/csv"
	"slices"
	"strings"
	"sync"
)

// A Group is what a kernel is for.
type Group uint8

// The groups, in the order in which they are shown.
const (
	Attention Group = iota
	GEMM
	MoE
	Norm
	Activation
	Rotary
	KVCache
	Quantisation
	Sampling
	Embedding
	Convolution
	Elementwise
	Other
	Communication
	Copies
	Groups // how many there are
)

var groupNames = [Groups]string{
	"attention", "GEMM", "MoE", "normalisation", "activation", "rotary embedding", "KV cache", "quantisation",
	"sampling", "embedding", "convolution", "elementwise", "other", "communication", "copies",
}

func (g Group) String() string {
	if g < Groups {
		return groupNames[g]
	}
	return "unknown"
}

// A Meaning is what a name says of a kernel or an operator.
type Meaning struct {
	Group   Group
	How     bool   // it says how it computes, not what for: what launched it tells more
	Library string // whose it is; "" is unknown
}

//go:embed kernels.csv
var kernelsText string

// rule is a row of kernels.csv.
type rule struct {
	Meaning
	words  []string
	source string
}

// rules is the table kernels.csv, whose head says what its columns mean.
var rules = sync.OnceValue(func() (out []rule) {
	r := csv.NewReader(strings.NewReader(kernelsText))
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil {
		panic(err) // the table is part of the program, and a test reads it
	}
	for _, row := range rows[1:] {
		m := Meaning{Groups, row[3] == "how", row[1]}
		if i := slices.Index(groupNames[:], row[2]); i >= 0 {
			m.Group = Group(i) //nolint:gosec // one of the groups
		}
		out = append(out, rule{m, strings.Fields(row[0]), row[4]})
	}
	return out
})

// word is one of a rule.
type word struct {
	text  string
	rule  int
	first bool // a name begins with it
	open  bool // it may go on
}

// words are those of all rules, by their first letter.
var words = sync.OnceValue(func() (table *[256][]word) {
	table = new([256][]word)
	for i, r := range rules() {
		for _, w := range r.words {
			text, first := strings.CutPrefix(w, "^")
			text, open := strings.CutSuffix(text, "*")
			table[text[0]] = append(table[text[0]], word{text, i, first, open})
		}
	}
	return table
})

// sort of a byte in a name, by which its words are told apart.
func sortOf(c byte) byte {
	switch {
	case c >= 'a' && c <= 'z':
		return 'a'
	case c >= 'A' && c <= 'Z':
		return 'A'
	case c >= '0' && c <= '9':
		return '0'
	}
	return c
}

// squeeze returns a name in lower case without underscores and spaces, and where its words
// begin: behind a separator, at a capital behind a small letter, at the last of several
// capitals, between letters and digits.
func squeeze(name string) (text []byte, begins []bool) {
	last := byte('_')
	for i := range len(name) {
		c := name[i]
		s := sortOf(c)
		if c == '_' || c == ' ' {
			last = '_'
			continue
		}
		begin := s != last
		switch {
		case s == 'a' && last == 'A':
			begin = false
			if n := len(begins); n > 0 && i > 1 && sortOf(name[i-2]) == 'A' {
				begins[n-1] = true
			}
		case s != 'a' && s != 'A' && s != '0':
			begin = true
		}
		if s == 'A' {
			c += 'a' - 'A'
		}
		text, begins, last = append(text, c), append(begins, begin), s
	}
	return text, append(begins, true)
}

// MeaningOf says what a kernel or an operator is for, from its name.
func MeaningOf(name string) Meaning {
	if len(name) > 400 {
		name = name[:400] // of a C++ template the rest is types
	}
	text, begins := squeeze(strings.TrimPrefix(name, "void "))
	rules, words := rules(), words()
	group, library := len(rules), len(rules)
	// Inductor names what it fuses into one pointwise kernel after all operators around it.
	fused := strings.HasPrefix(name, "triton_") && strings.Contains(name, "_fused_") && !strings.HasPrefix(name, "triton_tem")
	for i := range text {
		if !begins[i] {
			continue
		}
		for _, w := range words[text[i]] {
			end := i + len(w.text)
			if w.rule >= group && w.rule >= library || i > 0 && w.first || end > len(text) ||
				!w.open && !begins[end] || string(text[i:end]) != w.text {
				continue
			}
			if g := rules[w.rule].Group; g != Groups && (!fused || g == Norm || g == Activation || g == Elementwise) {
				group = min(group, w.rule)
			}
			if rules[w.rule].Library != "" {
				library = min(library, w.rule)
			}
		}
	}
	m := Meaning{Group: Other, How: true}
	if group < len(rules) {
		m = rules[group].Meaning
	}
	if library < len(rules) {
		m.Library = rules[library].Library
	}
	return m
}

// shortenName shortens a kernel's name to what tells it apart: without its arguments, and
// without the namespaces and templates that all of PyTorch's have.
func shortenName(name string) string {
	if strings.Contains(name, ".py(") || strings.HasPrefix(name, "<") || strings.HasPrefix(name, "nn.Module") {
		return name // a Python function
	}
	s := strings.TrimPrefix(name, "void ")
	s = strings.NewReplacer("(anonymous namespace)::", "", "<unnamed>::", "", "at::native::", "", "c10::", "", "void ", "").Replace(s)
	depth := 0
	for i, c := range s {
		switch c {
		case '<':
			depth++
		case '>':
			depth--
		case '(':
			if depth == 0 && i > 0 && !strings.HasPrefix(s, "Mem") && !strings.HasPrefix(s, "operator") {
				return inner(s[:i])
			}
		}
	}
	return inner(s)
}

// common are words of many templates, which tell none apart.
const common = " Array BinaryFunctor AUnaryFunctor BUnaryFunctor float BFloat16 double unsigned bfloat16 ReduceOp at::TensorIteratorBase TensorIteratorBase unroll_factor "

// inner names an elementwise kernel after the function in its template.
func inner(s string) string {
	head, rest, ok := strings.Cut(s, "<")
	if !ok || !holdsAny(head, "elementwise", "reduce_kernel") {
		return s
	}
	for _, word := range strings.FieldsFunc(rest, func(c rune) bool { return strings.ContainsRune("<>,()&*{} #", c) }) {
		if len(word) < 5 || strings.HasPrefix(word, "gpu_kernel_impl") || strings.HasPrefix(word, "std::") || strings.HasPrefix(word, "at::detail") || strings.Contains(common, " "+word+" ") {
			continue
		}
		if j := strings.LastIndex(word, "::"); j >= 0 {
			word = word[j+2:]
		}
		return head + "<" + word + ">"
	}
	return head
}

// purpose is what an operator or a function gives to the kernels below it: gives to those whose
// names say only how they compute, hint to those whose names say nothing; Groups is none. What
// autograd does around an operator adds gradients up.
func (m Meaning) purpose(name string) (gives, hint Group) {
	if m.How || m.Group == Other || strings.HasPrefix(name, "autograd::engine") {
		return Groups, Groups
	}
	if m.Group == Communication || m.Group == Copies || m.Group == Elementwise {
		return Groups, m.Group
	}
	return m.Group, m.Group
}
