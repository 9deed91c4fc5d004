package slo

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
)

// indication is what a foreign file's queries measure.
type indication struct {
	quantity Quantity
	target   time.Duration
	matchers Objective // its matchers alone
	dropped  []string  // matchers that an objective cannot express
}

// families are the histograms that promises are about, by canonical name.
var families = map[string]Quantity{
	"vllm:time_to_first_token_seconds":   TTFT,
	"vllm:inter_token_latency_seconds":   ITL,
	"vllm:time_per_output_token_seconds": ITL, // until vLLM 0.10
	"vllm:e2e_request_latency_seconds":   E2E,
}

// indicateRatio understands bad/total, and 1 - good/total.
func indicateRatio(query string) (indication, error) {
	e, err := parsePromQL(query)
	if err != nil {
		return indication{}, err
	}
	bad := true
	if b, ok := e.(*parser.BinaryExpr); ok && b.Op == parser.SUB {
		if one, ok := stripParens(b.LHS).(*parser.NumberLiteral); ok && one.Val == 1 {
			e, bad = stripParens(b.RHS), false
		}
	}
	ratio, ok := e.(*parser.BinaryExpr)
	if !ok || ratio.Op != parser.DIV {
		return indication{}, errors.New("the query is no ratio of two sums of rates")
	}
	return indicateExprs(ratio.LHS, ratio.RHS, bad)
}

// indicate understands two queries: of all events, and of the good ones or,
// where bad is set, of the bad ones.
func indicate(some, total string, bad bool) (indication, error) {
	if strings.TrimSpace(some) == "" || strings.TrimSpace(total) == "" {
		return indication{}, errors.New("a query is missing: want good or bad events, and all of them")
	}
	s, err := parsePromQL(some)
	if err != nil {
		return indication{}, err
	}
	t, err := parsePromQL(total)
	if err != nil {
		return indication{}, err
	}
	return indicateExprs(s, t, bad)
}

func indicateExprs(some, total parser.Expr, bad bool) (indication, error) {
	all, err := plain(total)
	if err != nil {
		return indication{}, fmt.Errorf("all events: %w", err)
	}
	terms, err := difference(some)
	if err != nil {
		return indication{}, err
	}
	i := indication{}
	if i.matchers, i.dropped, err = objectiveOf(all); err != nil {
		return i, err
	}
	name := canonicalName(all)
	if name == "http_requests_total" {
		return i, i.availability(terms, bad)
	}
	family := strings.TrimSuffix(strings.TrimSuffix(name, "_count"), "_bucket")
	var ok bool
	if i.quantity, ok = families[family]; !ok || family == name {
		return i, fmt.Errorf("%s counts nothing that sixty can promise: want http_requests_total, or the count of vLLM's time to first token, inter-token or end-to-end latency", name)
	}
	return i, i.latency(family, terms, bad)
}

// latency understands a bucket as good events, and all less a bucket as bad ones.
func (i *indication) latency(family string, terms []*parser.VectorSelector, bad bool) error {
	bucket := terms[len(terms)-1]
	if canonicalName(bucket) != family+"_bucket" || bad != (len(terms) == 2) || bad && canonicalName(terms[0]) != family+"_count" && !isInf(terms[0]) {
		return fmt.Errorf("want as good events one bucket of %s, or as bad ones its count less one bucket", family)
	}
	edge, err := edgeOf(bucket)
	if err != nil {
		return err
	}
	i.target = time.Duration(math.Round(edge * float64(time.Second)))
	return nil
}

// availability understands server errors as bad, and what is none as good.
func (i *indication) availability(terms []*parser.VectorSelector, bad bool) error {
	i.quantity = Succeeded
	if len(terms) != 1 || canonicalName(terms[0]) != "http_requests_total" {
		return errors.New("want good or bad events from http_requests_total alone")
	}
	at := slices.IndexFunc(terms[0].LabelMatchers, func(m *labels.Matcher) bool { return m.Name == "status" })
	if at < 0 {
		return errors.New("want good or bad events chosen by the label status of http_requests_total")
	}
	m := terms[0].LabelMatchers[at]
	class := func(grouped, single string) bool { return m.Matches(grouped) || m.Matches(single) }
	if class("5xx", "503") != bad || class("2xx", "200") == bad {
		return fmt.Errorf("status %s is not what a server error is: want 5xx", m)
	}
	if bad && class("4xx", "429") {
		i.dropped = append(i.dropped, "4xx as a failure")
	}
	return nil
}

// window is what stands for a range in templates: Sloth's, Grafana's.
var window = regexp.MustCompile(`\{\{-?\s*\.window\s*-?\}\}|\$__(rate_)?interval|\$\{?window\}?`)

func parsePromQL(query string) (parser.Expr, error) {
	e, err := parser.NewParser(parser.Options{}).ParseExpr(window.ReplaceAllString(query, "5m"))
	if err != nil {
		return nil, fmt.Errorf("a query is no PromQL: %w", err)
	}
	return stripParens(e), nil
}

func stripParens(e parser.Expr) parser.Expr {
	for {
		p, ok := e.(*parser.ParenExpr)
		if !ok {
			return e
		}
		e = p.Expr
	}
}

// difference returns the selector of a sum of rates, or both of a difference.
func difference(e parser.Expr) ([]*parser.VectorSelector, error) {
	inner := stripParens(e)
	if a, ok := inner.(*parser.AggregateExpr); ok && a.Op == parser.SUM {
		if b, ok := stripParens(a.Expr).(*parser.BinaryExpr); ok {
			inner = b
		}
	}
	if b, ok := inner.(*parser.BinaryExpr); ok && b.Op == parser.SUB {
		minuend, err := plain(b.LHS)
		if err != nil {
			return nil, err
		}
		subtrahend, err := plain(b.RHS)
		if err != nil {
			return nil, err
		}
		return []*parser.VectorSelector{minuend, subtrahend}, nil
	}
	one, err := plain(inner)
	if err != nil {
		return nil, err
	}
	return []*parser.VectorSelector{one}, nil
}

// plain returns the selector of a sum of rates or increases.
func plain(e parser.Expr) (*parser.VectorSelector, error) {
	switch e := stripParens(e).(type) {
	case *parser.AggregateExpr:
		if e.Op == parser.SUM {
			return plain(e.Expr)
		}
	case *parser.Call:
		if slices.Contains([]string{"rate", "irate", "increase"}, e.Func.Name) && len(e.Args) == 1 {
			if m, ok := e.Args[0].(*parser.MatrixSelector); ok {
				return m.VectorSelector.(*parser.VectorSelector), nil
			}
		}
	case *parser.BinaryExpr: // errors or vector(0)
		if c, ok := stripParens(e.RHS).(*parser.Call); ok && e.Op == parser.LOR && c.Func.Name == "vector" {
			return plain(e.LHS)
		}
	}
	return nil, fmt.Errorf("%s is no sum of rates of one metric", e)
}

// canonicalName returns the name that a selector asks for.
func canonicalName(v *parser.VectorSelector) string {
	name, _ := vllm.Canonical(v.Name)
	return name
}

func edgeOf(v *parser.VectorSelector) (float64, error) {
	for _, m := range v.LabelMatchers {
		if m.Name != "le" {
			continue
		}
		text := m.Value
		if set := m.SetMatches(); m.Type == labels.MatchRegexp && len(set) > 0 {
			text = set[0]
		} else if m.Type != labels.MatchEqual {
			break
		}
		if edge, err := strconv.ParseFloat(text, 64); err == nil && edge > 0 && edge < 1e6 {
			return edge, nil
		}
	}
	return 0, errors.New("the bucket's label le is no number of seconds")
}

func isInf(v *parser.VectorSelector) bool {
	return slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool {
		return m.Name == "le" && m.Type == labels.MatchEqual && m.Value == "+Inf"
	})
}

// objectiveOf turns a selector's matchers into an objective's.
func objectiveOf(v *parser.VectorSelector) (Objective, []string, error) {
	var o Objective
	var dropped []string
	for _, m := range v.LabelMatchers {
		dst := map[string]*string{"model_name": &o.Model, "namespace": &o.Namespace, "cluster": &o.Cluster, "service": &o.Service}[m.Name]
		switch {
		case m.Name == labels.MetricName, m.Name == "le" && isInf(v):
		case dst == nil:
			dropped = append(dropped, m.String())
		default:
			pattern, ok := globOf(m)
			if !ok || *dst != "" {
				return o, nil, fmt.Errorf("the matcher %s cannot be written as a pattern", m)
			}
			*dst = pattern
		}
	}
	return o, dropped, nil
}

// globOf turns a matcher into a pattern: equality, and regular expressions of
// literal text with .* and . in it.
func globOf(m *labels.Matcher) (string, bool) {
	escape := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)
	switch m.Type {
	case labels.MatchEqual:
		return escape.Replace(m.Value), m.Value != ""
	case labels.MatchRegexp:
		var b strings.Builder
		for rest := m.Value; rest != ""; {
			switch {
			case strings.HasPrefix(rest, ".*"):
				b.WriteByte('*')
				rest = rest[2:]
			case rest[0] == '.':
				b.WriteByte('?')
				rest = rest[1:]
			case rest[0] == '\\' && len(rest) > 1 && strings.ContainsRune(`.+*?()|[]{}^$\-/`, rune(rest[1])):
				b.WriteString(escape.Replace(rest[1:2]))
				rest = rest[2:]
			case strings.ContainsRune(`+*?()|[]{}^$\`, rune(rest[0])):
				return "", false
			default:
				b.WriteByte(rest[0])
				rest = rest[1:]
			}
		}
		return b.String(), m.Value != ""
	}
	return "", false
}
