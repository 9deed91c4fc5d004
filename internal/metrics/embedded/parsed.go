package embedded

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"

	"github.com/sixty-dev/sixty/internal/indicator"
)

// parsed is a parser that remembers. A monitor asks the same questions all the time, and
// most of what parsing costs is the compiling of regular expressions: those that name
// hundreds of servers above all, which a hundred questions have in common. It is safe for
// concurrent use.
type parsed struct {
	parser.Parser
	*remembered
}

// remembered is what all parsers of the process have parsed: the answer depends on the
// expression alone.
type remembered struct {
	mu       sync.Mutex
	now, old map[string]parser.Expr         // trees that nobody but indicator.Copy reads
	matchers map[matcherKey]*labels.Matcher // the long ones
}

type matcherKey struct {
	kind         labels.MatchType
	name, quoted string
}

const (
	// mostParsed is how many expressions are remembered at the least; twice as many at most.
	mostParsed = 1000
	// mostMatchers is how many long matchers are remembered at most.
	mostMatchers = 100
)

var everyParsed = &remembered{now: map[string]parser.Expr{}, matchers: map[matcherKey]*labels.Matcher{}}

func newParsed() *parsed { return &parsed{parser.NewParser(parser.Options{}), everyParsed} }

// long is from how many bytes on a regular expression is worth a place of its own.
const long = 20

// placeholder stands for a long regular expression in a tree that is remembered.
const placeholder = "sixty_long_"

// particulars are what is asked differently each time in words that are the same but for it.
type particulars struct {
	texts  []string        // long regular expressions, in quotes
	ranges []time.Duration // of range selectors, for which so many milliseconds stand, counted from 1
}

// ParseExpr implements parser.Parser. The tree is the caller's own: the engine writes into it.
func (p *parsed) ParseExpr(input string) (parser.Expr, error) {
	short, particular := shorten(input)
	tree, known := p.recall(short)
	if !known {
		var err error
		if tree, err = p.Parser.ParseExpr(short); err != nil {
			return p.Parser.ParseExpr(input) // whose error has the caller's words
		}
	}
	out, err := indicator.Copy(tree)
	if err == nil {
		err = p.lengthen(out, particular)
	}
	if err != nil {
		return p.Parser.ParseExpr(input)
	}
	if !known {
		p.keep(short, tree)
	}
	return out, nil
}

// shorten takes the particulars out of an expression. What it does not understand stays.
func shorten(input string) (short string, p particulars) {
	if len(input) < long || strings.Contains(input, placeholder) {
		return input, p
	}
	var b strings.Builder
	rest := input
	for {
		i := strings.IndexAny(rest, "\"'`#[")
		if i < 0 {
			b.WriteString(rest)
			return b.String(), p
		}
		end := rest[i]
		if end == '[' {
			end = ']'
		}
		n := strings.IndexByte(rest[i+1:], end)
		if end != '"' && end != ']' || n < 0 || n > 0 && rest[i+n] == '\\' {
			return input, particulars{}
		}
		within, after := rest[i+1:i+1+n], rest[i+2+n:]
		b.WriteString(rest[:i+1])
		switch {
		case end == '"' && n >= long && i > 0 && rest[i-1] == '~': // of =~ and of !~
			fmt.Fprintf(&b, "%s%d", placeholder, len(p.texts))
			p.texts = append(p.texts, rest[i:i+n+2])
		case end == '"' || strings.Contains(within, ":"): // of a subquery
			b.WriteString(within)
		default:
			span, err := model.ParseDuration(within)
			if err != nil || span <= 0 { // a number, a calculation, or a mistake
				return input, particulars{}
			}
			p.ranges = append(p.ranges, time.Duration(span))
			fmt.Fprintf(&b, "%dms", len(p.ranges))
		}
		b.WriteByte(end)
		rest = after
	}
}

// lengthen puts the particulars of a tree where they belong.
func (p *parsed) lengthen(tree parser.Expr, particular particulars) (err error) {
	left := len(particular.texts) + len(particular.ranges)
	if left == 0 {
		return nil
	}
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.MatrixSelector:
			if k := int(n.Range / time.Millisecond); k >= 1 && k <= len(particular.ranges) {
				n.Range = particular.ranges[k-1]
				left--
			}
		case *parser.VectorSelector:
			for i, m := range n.LabelMatchers {
				number, ok := strings.CutPrefix(m.Value, placeholder)
				if !ok || m.Type != labels.MatchRegexp && m.Type != labels.MatchNotRegexp {
					continue
				}
				k, failed := strconv.Atoi(number)
				if failed == nil {
					n.LabelMatchers[i], failed = p.matcher(m.Type, m.Name, particular.texts[k])
				}
				err = errors.Join(err, failed)
				left--
			}
		}
		return nil
	})
	if left != 0 {
		err = errors.Join(err, errors.New("a long text is no matcher's"))
	}
	return err
}

// matcher returns the matcher of a label by a quoted regular expression.
func (p *remembered) matcher(kind labels.MatchType, name, quoted string) (*labels.Matcher, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := matcherKey{kind, name, quoted}
	m, ok := p.matchers[key]
	if ok {
		return m, nil
	}
	value, err := strutil.Unquote(quoted)
	if err != nil {
		return nil, err
	}
	if m, err = labels.NewMatcher(kind, name, value); err != nil {
		return nil, err
	}
	if len(p.matchers) >= mostMatchers {
		clear(p.matchers)
	}
	p.matchers[key] = m
	return m, nil
}

func (p *remembered) recall(input string) (parser.Expr, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if tree, ok := p.now[input]; ok {
		return tree, true
	}
	tree, ok := p.old[input]
	if ok {
		p.put(input, tree)
	}
	return tree, ok
}

func (p *remembered) keep(input string, tree parser.Expr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(input, tree)
}

// put forgets, when there are too many, those that were not asked for since the last time.
func (p *remembered) put(input string, tree parser.Expr) {
	if len(p.now) >= mostParsed {
		p.now, p.old = map[string]parser.Expr{}, p.now
	}
	p.now[input] = tree
}

var _ parser.Parser = (*parsed)(nil)
