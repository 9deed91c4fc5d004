package audit

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// objectiveNamed is an objective in a text: from 90 % to 99.999 %.
var (
	objectiveNamed = regexp.MustCompile(`\b(9\d(?:\.\d+)?)\s*%`)
	aboutBudget    = regexp.MustCompile(`(?i)burn|budget|\bslo\b|objective`)
	headsOfRules   = regexp.MustCompile(`^\s*-\s*(?:"?(?:alert|record)"?):`)
	headsOfGroups  = regexp.MustCompile(`^\s*-\s*(?:"?name"?):`)
)

// comments are what the file says of a rule: above it and within it, at the head of its group and of
// the file. A string within another file has none.
func (p *pass) comments() string {
	if p.rule == nil || p.node.offset < 0 || p.file.Remote {
		return ""
	}
	if p.beside.comments == nil {
		p.beside.comments = commentsIn(p.file.Data)
	}
	return p.beside.comments[p.rule.line]
}

// commentsIn returns the comments on the rules of a YAML file by the lines at which they begin.
func commentsIn(data []byte) map[int]string {
	out := map[int]string{}
	var top, group, pending []string
	rule, number := 0, 0
	for line := range strings.Lines(string(data)) {
		number++
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(trimmed, "#"):
			if len(pending) < 20 {
				pending = append(pending, trimmed)
			}
			continue
		case trimmed == "":
			continue
		case headsOfGroups.MatchString(line):
			group, rule = pending, -1
		case headsOfRules.MatchString(line):
			if rule <= 0 {
				group, pending = append(group, pending...), nil
			}
			rule = number
			out[rule] = strings.Join(slices.Concat(top, group, pending), "\n")
		case rule > 0:
			out[rule] = strings.Join(append([]string{out[rule]}, pending...), "\n")
		case rule < 0:
			group = append(group, pending...)
		default:
			top = append(top, pending...)
		}
		pending = nil
	}
	return out
}

// objectives are the objectives that a text names, as shares.
func objectives(text string) (out []float64) {
	for _, m := range objectiveNamed.FindAllStringSubmatch(text, -1) {
		v, _ := strconv.ParseFloat(m[1], 64)
		if !slices.Contains(out, v/100) {
			out = append(out, v/100)
		}
	}
	return out
}

// checkBudget finds burn-rate alerts whose budget is not what the objective leaves that the alert, or
// else a comment, names.
func checkBudget(p *pass) {
	if p.role != alertRole {
		return
	}
	text := p.name + " " + strings.Join(writtenIn(p.texts()), " ")
	for _, f := range p.rule.get("labels").all() {
		text += " " + f.value.scalar()
	}
	comments := p.comments()
	if !aboutBudget.MatchString(text + comments) {
		return
	}
	named := objectives(text)
	if len(named) == 0 {
		named = objectives(comments)
	}
	if len(named) != 1 {
		return
	}
	budget := 1 - named[0]
	percent := false // the shares are multiplied by 100
	p.walk(func(n parser.Node, _ []parser.Node) {
		l, ok := n.(*parser.NumberLiteral)
		percent = percent || ok && l.Val == 100
	})
	if percent {
		budget *= 100
	}
	p.walk(func(n parser.Node, path []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if ok && b.Op == parser.DIV && b.LHS.Type() == parser.ValueTypeVector && burnsAt(path) {
			if is, ok := constant(b.RHS); ok && is > 0 && is < 0.5 && !percent && math.Abs(is-budget) > 0.02*budget {
				p.report(b.PositionRange(), fmt.Sprintf("the objective is %s %%, which leaves a budget of %s, and this divides by %s", short(named[0]*100), short(round(budget)), short(round(is))),
					advice("divide by "+short(round(budget))))
			}
		}
		if !ok || b.Op != parser.MUL || b.VectorMatching != nil {
			return
		}
		l, ok1 := constant(b.LHS)
		r, ok2 := constant(b.RHS)
		if !ok1 || !ok2 || !slices.Contains(burnRates, max(l, r)) || min(l, r) <= 0 || min(l, r) >= 0.5 && !percent {
			return
		}
		if is := min(l, r); math.Abs(is-budget) > 0.02*budget {
			p.report(b.PositionRange(), fmt.Sprintf("the objective is %s %%, which leaves a budget of %s, and this takes %s", short(named[0]*100), short(round(budget)), short(round(is))),
				advice("write "+short(round(budget))))
		}
	})
	p.comparisons(func(c comparison) {
		said := burnNamed.FindStringSubmatch(text)
		if said == nil || c.limit <= 0 || c.limit >= 1 && !percent {
			return
		}
		rate, _ := strconv.ParseFloat(said[1]+said[2], 64)
		want := rate * budget
		for _, off := range []float64{10, 100, 0.1, 0.01} {
			if math.Abs(c.limit-want*off) <= 1e-6*c.limit {
				p.report(c.at, fmt.Sprintf("%s times the budget of %s is %s, and this compares with %s", short(rate), short(round(budget)), short(round(want)), short(c.limit)), advice("write "+short(round(want))))
			}
		}
	})
}

// burnsAt reports whether what stands on the left is compared with a burn rate.
func burnsAt(path []parser.Node) bool {
	b, ok := outside(path).(*parser.BinaryExpr)
	if !ok || !b.Op.IsComparisonOperator() {
		return false
	}
	v, ok := constant(b.RHS)
	return ok && slices.Contains(burnRates, v)
}

// burnRates are the factors of multi-window multi-burn-rate alerts
// (https://sre.google/workbook/alerting-on-slos/), and those that people take in their place.
var burnRates = []float64{1, 1.5, 2, 3, 5, 6, 7, 10, 13.44, 14, 14.4, 15, 20, 36}

// burnNamed is how a text says how fast a budget is used up.
var burnNamed = regexp.MustCompile(`(?i)(\d+(?:\.\d+)?)\s*(?:x|×|times)\b.{0,30}(?:fast|budget|burn|rate)|burn\w*(?: rate)?\D{0,20}?(\d+(?:\.\d+)?)\s*(?:x|×|times)`)

// round takes off what floating point leaves.
func round(v float64) float64 { return math.Round(v*1e9) / 1e9 }

// checkApdex finds two buckets of one histogram added up as they are: the larger holds the smaller.
func checkApdex(p *pass) {
	p.walk(func(n parser.Node, path []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.ADD {
			return
		}
		l, r := edgeOf(b.LHS), edgeOf(b.RHS)
		if l == nil || r == nil || nameOf(l.selector) != nameOf(r.selector) || l.le == r.le || halved(path, b) && l.by == r.by {
			return
		}
		if l.le == "+Inf" || r.le == "+Inf" || p.opaque(b.PositionRange().Start, b.PositionRange().End) {
			return
		}
		p.report(b.PositionRange(), fmt.Sprintf("the bucket up to %s holds that up to %s: what is in the one is counted twice", larger(l.le, r.le), smaller(l.le, r.le)),
			advice("take the larger one alone, or divide the sum by 2 (Apdex: half of what is tolerated)"))
	})
}

type bucketOf struct {
	selector *parser.VectorSelector
	le       string
	by       float64
}

// edgeOf is the one bucket that an expression is a rate of, scaled perhaps; nil where it is none.
func edgeOf(e parser.Expr) *bucketOf {
	v := plainSelector(unwrapped(unscaled(e)))
	if v == nil || !strings.HasSuffix(nameOf(v), "_bucket") {
		return nil
	}
	for _, m := range v.LabelMatchers {
		if m.Name == "le" && m.Type == labels.MatchEqual {
			return &bucketOf{v, m.Value, factor(e)}
		}
	}
	return nil
}

func larger(a, b string) string {
	if x, _ := strconv.ParseFloat(a, 64); x > must(b) {
		return a
	}
	return b
}

func smaller(a, b string) string {
	if larger(a, b) == a {
		return b
	}
	return a
}

func must(s string) float64 {
	v, _ := strconv.ParseFloat(s, 64)
	return v
}

// halved reports whether a sum is divided by 2 on its way up, by itself or beside what it is divided by.
func halved(path []parser.Node, sum parser.Node) bool {
	inner := sum
	for i := len(path) - 1; i >= 0; i-- {
		if b, ok := path[i].(*parser.BinaryExpr); ok && (b.Op == parser.DIV || b.Op == parser.MUL) {
			other := b.RHS
			if other == inner {
				other = b.LHS
			}
			half := false
			parser.Inspect(other, func(n parser.Node, _ []parser.Node) error {
				l, ok := n.(*parser.NumberLiteral)
				half = half || ok && (l.Val == 2 || l.Val == 0.5 || l.Val == 50 || l.Val == 200)
				return nil
			})
			if half {
				return true
			}
		}
		inner = path[i]
	}
	return false
}

// Prices of texts and names: what costs, and that it is by the hour.
var (
	aboutMoney = regexp.MustCompile(`(?i)\b(?:cost|costs|usd|eur|dollars?|euros?|price|cents?)\b|[$€]\s?\d`)
	byTheHour  = regexp.MustCompile(`(?i)\b(?:per|an|each|a|every) hour\b|/\s?h(?:r|our)?\b|\bhourly\b|_per_hour|_hourly|per_hour`)
)

// checkPrice finds what costs so much an hour, divided by what is done in a second.
func checkPrice(p *pass) {
	text := strings.Join(labelWords(p.name), " ") + " " + p.words() + " " + p.comments()
	if p.role == panelRole {
		text += " " + p.panel.title
	}
	if !aboutMoney.MatchString(strings.ReplaceAll(text, "_", " ")) || !byTheHour.MatchString(text+" "+p.node.value) {
		return
	}
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.DIV {
			return
		}
		c := rateIn(b.RHS)
		if !isCall(c, "rate", "irate") || ofHours(p.tree) || isCall(rateIn(b.LHS), rates...) {
			return
		}
		if of := ofCounter(nameOf(plainSelector(c))).of; of != tokens && of != requests {
			return
		}
		p.report(b.PositionRange(), "the price is by the hour and the rate by the second: 3600 times too much", advice("multiply the rate by 3600"))
	})
}

// ofHours reports whether an expression has a number of seconds of an hour in it, perhaps with a
// power of ten or minutes.
func ofHours(e parser.Expr) bool {
	found := false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if l, ok := n.(*parser.NumberLiteral); ok && l.Val > 0 {
			for _, by := range []float64{3600, 60, 1 / 3600.} {
				_, rest := math.Modf(math.Log10(l.Val / by))
				found = found || math.Abs(rest) < 1e-6 || math.Abs(math.Abs(rest)-1) < 1e-6
			}
		}
		return nil
	})
	return found
}
