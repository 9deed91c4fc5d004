package profile

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Stacks holds how much time was spent on the device, by what was on the host's stack
// where it was launched: annotations, Python functions, operators, the kernel.
type Stacks struct {
	names    *Names
	nodes    []node
	children map[uint64]int32
}

type node struct {
	parent int32
	name   uint32
	time   int64
	count  int
	flops  float64
}

// maxNodes bounds the tree.
const maxNodes = 200_000

func newStacks(names *Names) *Stacks {
	return &Stacks{names: names, nodes: make([]node, 1), children: map[uint64]int32{}}
}

func (s *Stacks) child(parent int32, name uint32) int32 {
	key := uint64(uint32(parent))<<32 | uint64(name) //nolint:gosec // never negative
	if n, ok := s.children[key]; ok {
		return n
	}
	if len(s.nodes) >= maxNodes {
		return parent
	}
	n := int32(len(s.nodes)) //nolint:gosec // at most maxNodes
	s.nodes = append(s.nodes, node{parent: parent, name: name})
	s.children[key] = n
	return n
}

// path returns the node of a stack, and remembers it in the frames.
func (s *Stacks) path(stack []frame) int32 {
	i := len(stack)
	for i > 0 && stack[i-1].node == 0 {
		i--
	}
	n := int32(0)
	if i > 0 {
		n = stack[i-1].node
	}
	for ; i < len(stack); i++ {
		if !stack[i].step {
			n = s.child(n, stack[i].name)
		}
		stack[i].node = n
	}
	return n
}

// add adds a kernel's time below a node; name 0 is the node's own.
func (s *Stacks) add(n int32, name uint32, time int64) {
	if name != 0 {
		n = s.child(n, name)
	}
	s.nodes[n].time += time
	s.nodes[n].count++
}

// label is a frame's name in one line without the separator of folded stacks.
func (s *Stacks) label(n int32) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ';':
			return ','
		case r < ' ':
			return ' '
		}
		return r
	}, shortenName(s.names.Text[s.nodes[n].name]))
}

// Folded writes a line for every stack with its time in microseconds, the format of
// flamegraph.pl and speedscope: "a;b;c 12".
func (s *Stacks) Folded(w io.Writer) error {
	paths := make([]string, len(s.nodes))
	var lines []string
	for i := 1; i < len(s.nodes); i++ { // a parent comes before its children
		n := int32(i) //nolint:gosec // at most maxNodes
		paths[i] = s.label(n)
		if p := s.nodes[i].parent; p > 0 {
			paths[i] = paths[p] + ";" + paths[i]
		}
		if us := (s.nodes[i].time + 500) / 1000; us > 0 {
			lines = append(lines, fmt.Sprintf("%s %d\n", paths[i], us))
		}
	}
	slices.Sort(lines)
	if _, err := io.WriteString(w, strings.Join(lines, "")); err != nil {
		return fmt.Errorf("write stacks: %w", err)
	}
	return nil
}

// A Flame is a frame of a flame graph with those above it, the widest first.
type Flame struct {
	Name     string
	Time     int64   // nanoseconds, those of the frames above it included, as all here
	Count    int     // launches
	Flops    float64 // operations, as far as shapes were recorded
	Children []*Flame
}

// Tree returns the flame graph, without frames that take less than a share of the whole.
func (s *Stacks) Tree(least float64) *Flame {
	flames := make([]*Flame, len(s.nodes))
	sums := slices.Clone(s.nodes)
	for i := len(s.nodes) - 1; i > 0; i-- {
		up := &sums[sums[i].parent]
		up.time, up.count, up.flops = up.time+sums[i].time, up.count+sums[i].count, up.flops+sums[i].flops
	}
	root := &Flame{Name: "all", Time: sums[0].time, Count: sums[0].count, Flops: sums[0].flops}
	flames[0] = root
	for i := 1; i < len(s.nodes); i++ {
		n := &sums[i]
		up := flames[n.parent]
		if up == nil || float64(n.time) < least*float64(root.Time) || n.time == 0 {
			continue
		}
		f := &Flame{Name: s.label(int32(i)), Time: n.time, Count: n.count, Flops: n.flops} //nolint:gosec // at most maxNodes
		flames[i] = f
		up.Children = append(up.Children, f)
	}
	var order func(*Flame)
	order = func(f *Flame) {
		slices.SortStableFunc(f.Children, func(a, b *Flame) int { return cmp.Compare(b.Time, a.Time) })
		for _, c := range f.Children {
			order(c)
		}
	}
	order(root)
	return root
}
