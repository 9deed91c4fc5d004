package slo

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/catalog/synonym"
)

// formatPosition writes the line and column of a node.
func formatPosition(n *yaml.Node) string { return fmt.Sprintf("line %d, column %d", n.Line, n.Column) }

var twice = regexp.MustCompile(`^mapping key "?(.+?)"? already defined at (line \d+)$`)

// locateError rewrites decoding errors, which name Go types, for authors of YAML: only the first error, with its line
// and column.
func locateError(err error, content []byte) error {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) || len(wrong.Errors) == 0 {
		return err
	}
	parts := regexp.MustCompile(`^line (\d+): (.*)$`).FindStringSubmatch(strings.SplitN(wrong.Errors[0], "\n", 2)[0])
	var doc yaml.Node
	if parts == nil || yaml.Unmarshal(content, &doc) != nil {
		return err
	}
	line, _ := strconv.Atoi(parts[1])
	what := parts[2]
	wanted := func(n *yaml.Node) bool { return n.Kind != yaml.DocumentNode }
	if m := regexp.MustCompile(`^field (.+) not found in type .+$`).FindStringSubmatch(what); m != nil {
		what = fmt.Sprintf("unknown key %q", m[1])
		if ours := synonym.Translate(m[1]); ours != m[1] {
			what += ": did you mean " + ours + "?"
		}
		wanted = func(n *yaml.Node) bool { return n.Value == m[1] }
	} else if m := twice.FindStringSubmatch(what); m != nil {
		what = fmt.Sprintf("key %q was given already, at %s", m[1], m[2])
		wanted = func(n *yaml.Node) bool { return n.Value == m[1] }
	} else if m := regexp.MustCompile(`^cannot unmarshal (!!\w+)(.*) into (.+)$`).FindStringSubmatch(what); m != nil {
		what = fmt.Sprintf("%s%s where %s is wanted", kindOf(m[1]), m[2], wantedOf(m[3]))
		value := strings.TrimSuffix(strings.Trim(m[2], " `"), "...") // long ones are cut
		wanted = func(n *yaml.Node) bool { return n.ShortTag() == m[1] && strings.HasPrefix(n.Value, value) }
	}
	if n := findAt(&doc, line, wanted, 0); n != nil {
		return fmt.Errorf("%s: %s", formatPosition(n), what)
	}
	return fmt.Errorf("line %d: %s", line, what)
}

// kindOf names a YAML tag.
func kindOf(tag string) string {
	switch tag {
	case "!!seq":
		return "a list"
	case "!!map":
		return "a mapping"
	}
	return "a value (" + strings.TrimPrefix(tag, "!!") + ")"
}

// wantedOf names the YAML notation of a Go type.
func wantedOf(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case goType == "string":
		return "text"
	case goType == "float64" || goType == "int":
		return "a number"
	case goType == "bool":
		return "true or false"
	}
	return "a mapping"
}

// maxDepth bounds how deeply nodes are searched.
const maxDepth = 100

// findAt returns the last matching node of a line: the innermost of nested lists.
func findAt(n *yaml.Node, line int, wanted func(*yaml.Node) bool, depth int) *yaml.Node {
	if depth == maxDepth {
		return nil
	}
	for i := len(n.Content) - 1; i >= 0; i-- {
		if found := findAt(n.Content[i], line, wanted, depth+1); found != nil {
			return found
		}
	}
	if n.Line == line && wanted(n) {
		return n
	}
	return nil
}
