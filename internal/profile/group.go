package profile

import (
	_ "embed"
	"encoding/csv"
	"slices"
	"strings"
	"sync"
)

// A Group is the purpose of kernels.
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
	Groups // number of groups
)

// noGroup stands for no group, where a name gives none.
const noGroup = Groups

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

// A Meaning is what the name of a kernel or an operator says.
type Meaning struct {
	Group   Group
	Generic bool   // the name says how it computes and not for what: the group of its launcher counts
	Library string // "" is unknown
}

//go:embed kernels.csv
var kernelsText string

// A rule is a row of kernels.csv.
type rule struct {
	Meaning
	words  []string
	source string
}

// ruleTable returns the rows of kernels.csv, whose head explains the columns.
var ruleTable = sync.OnceValue(func() (out []rule) {
	r := csv.NewReader(strings.NewReader(kernelsText))
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil {
		panic(err) // the table is part of the program, and a test reads it
	}
	for _, row := range rows[1:] {
		m := Meaning{noGroup, row[3] == "how", row[1]}
		if i := slices.Index(groupNames[:], row[2]); i >= 0 {
			m.Group = Group(i) //nolint:gosec // one of the groups
		}
		out = append(out, rule{m, strings.Fields(row[0]), row[4]})
	}
	return out
})

type word struct {
	letters string
	rule    int  // index in ruleTable
	first   bool // only at the beginning of a name
	open    bool // a word of the name may go on after it
}

// wordTable returns the words of all rules by their first letter.
var wordTable = sync.OnceValue(func() (table *[256][]word) {
	table = new([256][]word)
	for i, r := range ruleTable() {
		for _, w := range r.words {
			text, first := strings.CutPrefix(w, "^")
			text, open := strings.CutSuffix(text, "*")
			table[text[0]] = append(table[text[0]], word{text, i, first, open})
		}
	}
	return table
})

// letterClass returns 'a', 'A' or '0' for small letters, capitals and digits, and any other byte itself. Words begin
// where the class changes.
func letterClass(c byte) byte {
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

// squeezeName returns a name in lower case without underscores and spaces, and for each byte whether a word begins
// there: after a separator, at a capital after a small letter, at the last of several capitals, between letters and
// digits. A last element of begins stands for the end of the name.
func squeezeName(name string) (squeezed []byte, begins []bool) {
	last := byte('_')
	for i := range len(name) {
		c := name[i]
		if c == '_' || c == ' ' {
			last = '_'
			continue
		}
		class := letterClass(c)
		begin := class != last
		switch {
		case class == 'a' && last == 'A':
			begin = false
			if n := len(begins); n > 0 && i > 1 && letterClass(name[i-2]) == 'A' {
				begins[n-1] = true
			}
		case class != 'a' && class != 'A' && class != '0':
			begin = true
		}
		if class == 'A' {
			c += 'a' - 'A'
		}
		squeezed, begins, last = append(squeezed, c), append(begins, begin), class
	}
	return squeezed, append(begins, true)
}

// MeaningOf returns what the name of a kernel or an operator says.
func MeaningOf(name string) Meaning {
	if len(name) > 400 {
		name = name[:400] // the rest of a C++ template is types
	}
	text, begins := squeezeName(strings.TrimPrefix(name, "void "))
	rules, vocabulary := ruleTable(), wordTable()
	group, library := len(rules), len(rules) // indexes of the first rules that match
	// Inductor names a fused pointwise kernel after all operators around it, also those that it does not compute.
	fused := strings.HasPrefix(name, "triton_") && strings.Contains(name, "_fused_") &&
		!strings.HasPrefix(name, "triton_tem")
	for i := range text {
		if !begins[i] {
			continue
		}
		for _, w := range vocabulary[text[i]] {
			if w.rule >= group && w.rule >= library || !w.standsAt(i, text, begins) {
				continue
			}
			if g := rules[w.rule].Group; g != noGroup && (!fused || g == Norm || g == Activation || g == Elementwise) {
				group = min(group, w.rule)
			}
			if rules[w.rule].Library != "" {
				library = min(library, w.rule)
			}
		}
	}
	m := Meaning{Group: Other, Generic: true}
	if group < len(rules) {
		m = rules[group].Meaning
	}
	if library < len(rules) {
		m.Library = rules[library].Library
	}
	return m
}

// standsAt reports whether the word is at text[i:], a place in a squeezed name where a word begins.
func (w *word) standsAt(i int, text []byte, begins []bool) bool {
	end := i + len(w.letters)
	return (i == 0 || !w.first) && end <= len(text) && (w.open || begins[end]) && string(text[i:end]) == w.letters
}

// shortenName shortens a kernel's name to its distinctive part: without arguments, and without the
// namespaces and templates that all of PyTorch's kernels have.
func shortenName(name string) string {
	if strings.Contains(name, ".py(") || strings.HasPrefix(name, "<") || strings.HasPrefix(name, "nn.Module") {
		return name // a Python function
	}
	s := strings.TrimPrefix(name, "void ")
	s = strings.NewReplacer(
		"(anonymous namespace)::", "", "<unnamed>::", "", "at::native::", "", "c10::", "", "void ", "",
	).Replace(s)
	depth := 0
	for i, c := range s {
		switch c {
		case '<':
			depth++
		case '>':
			depth--
		case '(':
			if depth == 0 && i > 0 && !strings.HasPrefix(s, "Mem") && !strings.HasPrefix(s, "operator") {
				return innerName(s[:i])
			}
		}
	}
	return innerName(s)
}

// common are words that occur in many templates, so that they distinguish none.
const common = " Array BinaryFunctor AUnaryFunctor BUnaryFunctor float BFloat16 double unsigned bfloat16 ReduceOp " +
	"at::TensorIteratorBase TensorIteratorBase unroll_factor "

// innerName names an elementwise kernel after the function in its template.
func innerName(s string) string {
	head, rest, ok := strings.Cut(s, "<")
	if !ok || !holdsAny(head, "elementwise", "reduce_kernel") {
		return s
	}
	for _, word := range strings.FieldsFunc(rest, func(c rune) bool { return strings.ContainsRune("<>,()&*{} #", c) }) {
		prefixed := slices.ContainsFunc([]string{"gpu_kernel_impl", "std::", "at::detail"},
			func(p string) bool { return strings.HasPrefix(word, p) })
		if len(word) < 5 || prefixed || strings.Contains(common, " "+word+" ") {
			continue
		}
		if j := strings.LastIndex(word, "::"); j >= 0 {
			word = word[j+2:]
		}
		return head + "<" + word + ">"
	}
	return head
}

// purposeBelow returns the groups that an operator or a function gives to the kernels that are launched below it: gives
// to kernels with generic names, hint to kernels whose names say nothing. Autograd's functions give none, because the
// only kernels that they launch themselves sum gradients.
func (m Meaning) purposeBelow(name string) (gives, hint Group) {
	if m.Generic || m.Group == Other || strings.HasPrefix(name, "autograd::engine") {
		return noGroup, noGroup
	}
	if m.Group == Communication || m.Group == Copies || m.Group == Elementwise {
		return noGroup, m.Group
	}
	return m.Group, m.Group
}
