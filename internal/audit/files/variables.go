package files

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// maxExpression bounds an expression, in bytes: the parser takes quadratic time for nested parentheses. Expressions
// that people write are a hundred times shorter.
const maxExpression = 32 << 10

// A Mention is the range of bytes at which an expression names a variable outside of a string.
type Mention struct{ Start, End int }

// parseTemplate parses an expression with a dashboard's variables. It replaces them by placeholders of the same length,
// so that positions in the tree are positions in the expression. Variables inside strings are valid as they are.
func parseTemplate(expr string) (parser.Expr, []Mention, error) {
	if len(expr) > maxExpression {
		return nil, nil, fmt.Errorf("longer than %d KiB: not judged", maxExpression>>10)
	}
	tree, err := indicator.Parse(expr)
	if err == nil {
		return tree, nil, nil
	}
	mentions := mentionsIn(expr)
	if len(mentions) == 0 {
		return nil, nil, err
	}
	for _, asName := range []bool{false, true} {
		filled := []byte(expr)
		for _, m := range mentions {
			copy(filled[m.Start:m.End], placeholder(expr, m, asName))
		}
		tree, parseErr := indicator.Parse(string(filled))
		if parseErr == nil {
			return tree, mentions, nil
		}
		if !asName {
			err = parseErr
		}
	}
	return nil, mentions, err
}

// mentionOrText matches strings and comments, to skip them, and the variables $name, ${name}, ${name:format} and
// [[name]].
var mentionOrText = regexp.MustCompile("\"(?:\\\\.|[^\"\\\\])*\"|'(?:\\\\.|[^'\\\\])*'|`[^`]*`|#[^\n]*|" +
	`(\$\{[^}]+\}|\[\[\w+\]\]|\$\w+)`)

// mentionsIn finds the variables outside of strings and comments.
func mentionsIn(expr string) []Mention {
	var out []Mention
	for _, m := range mentionOrText.FindAllStringSubmatchIndex(expr, -1) {
		if m[2] >= 0 {
			out = append(out, Mention{m[2], m[3]})
		}
	}
	return out
}

// placeholder returns a valid text of a mention's length: a duration between brackets and after offset, a matcher or a
// name in braces, a name in a list of labels, a number anywhere else. asName takes a name instead of the number.
func placeholder(expr string, m Mention, asName bool) string {
	length := m.End - m.Start
	before := strings.TrimRight(expr[:m.Start], " \n\t")
	after := strings.TrimLeft(expr[m.End:], " \n\t")
	number := strings.Repeat("0", length-1) + "1"
	name := strings.Repeat("v", length)
	switch {
	case strings.HasSuffix(before, "["), strings.HasSuffix(before, "offset"),
		strings.HasSuffix(before, ":") && strings.HasPrefix(after, "]"):
		return strings.Repeat("0", length-2) + "5m"
	case inBraces.MatchString(before):
		if (strings.HasSuffix(before, "{") || strings.HasSuffix(before, ",")) && length >= 4 {
			return strings.Repeat("v", length-3) + `=""`
		}
		return name
	case inLabels.MatchString(before), asName:
		return name
	}
	return number
}

// inBraces and inLabels match a text that ends inside a selector's braces, or a list of labels.
var (
	inBraces = regexp.MustCompile(`\{[^{}]*$`)
	inLabels = regexp.MustCompile(`(?i)\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*$`)
)
