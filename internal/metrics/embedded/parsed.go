package embedded

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"
)

// parsed is a parser that remembers. A monitor asks the same questions all the time, and
// most of what parsing costs is the compiling of regular expressions: those that name
// hundreds of servers above all, which a hundred questions have in common. It is safe for
// concurrent use.
type parsed struct {
	parser.Parser

	mu       sync.Mutex
	now, old map[string]parser.Expr     // trees that nobody but copyOf reads
	matchers map[string]*labels.Matcher // the long ones
}

const (
	// mostParsed is how many expressions are remembered at the least; twice as many at most.
	mostParsed = 1000
	// mostMatchers is how many long matchers are remembered at most.
	mostMatchers = 500
)

func newParsed() *parsed {
	return &parsed{Parser: parser.NewParser(parser.Options{}), now: map[string]parser.Expr{}, matchers: map[string]*labels.Matcher{}}
}

// long is from how many bytes on a regular expression is worth a place of its own.
const long = 20

// placeholder stands for a long regular expression in a tree that is remembered.
const placeholder = "sixty_long_"

// once parses an expression that is remembered elsewhere.
func (p *parsed) once(input string) (parser.Expr, error) {
	short, texts := shorten(input)
	tree, err := p.Parser.ParseExpr(short)
	if err == nil && len(texts) > 0 {
		err = p.lengthen(tree, texts)
	}
	if err != nil {
		return p.Parser.ParseExpr(input) // whose error has the caller's words
	}
	return tree, nil
}

// ParseExpr implements parser.Parser. The tree is the caller's own: the engine writes into it.
func (p *parsed) ParseExpr(input string) (parser.Expr, error) {
	short, texts := shorten(input)
	tree, known := p.recall(short)
	if !known {
		var err error
		if tree, err = p.Parser.ParseExpr(short); err != nil {
			return p.Parser.ParseExpr(input) // whose error has the caller's words
		}
	}
	out, err := copyOf(tree)
	if err == nil && len(texts) > 0 {
		err = p.lengthen(out, texts)
	}
	if err != nil {
		return p.Parser.ParseExpr(input)
	}
	if !known {
		p.keep(short, tree)
	}
	return out, nil
}

// shorten puts a placeholder for each long regular expression, which it returns in quotes.
func shorten(input string) (short string, texts []string) {
	if len(input) < long || strings.Contains(input, placeholder) {
		return input, nil
	}
	var b strings.Builder
	rest := input
	for {
		before, after, ok := strings.Cut(rest, `~"`) // of =~ and of !~
		n := strings.IndexByte(after, '"')
		if !ok || n < 0 {
			b.WriteString(rest)
			return b.String(), texts
		}
		b.WriteString(before + `~"`)
		if rest = after; n < long || after[n-1] == '\\' {
			continue
		}
		fmt.Fprintf(&b, "%s%d", placeholder, len(texts))
		texts = append(texts, `"`+after[:n+1])
		rest = after[n:]
	}
}

// lengthen puts the long matchers of a tree where they belong.
func (p *parsed) lengthen(tree parser.Expr, texts []string) (err error) {
	left := len(texts)
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		v, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		for i, m := range v.LabelMatchers {
			n, ok := strings.CutPrefix(m.Value, placeholder)
			if !ok || m.Type != labels.MatchRegexp && m.Type != labels.MatchNotRegexp {
				continue
			}
			k, failed := strconv.Atoi(n)
			if failed == nil {
				v.LabelMatchers[i], failed = p.matcher(m.Type, m.Name, texts[k])
			}
			err = errors.Join(err, failed)
			left--
		}
		return nil
	})
	if left != 0 {
		err = errors.Join(err, errors.New("a long text is no matcher's"))
	}
	return err
}

// matcher returns the matcher of a label by a quoted regular expression.
func (p *parsed) matcher(kind labels.MatchType, name, quoted string) (*labels.Matcher, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := name + kind.String() + quoted
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

func (p *parsed) recall(input string) (parser.Expr, bool) {
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

func (p *parsed) keep(input string, tree parser.Expr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(input, tree)
}

// put forgets, when there are too many, those that were not asked for since the last time.
func (p *parsed) put(input string, tree parser.Expr) {
	if len(p.now) >= mostParsed {
		p.now, p.old = map[string]parser.Expr{}, p.now
	}
	p.now[input] = tree
}

// copyOf copies a tree as a parser makes it. What the engine never writes, matchers above
// all, is shared. The error names a kind of node that is not known here.
func copyOf(tree parser.Expr) (_ parser.Expr, err error) {
	child := func(e parser.Expr) parser.Expr {
		if e == nil || err != nil {
			return e
		}
		out, failed := copyOf(e)
		if failed != nil {
			err = failed
		}
		return out
	}
	switch n := tree.(type) {
	case *parser.NumberLiteral:
		c := *n
		return &c, nil
	case *parser.StringLiteral:
		c := *n
		return &c, nil
	case *parser.VectorSelector:
		if n.OriginalOffsetExpr != nil {
			break
		}
		c := *n
		c.LabelMatchers = slices.Clone(n.LabelMatchers) // the storage sorts them
		return &c, nil
	case *parser.MatrixSelector:
		if n.RangeExpr != nil {
			break
		}
		c := *n
		c.VectorSelector = child(n.VectorSelector)
		return &c, err
	case *parser.SubqueryExpr:
		if n.RangeExpr != nil || n.OriginalOffsetExpr != nil || n.StepExpr != nil {
			break
		}
		c := *n
		c.Expr = child(n.Expr)
		return &c, err
	case *parser.ParenExpr:
		c := *n
		c.Expr = child(n.Expr)
		return &c, err
	case *parser.UnaryExpr:
		c := *n
		c.Expr = child(n.Expr)
		return &c, err
	case *parser.AggregateExpr:
		c := *n
		c.Grouping = slices.Clone(n.Grouping) // the engine sorts them
		c.Expr, c.Param = child(n.Expr), child(n.Param)
		return &c, err
	case *parser.BinaryExpr:
		c := *n
		if n.VectorMatching != nil {
			m := *n.VectorMatching
			m.MatchingLabels, m.Include = slices.Clone(m.MatchingLabels), slices.Clone(m.Include)
			c.VectorMatching = &m
		}
		c.LHS, c.RHS = child(n.LHS), child(n.RHS)
		return &c, err
	case *parser.Call:
		c := *n
		c.Args = make(parser.Expressions, len(n.Args))
		for i, a := range n.Args {
			c.Args[i] = child(a)
		}
		return &c, err
	}
	return nil, fmt.Errorf("no copy is made of %T", tree)
}

var _ parser.Parser = (*parsed)(nil)
