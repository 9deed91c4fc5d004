package embedded

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

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
	now, old map[string]parser.Expr     // trees that nobody but indicator.Copy reads
	matchers map[string]*labels.Matcher // the long ones
}

const (
	// mostParsed is how many expressions are remembered at the least; twice as many at most.
	mostParsed = 1000
	// mostMatchers is how many long matchers are remembered at most.
	mostMatchers = 500
)

var everyParsed = &remembered{now: map[string]parser.Expr{}, matchers: map[string]*labels.Matcher{}}

func newParsed() *parsed { return &parsed{parser.NewParser(parser.Options{}), everyParsed} }

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
	out, err := indicator.Copy(tree)
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
func (p *remembered) matcher(kind labels.MatchType, name, quoted string) (*labels.Matcher, error) {
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
