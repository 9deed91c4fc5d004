package embedded

import (
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/promql/parser"
)

// parsed is a parser that remembers. A monitor asks the same questions all the time, and
// most of what parsing costs is the compiling of regular expressions. It is safe for
// concurrent use.
type parsed struct {
	parser.Parser

	mu       sync.Mutex
	now, old map[string]parser.Expr // trees that nobody but copyOf reads
}

// mostParsed is how many expressions are remembered at the least; twice as many at most.
const mostParsed = 2000

func newParsed() *parsed {
	return &parsed{Parser: parser.NewParser(parser.Options{}), now: map[string]parser.Expr{}}
}

// ParseExpr implements parser.Parser. The tree is the caller's own: the engine writes into it.
func (p *parsed) ParseExpr(input string) (parser.Expr, error) {
	tree, known := p.recall(input)
	if !known {
		var err error
		if tree, err = p.Parser.ParseExpr(input); err != nil {
			return nil, err
		}
	}
	out, err := copyOf(tree)
	if err != nil {
		return p.Parser.ParseExpr(input)
	}
	if !known {
		p.keep(input, tree)
	}
	return out, nil
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
