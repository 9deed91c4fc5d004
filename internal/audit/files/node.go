package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Bounds of a file. Dashboards of a few hundred panels are below a megabyte.
const (
	MaxFile  = 16 << 20
	maxDepth = 200
	maxNodes = 1_000_000
)

// A kind is the kind of a node.
type kind uint8

const (
	null kind = iota
	object
	list
	text  // a string
	other // a number or a boolean, as written
)

var kindNames = [...]string{"nothing", "a mapping", "a list", "a string", "a number or boolean"}

func (k kind) String() string { return kindNames[k] }

// A Node is a value in a YAML or JSON file that knows where it stands, so that
// it can be pointed at and so that one string can be changed without touching
// anything else.
type Node struct {
	kind   kind
	Value  string // of text and other, decoded
	fields []Field
	items  []*Node

	offset int  // of its first byte, quotes included
	aside  bool // it is written elsewhere, and can only be pointed at: by an alias, in a string of another file
}

// A Field is one of a mapping's.
type Field struct {
	Key   string
	Value *Node
}

// Get returns a field's value, nil where there is none.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	for _, f := range n.fields {
		if f.Key == key {
			return f.Value
		}
	}
	return nil
}

// At follows a path of keys.
func (n *Node) At(path ...string) *Node {
	for _, key := range path {
		n = n.Get(key)
	}
	return n
}

// Str returns a string's value, "" for anything else.
func (n *Node) Str() string {
	if n == nil || n.kind != text {
		return ""
	}
	return n.Value
}

// Scalar returns the value of a string, a number or a boolean.
func (n *Node) Scalar() string {
	if n == nil || n.kind != text && n.kind != other {
		return ""
	}
	return n.Value
}

// Items returns a list's items, none of a nil node.
func (n *Node) Items() []*Node {
	if n == nil {
		return nil
	}
	return n.items
}

// Fields returns a mapping's fields, none of a nil node.
func (n *Node) Fields() []Field {
	if n == nil {
		return nil
	}
	return n.fields
}

// A syntaxError says where a file is not what it should be.
type syntaxError struct {
	line, column int // from 1; columns count characters
	text         string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%d:%d: %s", e.line, e.column, e.text) }

// parse reads the documents of a file: one of JSON, one or more of YAML.
func parse(data []byte) ([]*Node, error) {
	switch {
	case len(data) > MaxFile:
		return nil, fmt.Errorf("larger than %d MiB", MaxFile>>20)
	case !utf8.Valid(data):
		return nil, errors.New("not UTF-8 text")
	}
	trimmed := bytes.TrimLeft(data, " \t\r\n\ufeff")
	if len(trimmed) == 0 {
		return nil, errors.New("empty")
	}
	if trimmed[0] == '{' || trimmed[0] == '[' {
		n, err := parseJSON(data)
		if err != nil && strings.Contains(string(data), "{{") {
			err = hint.With(err, "render templates before, such as with helm template")
		}
		if err != nil {
			return nil, err
		}
		return []*Node{n}, nil
	}
	return parseYAML(data)
}

// jsonReader builds nodes from the tokens of a decoder.
type jsonReader struct {
	data  []byte
	d     *json.Decoder
	lines []int // offsets at which lines begin
	nodes int
}

func parseJSON(data []byte) (*Node, error) {
	bom := bytes.HasPrefix(data, []byte("\ufeff"))
	if bom { // keep offsets: three blanks for three bytes
		data = append([]byte("   "), data[3:]...)
	}
	r := &jsonReader{data: data, d: json.NewDecoder(bytes.NewReader(data)), lines: lineStarts(data)}
	r.d.UseNumber()
	n, err := r.value(0)
	if err == nil {
		if _, end := r.d.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("more than one value")
		}
	}
	if err == nil {
		return n, nil
	}
	var at *syntaxError
	if errors.As(err, &at) {
		return nil, err
	}
	offset := int(r.d.InputOffset())
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		offset = int(syntax.Offset)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		offset, err = len(data), errors.New("the file ends in the middle")
	}
	return nil, errorAt(data, r.lines, offset, "not JSON: "+err.Error())
}

// start returns where the next token begins.
func (r *jsonReader) start() int {
	i := int(r.d.InputOffset())
	for i < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[i]) >= 0 {
		i++
	}
	return i
}

func (r *jsonReader) value(depth int) (*Node, error) {
	n := &Node{offset: r.start()}
	if r.nodes++; depth > maxDepth || r.nodes > maxNodes {
		return nil, errorAt(r.data, r.lines, n.offset, "nested too deeply, or too large")
	}
	token, err := r.d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case string:
		n.kind, n.Value = text, v
	case json.Number:
		n.kind, n.Value = other, v.String()
	case bool:
		n.kind, n.Value = other, strconv.FormatBool(v)
	case json.Delim:
		return n, r.container(n, v, depth)
	}
	return n, nil
}

func (r *jsonReader) container(n *Node, open json.Delim, depth int) error {
	n.kind = list
	if open == '{' {
		n.kind = object
	}
	for r.d.More() {
		key := ""
		if n.kind == object {
			token, err := r.d.Token()
			if err != nil {
				return err
			}
			key, _ = token.(string)
		}
		child, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		if n.kind == object {
			n.fields = append(n.fields, Field{key, child})
		} else {
			n.items = append(n.items, child)
		}
	}
	_, err := r.d.Token()
	return err
}

// yamlReader builds nodes from those of the YAML library.
type yamlReader struct {
	data  []byte
	lines []int
	nodes int
}

// yamlBreaks end lines as the YAML library counts them: more of them than an editor shows.
var yamlBreaks = regexp.MustCompile(`\r\n|[\r\n\x{85}\x{2028}\x{2029}]`)

func parseYAML(data []byte) ([]*Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	r := &yamlReader{data: data, lines: []int{0}}
	for _, end := range yamlBreaks.FindAllIndex(data, -1) {
		r.lines = append(r.lines, end[1])
	}
	var out []*Node
	for {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			err = fmt.Errorf("not YAML: %w", err)
			if bytes.Contains(data, []byte("{{")) {
				err = hint.With(err, "render templates before, such as with helm template; quote texts that contain {{")
			}
			return nil, err
		}
		if len(doc.Content) == 0 {
			continue
		}
		n, err := r.node(doc.Content[0], 0)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	if len(out) == 0 {
		return nil, errors.New("empty")
	}
	return out, nil
}

func (r *yamlReader) node(y *yaml.Node, depth int) (*Node, error) {
	n := &Node{offset: r.offsetOf(y)}
	if r.nodes++; depth > maxDepth || r.nodes > maxNodes {
		return nil, &syntaxError{y.Line, y.Column, "nested too deeply, or too large"}
	}
	switch y.Kind {
	case yaml.MappingNode:
		n.kind = object
		for i := 0; i+1 < len(y.Content); i += 2 {
			child, err := r.node(y.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			n.fields = append(n.fields, Field{y.Content[i].Value, child})
		}
	case yaml.SequenceNode:
		n.kind = list
		for _, item := range y.Content {
			child, err := r.node(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, child)
		}
	case yaml.ScalarNode:
		r.scalar(n, y)
	case yaml.AliasNode:
		// What an alias stands for is checked where it is written; only strings
		// are followed, so that aliases of aliases cannot multiply.
		if y.Alias != nil && y.Alias.Kind == yaml.ScalarNode {
			r.scalar(n, y.Alias)
			n.aside = true
		}
	}
	return n, nil
}

func (r *yamlReader) scalar(n *Node, y *yaml.Node) {
	n.Value = y.Value
	switch tag := y.ShortTag(); {
	case tag == "!!null":
		n.kind = null
	case tag == "!!str":
		n.kind = text
	default:
		n.kind = other
	}
}

// offsetOf returns the byte at which a YAML node begins; a block's content
// begins on the line after its indicator.
func (r *yamlReader) offsetOf(y *yaml.Node) int {
	at := r.lines[min(y.Line, len(r.lines))-1]
	for c := 1; c < y.Column && at < len(r.data); c++ {
		_, size := utf8.DecodeRune(r.data[at:])
		at += size
	}
	if y.Kind == yaml.ScalarNode && y.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		if y.Line >= len(r.lines) {
			return len(r.data)
		}
		return r.lines[y.Line]
	}
	for at < len(r.data) && (r.data[at] == '&' || r.data[at] == '!') && y.Kind == yaml.ScalarNode { // an anchor, a tag
		for at < len(r.data) && !isSpace(r.data[at]) {
			at++
		}
		for at < len(r.data) && r.data[at] == ' ' {
			at++
		}
	}
	return at
}

// lineStarts returns the offsets at which the lines of a text begin.
func lineStarts(data []byte) []int {
	starts := []int{0}
	for i, b := range data {
		if b == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// position returns the line and the column, both from 1, of an offset.
func position(data []byte, starts []int, offset int) (line, column int) {
	offset = min(offset, len(data))
	line, found := slices.BinarySearch(starts, offset)
	if found {
		line++
	}
	return line, utf8.RuneCount(data[starts[line-1]:offset]) + 1
}

func errorAt(data []byte, starts []int, offset int, text string) error {
	line, column := position(data, starts, offset)
	return &syntaxError{line, column, text}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
