package scrapeconfig

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// comments are what is said of the values of a document, by their paths, such
// as "scrape_configs.0.sample_limit".
type comments map[string]string

// encode writes documents as YAML, each value with the comment of its path
// above it.
func encode(header string, docs []any, notes []comments) ([]byte, error) {
	var b bytes.Buffer
	for paragraph := range strings.SplitSeq(header, "\n") {
		for line := range strings.SplitSeq(wrapText(paragraph), "\n") {
			b.WriteString(strings.TrimRight("# "+line, " ") + "\n")
		}
	}
	b.WriteByte('\n')
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	for i, doc := range docs {
		var n yaml.Node
		if err := n.Encode(doc); err != nil {
			return nil, fmt.Errorf("encode %T: %w", doc, err)
		}
		for path, text := range notes[i] {
			if err := comment(&n, path, text); err != nil {
				return nil, err
			}
		}
		if err := e.Encode(&n); err != nil {
			return nil, fmt.Errorf("encode %T: %w", doc, err)
		}
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return b.Bytes(), nil
}

// comment puts text above the value at a path. That the path is there is the
// caller's affair: an error is a fault of this package.
func comment(n *yaml.Node, path, text string) error {
	at := n
	for step := range strings.SplitSeq(path, ".") {
		next, label := child(n, step)
		if next == nil {
			return fmt.Errorf("comment on %s: no such value", path)
		}
		n, at = next, label
	}
	at.HeadComment = wrapText(text)
	return nil
}

// child returns the value at one step, and the node that carries its comment:
// the key in a mapping, the item in a sequence.
func child(n *yaml.Node, step string) (value, label *yaml.Node) {
	if n.Kind == yaml.SequenceNode {
		i, err := strconv.Atoi(step)
		if err != nil || i < 0 || i >= len(n.Content) {
			return nil, nil
		}
		return n.Content[i], n.Content[i]
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == step {
			return n.Content[i+1], n.Content[i]
		}
	}
	return nil, nil
}

// explain notes the reasons of relabelling steps.
func (c comments) explain(path string, steps []relabel) {
	for i, r := range steps {
		if r.why != "" {
			c[path+"."+strconv.Itoa(i)] = r.why
		}
	}
}

// wrapText breaks text into lines of some eighty characters.
func wrapText(text string) string {
	const width = 84
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
