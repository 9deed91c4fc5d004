package profile

import "strings"

// Names holds every name once. An operator's name has an entry for each Cost.
type Names struct {
	Text  []string // by number; 0 is no name
	costs []Cost   // by number, for the first numbers
	ids   map[string]uint32
	bytes int  // held by ids and Text, about
	full  bool // a name was not added
}

// A Cost is what one call of an operator computes and moves, by the shapes of its inputs.
type Cost struct {
	Flops float64 // operations; 0 for a collective
	Bytes float64 // least bytes to read and write; for a collective, bytes over a GPU's link
	Dims  string  // the shapes, for people
	Name  string  // the collective's name, for people
}

const (
	maxNames     = 1 << 19
	maxNameBytes = 128 << 20
	maxNameLen   = 4096
)

func newNames() *Names {
	return &Names{Text: []string{""}, ids: map[string]uint32{"": 0}}
}

// ID returns the number of a name, or 0 if there are too many names.
func (n *Names) ID(name []byte) uint32 {
	if id, ok := n.ids[string(name)]; ok {
		return id
	}
	return n.addName(string(name))
}

// addName adds the name before the first zero byte of key.
func (n *Names) addName(key string) uint32 {
	if len(n.Text) >= maxNames || n.bytes > maxNameBytes {
		n.full = true
		return 0
	}
	id := uint32(len(n.Text)) //nolint:gosec // at most maxNames
	text := key
	if i := strings.IndexByte(text, 0); i >= 0 {
		text = text[:i]
	}
	if len(text) > maxNameLen {
		text = text[:maxNameLen]
	}
	n.Text = append(n.Text, strings.ToValidUTF8(text, "�"))
	n.ids[key] = id
	n.bytes += 2 * len(key)
	return id
}

// IDWithCost returns the number of an operator's name with a cost; shapes distinguishes the costs of one name. It calls
// cost once for each pair of name and shapes.
func (n *Names) IDWithCost(name, shapes []byte, cost func() Cost) uint32 {
	all := make([]byte, 0, 256)
	all = append(append(append(all, name...), 0), shapes...)
	if id, ok := n.ids[string(all)]; ok {
		return id
	}
	id := n.addName(string(all))
	if id > 0 {
		if grow := len(n.Text) - len(n.costs); grow > 0 {
			n.costs = append(n.costs, make([]Cost, grow)...)
		}
		n.costs[id] = cost()
	}
	return id
}

// Cost returns an operator's cost; its zero value is unknown.
func (n *Names) Cost(id uint32) Cost {
	if int(id) < len(n.costs) {
		return n.costs[id]
	}
	return Cost{}
}

func (n *Names) closeNames() { n.ids = nil }
