package profile

import (
	_ "embed"
	"slices"
	"strings"
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
	"attention", "GEMM", "MoE", "normalisation", "activation", "rotary embedding", "KV cache", "quantisation", "sampling", "embedding",
	"convolution", "elementwise", "other", "communication", "copies",
}

func (g Group) String() string {
	if g < Groups {
		return groupNames[g]
	}
	return "unknown"
}

// Rule says that a name with one of the words belongs to a group. A word after ^ is one
// that the name begins with.
type Rule struct {
	Group Group
	Words []string // in lower case
}

//go:embed groups.txt
var groupsText string

// Rules is the table by which names of kernels and operators are told apart (groups.txt): the
// first rule with a word that the name holds, in lower case and without underscores and spaces,
// decides.
var Rules = readRules(groupsText)

func readRules(text string) (rules []Rule) {
	for line := range strings.Lines(text) {
		switch words := strings.Fields(line); {
		case len(words) == 0 || words[0] == "#":
		case line[0] == ' ':
			last := &rules[len(rules)-1]
			last.Words = append(last.Words, words...)
		default:
			g := slices.Index(groupNames[:], strings.TrimSpace(line))
			rules = append(rules, Rule{Group: Group(g)}) //nolint:gosec // TestRules knows the groups of the table
		}
	}
	return rules
}

var squeeze = strings.NewReplacer("_", "", " ", "")

// GroupOf says what a kernel or an operator is for, from its name.
func GroupOf(name string) Group {
	if len(name) > 400 {
		name = name[:400] // of a C++ template the rest is types
	}
	n := squeeze.Replace(strings.ToLower(strings.TrimPrefix(name, "void ")))
	best := len(Rules)
	for i := range len(n) {
		for _, w := range words[n[i]] {
			if w.rule < best && (i == 0 || !w.first) && strings.HasPrefix(n[i:], w.text) {
				best = w.rule
			}
		}
	}
	if best < len(Rules) {
		return Rules[best].Group
	}
	return Other
}

// word is one of a rule.
type word struct {
	text  string
	rule  int
	first bool // a name begins with it
}

// words are those of all rules, by their first letter.
var words = func() (table [256][]word) {
	for i, r := range Rules {
		for _, w := range r.Words {
			text, first := strings.CutPrefix(w, "^")
			table[text[0]] = append(table[text[0]], word{text, i, first})
		}
	}
	return table
}()

// hasVagueName reports whether a kernel's name says how it computes and not what for: what
// launched it may tell more.
func hasVagueName(g Group) bool {
	return g == Elementwise || g == Other || g == GEMM || g == Embedding || g == Sampling
}

// purpose is a group that an operator gives to the kernels below it, or false: only
// those that say what for. What autograd does around an operator adds gradients up.
func purpose(operator string) (Group, bool) {
	if strings.HasPrefix(operator, "autograd::engine") {
		return Other, false
	}
	switch g := GroupOf(operator); g {
	case Attention, MoE, Norm, Rotary, KVCache, Quantisation, Sampling, Activation, Convolution:
		return g, true
	}
	return Other, false
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
				s = s[:i]
				return inner(s)
			}
		}
	}
	return inner(s)
}

// inner names an elementwise kernel after the function in its template.
func inner(s string) string {
	i := strings.IndexByte(s, '<')
	if i < 0 {
		return s
	}
	head, rest := s[:i], s[i+1:]
	if !strings.Contains(head, "elementwise") && !strings.Contains(head, "reduce_kernel") {
		return s
	}
	for _, word := range strings.FieldsFunc(rest, func(c rune) bool { return strings.ContainsRune("<>,()&*{} #", c) }) {
		switch {
		case len(word) < 5, strings.HasPrefix(word, "gpu_kernel_impl"), strings.HasPrefix(word, "std::"), word == "Array", strings.HasPrefix(word, "at::detail"),
			word == "BinaryFunctor", word == "AUnaryFunctor", word == "BUnaryFunctor", word == "float", word == "BFloat16", word == "double", word == "unsigned", word == "bfloat16",
			word == "ReduceOp", word == "at::TensorIteratorBase", word == "TensorIteratorBase", word == "unroll_factor":
			continue
		}
		if j := strings.LastIndex(word, "::"); j >= 0 {
			word = word[j+2:]
		}
		return head + "<" + word + ">"
	}
	return head
}
