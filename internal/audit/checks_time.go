package audit

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/render"
)

// checkOneSample finds ranges that hold one sample: subqueries whose step is as long as they are, and
// series that are recorded no more often.
func checkOneSample(p *pass) {
	p.walk(func(n parser.Node, path []parser.Node) {
		e, ok := n.(parser.Expr)
		if !ok || len(path) == 0 || p.opaque(e.PositionRange().Start, e.PositionRange().End) {
			return
		}
		c, ok := path[len(path)-1].(*parser.Call)
		if !ok || slices.Contains([]string{"last_over_time", "present_over_time", "absent_over_time", "count_over_time"}, c.Func.Name) {
			return
		}
		var length, step time.Duration
		what := "the step of the subquery is " // as long as it
		switch n := e.(type) {
		case *parser.SubqueryExpr:
			length, step = n.Range, n.Step
		case *parser.MatrixSelector:
			v, ok := n.VectorSelector.(*parser.VectorSelector)
			if r := p.records[nameOfOrNone(v)]; ok && r != nil && r.every > 0 {
				length, step, what = n.Range, r.every, nameOf(v)+" is recorded every "
			}
		}
		if step <= 0 || length <= 0 {
			return
		}
		switch {
		case step >= length:
			p.report(e.PositionRange(), fmt.Sprintf("%s%s, and the range is %s: it holds one sample, or none", what, render.Span(step), render.Span(length)), advice("take a longer range, or a shorter step"))
		case slices.Contains([]string{"rate", "increase", "delta", "deriv", "irate", "idelta", "changes", "resets"}, c.Func.Name) && length.Seconds()/step.Seconds() < 2:
			p.report(e.PositionRange(), fmt.Sprintf("%s%s, and the range is %s: it often holds one sample, of which there is no %s", what, render.Span(step), render.Span(length), c.Func.Name), advice("take a longer range, or a shorter step"))
		}
	})
}

// A scrape is how often a file says that servers are scraped.
type scrape struct {
	job   string // of this job, "" for all
	every time.Duration
}

// scrapesNamed are how people write it into a comment, and into the configuration.
var (
	scrapesNamed = regexp.MustCompile(`(?i)scrape[_ ]?interval["']?\s*(?:[:=]|is|of|are)?\s*["']?(\d+)\s*(s|m)(?:ec\w*|in\w*)?\b|scraped (?:every|each|once every|once in) (\d+) ?(s|m)(?:ec\w*|in\w*)?\b|scraped (?:once a|every|each) (minute)`)
	jobNamed     = regexp.MustCompile(`(?i)\bjob(?:[:=]|\s+name|_name:?)?\s*["']?([\w./-]+)["']?`)
)

// scrapesIn are the intervals that the comments of a file tell.
func scrapesIn(data []byte) []scrape {
	var out []scrape
	for line := range strings.Lines(string(data)) {
		_, comment, ok := strings.Cut(strings.TrimSpace(line), "#")
		if !ok || !strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		if m := scrapesNamed.FindStringSubmatch(comment); m != nil {
			n, _ := strconv.Atoi("0" + m[1] + m[3])
			s := scrape{every: time.Duration(n) * time.Second}
			if strings.EqualFold(m[2]+m[4], "m") {
				s.every *= 60
			}
			if m[5] != "" {
				s.every = time.Minute
			}
			if j := jobNamed.FindStringSubmatch(comment); j != nil {
				s.job = j[1]
			}
			out = append(out, s)
		}
	}
	return out
}

// scrapedEvery is how often a file says that what a selector selects is scraped, 0 where it does not.
func (p *pass) scrapedEvery(v *parser.VectorSelector) time.Duration {
	for _, s := range p.beside.scrapes {
		if s.job == "" && len(p.beside.scrapes) == 1 || s.job != "" && slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool {
			return m.Name == "job" && m.Type == labels.MatchEqual && m.Value == s.job
		}) {
			return s.every
		}
	}
	return 0
}

// spansNamed are spans of time in texts.
var spansNamed = regexp.MustCompile(`(?i)(\d+(?:\.\d+)?)\s*-?(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)\b`)

// spanOf is the span that a match of spansNamed says.
func spanOf(number, unit string) time.Duration {
	n, _ := strconv.ParseFloat(number, 64)
	by := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}
	return time.Duration(n * float64(by[strings.ToLower(unit)[0]]))
}

// checkSecondsMeant finds numbers of hours or minutes where PromQL takes seconds: the horizon of
// predict_linear, and the age of something.
func checkSecondsMeant(p *pass) {
	p.walk(func(n parser.Node, _ []parser.Node) {
		c, ok := n.(*parser.Call)
		if !ok || c.Func.Name != "predict_linear" || len(c.Args) != 2 {
			return
		}
		ahead, ok := constant(c.Args[1])
		at := c.Args[1].PositionRange()
		if !ok || p.opaque(at.Start, at.End) {
			return
		}
		said := p.spansSaid(ahead)
		switch {
		case said > 0:
			p.report(at, fmt.Sprintf("predict_linear takes seconds, and the text says %s: this looks %s ahead", render.Span(said), render.Span(time.Duration(ahead*1e9))),
				advice("write "+short(said.Seconds())))
		case p.role == alertRole && p.otherHorizon(ahead) > 0:
			p.report(at, fmt.Sprintf("the text says %s ahead, and this looks %s ahead", render.Span(p.otherHorizon(ahead)), render.Span(time.Duration(ahead*1e9))),
				advice("correct the one or the other"))
		case ahead > 0 && ahead < 120 && reach(c.Args[0]) >= time.Hour:
			p.report(at, fmt.Sprintf("predict_linear takes seconds: from %s of samples this looks %s s ahead", render.Span(reach(c.Args[0])), short(ahead)), advice("multiply by 3600 for hours"))
		}
	})
	if p.role != alertRole {
		return
	}
	p.comparisons(func(c comparison) {
		b, ok := unparen(c.expr).(*parser.BinaryExpr)
		if !ok || b.Op != parser.SUB || !isCall(unparen(b.LHS), "time") && !isCall(unparen(b.RHS), "time") || c.limit <= 0 {
			return
		}
		if said := p.spansSaid(c.limit); said > 0 {
			p.report(c.at, fmt.Sprintf("the age is in seconds, and the text says %s", render.Span(said)), advice("write "+short(said.Seconds())))
		}
	})
}

// aheadNamed is how far ahead a text says that it looks.
var aheadNamed = regexp.MustCompile(`(?i)\b(?:with)?in (?:the )?(?:next |about |less than )?(\d+(?:\.\d+)?)\s*-?(m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)\b`)

// otherHorizon is how far ahead a text says that an alert looks, 0 where it says no other than so many
// seconds.
func (p *pass) otherHorizon(ahead float64) (other time.Duration) {
	for _, text := range append(writtenIn(p.texts()), strings.Join(labelWords(p.name), " ")) {
		for _, m := range aheadNamed.FindAllStringSubmatch(text, -1) {
			if other = spanOf(m[1], m[2]); math.Abs(other.Seconds()-ahead) <= 0.05*ahead {
				return 0
			}
		}
	}
	return other
}

// spansSaid is the span that an alert's name or text says with a number of minutes, hours or days and
// that a number of seconds was meant to be; 0 where the texts say the number's own span, or no such.
func (p *pass) spansSaid(number float64) time.Duration {
	var found time.Duration
	for _, text := range append([]string{strings.Join(labelWords(p.name), " "), p.name}, writtenIn(p.texts())...) {
		for _, m := range spansNamed.FindAllStringSubmatch(text, -1) {
			span := spanOf(m[1], m[2])
			n, _ := strconv.ParseFloat(m[1], 64)
			switch {
			case math.Abs(span.Seconds()-number) <= 0.02*number:
				return 0
			case span >= time.Minute && (n == number || math.Abs(span.Minutes()-number) < 1e-9 || math.Abs(span.Hours()-number) < 1e-9):
				found = span
			}
		}
	}
	return found
}

func writtenIn(all []*node) (out []string) {
	for _, n := range all {
		out = append(out, n.value)
	}
	return out
}

// happensOnce are counters of what happens now and then, and is over when it happened.
var happensOnce = regexp.MustCompile(`restart|process_start_time|boot_time|oom|_reset|reload`)

// checkHoldsLonger finds alerts on a single event that wait longer than the range in which it is seen.
func checkHoldsLonger(p *pass) {
	c, ok := p.decisive()
	if !ok || !c.above() || !(c.limit == 0 && c.op == parser.GTR || c.limit > 0 && c.limit < 1 || c.limit == 1 && c.op == parser.GTE) {
		return
	}
	call, ok := unwrapped(c.expr).(*parser.Call)
	if !ok || !isCall(call, "increase", "changes", "resets", "rate", "irate", "delta") {
		return
	}
	if v := plainSelector(call.Args[0]); v == nil || !happensOnce.MatchString(nameOf(v)) && call.Func.Name != "resets" {
		return
	}
	if r := reach(call); p.waits() >= r && r > 0 && !p.opaque(call.PosRange.Start, call.PosRange.End) &&
		!p.says("loop", "keeps", "repeated", "flapp", "again and again", "frequent", "continu", "every ") {
		p.report(c.at, fmt.Sprintf("one event is seen for %s, and the alert waits for %s: it fires only where events follow one another all the time", render.Span(r), render.Span(p.waits())),
			advice("take a range that is longer than for"))
	}
}

// valuePer is the value in a text, with the time that it is said to be in.
var valuePer = regexp.MustCompile(`(?i)\{\{[^}]*\$value[^}]*\}\}[^.;{}\d]{0,40}?(?:/\s?|\bper |\ba |\ban |\beach |\bevery )(s|sec|second|m|min|minute|h|hr|hour|d|day)\b`)

// Times of texts and names in which something comes: so many a minute, the daily quota, RPM.
var (
	unitPer   = regexp.MustCompile(`(?i)^[^.;{}\d]{0,40}?(?:/\s?|\bper[ -]|\ba |\ban |\beach |\bevery )(s|sec|second|m|min|minute|h|hr|hour|d|day)\b`)
	adverbPer = regexp.MustCompile(`(?i)\b(hourly|daily|minutely|rpm|tpm|rps|tps|qps)\b`)
	namePer   = regexp.MustCompile(`(?i)(?:^|[_:])per_(second|minute|min|hour|day)(?:$|[_:])|_(rpm|tpm|rps|tps|qps)(?:$|[_:])`)
	numbers   = regexp.MustCompile(`\d+(?:[,_' ]\d{3})*(?:\.\d+)?\s?([kKM]\b)?`)
	adverbs   = map[string]string{"hourly": "h", "daily": "d", "minutely": "m", "rpm": "m", "tpm": "m", "rps": "s", "tps": "s", "qps": "s"}
)

// otherTime finds rates, which are per second, that a text or a name says per minute, hour or day, and
// increases over another time than the text's.
func (p *pass) otherTime() {
	e, limit := p.tree, math.NaN()
	if p.role == alertRole {
		c, ok := p.decisive()
		if !ok {
			return
		}
		e, limit = c.expr, c.limit
	}
	call := rateIn(e)
	if call == nil || p.opaque(call.PosRange.Start, call.PosRange.End) {
		return
	}
	by := factor(e)
	if !slices.Contains([]float64{1, 60, 3600, 86400}, by) { // another unit than of time
		return
	}
	is := by // seconds that the values are in
	if call.Func.Name == "increase" {
		is *= reach(call).Seconds()
	}
	off := func(unit string) bool {
		said := spanOf("1", unit).Seconds()
		return said > 0 && math.Abs(said-is) > 0.01*said
	}
	why := func(unit string) string {
		return fmt.Sprintf("the values are what comes in %s, and it says in %s", spanInWords(is), spanInWords(spanOf("1", unit).Seconds()))
	}
	const fix = "multiply the rate by the seconds, in the expression and its threshold"
	if m := namePer.FindStringSubmatch(p.name); p.role == recordRole && m != nil {
		if unit := otherwise(m[1], adverbs[strings.ToLower(m[2])]); off(unit) {
			p.report(e.PositionRange(), why(unit), advice("multiply the rate by the seconds"))
		}
		return
	}
	for _, n := range p.texts() {
		if m := valuePer.FindStringSubmatchIndex(n.value); m != nil {
			if unit := n.value[m[2]:m[3]]; off(unit) {
				p.reportText(n, m[0], m[1], why(unit), fix)
			}
			return
		}
		for _, m := range numbers.FindAllStringIndex(n.value, -1) {
			if !isNumber(n.value[m[0]:m[1]], limit) {
				continue
			}
			unit := ""
			if after := unitPer.FindStringSubmatch(n.value[m[1]:]); after != nil {
				unit = after[1]
			} else if word := adverbPer.FindString(n.value); word != "" {
				unit = adverbs[strings.ToLower(word)]
			}
			if unit != "" && off(unit) {
				p.reportText(n, m[0], m[1], why(unit), fix)
			}
			return
		}
	}
}

// isNumber reports whether a text writes a number, with commas and k perhaps.
func isNumber(text string, v float64) bool {
	by := 1.0
	text = strings.TrimSpace(text)
	switch text[len(text)-1] {
	case 'k', 'K':
		text, by = text[:len(text)-1], 1e3
	case 'M':
		text, by = text[:len(text)-1], 1e6
	}
	n, err := strconv.ParseFloat(strings.NewReplacer(",", "", "_", "", "'", "", " ", "").Replace(text), 64)
	return err == nil && math.Abs(n*by-v) <= 1e-9*v
}

func spanInWords(seconds float64) string {
	if seconds == 1 {
		return "a second"
	}
	return render.Span(time.Duration(seconds * 1e9))
}

// sumsOfRates finds samples of a recorded rate added up over time without the time between them.
func (p *pass) sumsOfRates() {
	p.walk(func(n parser.Node, path []parser.Node) {
		c, ok := n.(*parser.Call)
		if !ok || c.Func.Name != "sum_over_time" {
			return
		}
		var rate *parser.Call
		switch a := unparen(c.Args[0]).(type) {
		case *parser.MatrixSelector:
			if r := p.records[nameOfOrNone(plainSelector(a))]; r != nil && r.tree != nil {
				rate, _ = unwrapped(r.tree).(*parser.Call)
			}
		case *parser.SubqueryExpr:
			rate, _ = unwrapped(a.Expr).(*parser.Call)
		}
		if !isCall(rate, "rate", "irate") || plainSelector(rate) == nil || multiplied(path) {
			return
		}
		p.report(c.PositionRange(), "these are amounts per second, one for each evaluation: their sum is what was counted only where it is multiplied by the seconds between them",
			advice("write increase of the counter over the range, or multiply by the interval"))
	})
}

// multiplied reports whether something on the way multiplies by a number, or divides.
func multiplied(path []parser.Node) bool {
	return slices.ContainsFunc(path, func(n parser.Node) bool {
		b, ok := n.(*parser.BinaryExpr)
		return ok && (b.Op == parser.MUL || b.Op == parser.DIV)
	})
}

// rateIn is the rate or increase of one counter that an expression is, added up perhaps.
func rateIn(e parser.Expr) *parser.Call {
	c, ok := unwrapped(unscaled(e)).(*parser.Call)
	if !ok || !isCall(c, rates...) || plainSelector(c) == nil {
		return nil
	}
	return c
}
