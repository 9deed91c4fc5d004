package burnrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/render"
)

// Recorded series, as level:metric:operations. All have the label slo beside
// those of Config.By.
const (
	// Events and BadEvents are per second; for availability ServedModel says
	// which model a target serves, and for gaps between tokens Requests is how
	// many requests they come from.
	Events      = "slo:vllm_events:rate5m"
	BadEvents   = "slo:vllm_bad_events:rate5m"
	Requests    = "slo:vllm_requests:rate5m"
	ServedModel = "instance:vllm_served_model:group"

	// Objective and ErrorBudget are constants: the share of events that must be
	// good, and the share that may be bad. They have no label but slo.
	Objective   = "slo:vllm_objective:ratio"
	ErrorBudget = "slo:vllm_error_budget:ratio"

	// Remaining is the share of the period's error budget that is left, negative
	// when more was spent than there was.
	Remaining = "slo:vllm_error_budget_remaining:ratio"
)

// ErrorRatio returns the name of the recorded share of bad events in a window;
// it is recorded for the period and for the windows of Levels.
func ErrorRatio(window time.Duration) string { return "slo:vllm_error:ratio_rate" + span(window) }

// BurnRate returns the name of the recorded burn rate in a window: how many
// times faster than evenly over the period the budget is spent. It is recorded
// for the long window of the fastest of Levels, and for the period.
func BurnRate(window time.Duration) string { return "slo:vllm_burn_rate:ratio_rate" + span(window) }

// SLI returns the name of the recorded share of good events in the period.
func SLI(period time.Duration) string { return "slo:vllm_sli:ratio_rate" + span(period) }

func increase(of string, window time.Duration) string {
	return strings.TrimSuffix(of, "rate5m") + "increase" + span(window)
}

// rate is the name of a rate over another window than Base.
func rate(of string, window time.Duration) string { return strings.TrimSuffix(of, "5m") + span(window) }

// budgetInterval is how often the sums over the whole period are evaluated:
// seldom, for they read every recorded sample, but within Prometheus' look-back
// of five minutes.
const budgetInterval = 150 * time.Second

// group returns the rules of every window and the alerts on them.
func (s *sli) group() (rulefmt.RuleGroup, error) {
	g := rulefmt.RuleGroup{Name: "vllm-slo-" + s.id, Interval: model.Duration(s.cfg.Interval)}
	base, err := s.base(Base)
	if err != nil {
		return g, err
	}
	for _, r := range base {
		s.record(&g, r.name, r.expr)
	}
	long := map[time.Duration]bool{}
	windows := map[time.Duration]bool{}
	for _, l := range s.levels {
		if l.Most > 0 {
			if err := s.fast(&g, l.Long); err != nil {
				return g, err
			}
			continue
		}
		long[l.Long], windows[l.Long], windows[l.Short] = true, true, true
	}
	for _, w := range slices.Sorted(maps.Keys(windows)) {
		if !long[w] {
			s.record(&g, ErrorRatio(w), s.ratio(w))
			continue
		}
		for _, r := range base {
			if r.name != ServedModel {
				s.record(&g, increase(r.name, w), fmt.Sprintf("sum_over_time(%s[%s]) * %s", s.recorded(r.name), span(w), number(s.cfg.Interval.Seconds())))
			}
		}
		s.record(&g, ErrorRatio(w), s.recorded(increase(BadEvents, w))+" / "+s.recorded(increase(Events, w)))
	}
	if len(long) > 0 {
		w := slices.Min(slices.Collect(maps.Keys(long)))
		s.record(&g, BurnRate(w), fmt.Sprintf("%s / %s", s.recorded(ErrorRatio(w)), number(s.budget)))
	}
	for _, severity := range []catalog.Severity{catalog.Page, catalog.Ticket} {
		if levels := s.at(severity); len(levels) > 0 {
			for _, of := range s.cfg.Subjects {
				g.Rules = append(g.Rules, s.alert(of, severity, levels))
			}
		}
	}
	if s.countsBuckets() {
		for _, of := range s.cfg.Subjects {
			g.Rules = append(g.Rules, s.unknown(of))
		}
	}
	return g, nil
}

// fast records the rates and the share of bad events of the fastest level.
func (s *sli) fast(g *rulefmt.RuleGroup, window time.Duration) error {
	if window == Base {
		return nil // recorded already
	}
	base, err := s.base(window)
	if err != nil {
		return err
	}
	for _, r := range base {
		if r.name != ServedModel {
			s.record(g, r.name, r.expr)
		}
	}
	s.record(g, ErrorRatio(window), s.recorded(rate(BadEvents, window))+" / "+s.recorded(rate(Events, window)))
	return nil
}

// ratio returns the share of bad events in a window. The shortest needs no sum:
// the rates are over it already.
func (s *sli) ratio(w time.Duration) string {
	if w == Base {
		return s.recorded(BadEvents) + " / " + s.recorded(Events)
	}
	return fmt.Sprintf("sum_over_time(%s[%s]) / sum_over_time(%s[%s])", s.recorded(BadEvents), span(w), s.recorded(Events), span(w))
}

// budgetGroup returns what is told of the whole period.
func (s *sli) budgetGroup() rulefmt.RuleGroup {
	g := rulefmt.RuleGroup{Name: "vllm-slo-" + s.id + "-budget", Interval: model.Duration(budgetInterval)}
	period := s.cfg.Period
	s.record(&g, Objective, fmt.Sprintf("vector(%s)", number(rounded(s.promise.Share))))
	s.record(&g, ErrorBudget, fmt.Sprintf("vector(%s)", number(s.budget)))
	s.record(&g, ErrorRatio(period), s.ratio(period))
	s.record(&g, SLI(period), "1 - "+s.recorded(ErrorRatio(period)))
	s.record(&g, BurnRate(period), fmt.Sprintf("%s / %s", s.recorded(ErrorRatio(period)), number(s.budget)))
	s.record(&g, Remaining, "1 - "+s.recorded(BurnRate(period)))
	return g
}

func (s *sli) record(g *rulefmt.RuleGroup, name, expr string) {
	g.Rules = append(g.Rules, rulefmt.Rule{Record: name, Expr: expr, Labels: map[string]string{"slo": s.id}})
}

// at returns the levels of a severity.
func (s *sli) at(severity catalog.Severity) []Level {
	return slices.DeleteFunc(slices.Clone(s.levels), func(l Level) bool { return l.Severity != severity })
}

func (s *sli) countsBuckets() bool { return s.promise.Quantity != slo.Succeeded }

// Alerts is what the names of the alerts begin with, after an engine's part.
const Alerts = "ErrorBudget"

// AlertName returns the name of the alert on a promise about servers of a Subject: one that pages, one
// that files a ticket.
func AlertName(of string, p slo.Promise, severity catalog.Severity) string {
	name := of + Alerts + "Burn" + kind(p)
	if severity != catalog.Page {
		name += "Ticket"
	}
	return name
}

// UnknownName returns the name of the alert on a latency that cannot be judged:
// there are events, but no bucket at the edge where they are counted.
func UnknownName(of string, p slo.Promise) string { return of + Alerts + "Unknown" + kind(p) }

// forDuration is how long an alert's condition must last. The windows are what keeps
// alerts from flapping; this only spans a rule evaluated between two scrapes.
func forDuration(severity catalog.Severity) time.Duration {
	if severity == catalog.Page {
		return time.Minute
	}
	return 15 * time.Minute
}

// How many requests, and how many bad events, the long window must hold before an alert
// believes its share.
const (
	minEvents = 10
	minBad    = 3
)

func (s *sli) alert(of Subject, severity catalog.Severity, levels []Level) rulefmt.Rule {
	requests := Events
	if s.promise.Quantity == slo.ITL {
		requests = Requests
	}
	var parts []string
	for _, l := range levels {
		threshold := number(l.Factor) + " * " + number(s.budget)
		count := func(series string, least float64) string {
			return fmt.Sprintf("%s >= %s", s.recorded(increase(series, l.Long)), number(least))
		}
		if l.Most > 0 {
			threshold = number(l.Threshold(s.budget))
			count = func(series string, least float64) string {
				return fmt.Sprintf("%s * %s >= %s", s.recorded(rate(series, l.Long)), number(l.Long.Seconds()), number(least))
			}
		}
		conditions := []string{fmt.Sprintf("%s > %s", s.recorded(ErrorRatio(l.Long)), threshold)}
		if l.Short != l.Long {
			conditions = append(conditions, fmt.Sprintf("%s > %s", s.recorded(ErrorRatio(l.Short)), threshold))
		}
		conditions = append(conditions, count(requests, minEvents), count(BadEvents, minBad))
		parts = append(parts, "(\n  "+strings.Join(conditions, "\nand\n  ")+"\n)")
	}
	return rulefmt.Rule{
		Alert: AlertName(of.Prefix, s.promise, severity),
		Expr:  of.only(strings.Join(parts, "\nor\n")),
		For:   model.Duration(forDuration(severity)),

		KeepFiringFor: model.Duration(s.cfg.KeepFiringFor),

		Labels:      s.labels(severity),
		Annotations: s.annotations(levels),
	}
}

func (s *sli) labels(severity catalog.Severity) map[string]string {
	out := maps.Clone(s.cfg.Labels)
	if out == nil {
		out = map[string]string{}
	}
	out["severity"], out["slo"] = cmp.Or(s.cfg.Severities[severity], severity.String()), s.id
	return out
}

// targetText names the target in an alert's text.
func (s *sli) targetText() string {
	var out string
	if slices.Contains(s.cfg.By, modelName) {
		out = "{{ $labels.model_name }}"
	}
	for _, l := range []string{"namespace", "cluster"} {
		if slices.Contains(s.cfg.By, l) {
			out += "{{ with $labels." + l + " }} in " + l + " {{ . }}{{ end }}"
		}
	}
	return out
}

// bad says what a bad event is.
func (s *sli) bad() string {
	at := render.Span(s.edge)
	switch s.promise.Quantity {
	case slo.TTFT:
		return "of requests waited longer than " + at + " for the first token"
	case slo.ITL:
		return "of gaps between tokens were longer than " + at
	case slo.E2E:
		return "of requests took longer than " + at
	}
	return "of requests failed"
}

// caveats say what the SLI cannot see: see docs/burn-rates.md.
var caveats = map[slo.Quantity]string{
	slo.TTFT:      "Measured in the API server; users wait longer. A request that never gets a first token is not counted: see the alerts on a hung engine and on cancellations.",
	slo.ITL:       "One gap is one output event; with speculative decoding it brings several tokens. Gaps are counted, not requests: long answers weigh more.",
	slo.E2E:       "Counted when a request finishes: requests that clients abandon, usually the slow ones, are missing.",
	slo.Succeeded: "Counted in the server: requests to a target that is down, errors after streaming began (HTTP 200) and clients that give up are not counted. The engine's own counters, used without HTTP counters, miss unfinished requests. Measure at the gateway if there is one. Client errors (4xx) count neither as good nor as bad.",
}

func (s *sli) annotations(levels []Level) map[string]string {
	var rates []string
	detected := s.cfg.Period
	for _, l := range levels {
		took, _ := l.Detects(s.budget, 1) // reachable, or it would not be here
		took += forDuration(l.Severity)
		if l.Most > 0 {
			rates = append(rates, fmt.Sprintf("%s are bad in %s", percent(l.Threshold(s.budget)), span(l.Long)))
			took += s.cfg.Interval
		} else {
			rates = append(rates, fmt.Sprintf("the budget burns %s times too fast in %s and %s", number(l.Factor), span(l.Long), span(l.Short)))
			took += Base / 2
		}
		detected = min(detected, took.Round(time.Minute))
	}
	out := map[string]string{
		"summary": fmt.Sprintf("Error budget burns: {{ $value | humanizePercentage }} %s on %s, %s may", s.bad(), s.targetText(), percent(s.budget)),
		"description": fmt.Sprintf("Objective: %s, over %s. Fires when %s, with at least %s requests and %s bad ones. If all requests are bad, that takes about %s.",
			s.title(), span(s.cfg.Period), strings.Join(rates, ", or "), number(minEvents), number(minBad), span(detected)),
		"thresholds": fmt.Sprintf("%s (%s)", s.title(), s.thresholdSource()),
		"caveat":     caveats[s.promise.Quantity],
	}
	out["description"] += s.causes()
	if s.moved != "" {
		out["bucket_edge"] = upperFirst(s.moved) + "."
	}
	if s.cfg.Runbook != "" {
		out["runbook_url"] = s.cfg.Runbook
	}
	maps.Copy(out, s.cfg.Annotations)
	return out
}

// causes names what fires or is about to on the servers whose budget burns: a burn is a
// symptom.
func (s *sli) causes() string {
	if s.cfg.Causes == "" {
		return ""
	}
	return fmt.Sprintf("{{ with printf `group by (alertname) (ALERTS{%s,%s})` %s | query }} Beside it: {{ range $i, $a := . }}{{ if $i }}, {{ end }}{{ $a | label `alertname` }}{{ end }}.{{ end }}",
		s.cfg.Causes, generate.Placeholders(s.cfg.By), generate.Arguments(s.cfg.By))
}

// thresholdSource says where the target, and the edge at which it is counted,
// come from.
func (s *sli) thresholdSource() string {
	source := "objective set by the user"
	if usual, err := slo.ForUseCase(s.objective.UseCase); err == nil && slices.Contains(usual.Promises(), s.promise) {
		source = "objective of use case " + s.objective.UseCase
	}
	if s.source != "" {
		source += "; bucket edges: " + s.source
	}
	return source
}

// only restricts PromQL to what the subject serves.
func (of Subject) only(expr string) string {
	if of.Served == "" {
		return expr
	}
	return "(" + expr + ")" + of.Served
}

// unknown alerts on a target whose histogram lacks the edge: an objective that
// nobody can judge must not look kept.
func (s *sli) unknown(of Subject) rulefmt.Rule {
	family := families[s.promise.Quantity]
	r := rulefmt.Rule{
		Alert:  UnknownName(of.Prefix, s.promise),
		Expr:   of.only(fmt.Sprintf("%s unless %s", s.recorded(Events), s.recorded(BadEvents))),
		For:    model.Duration(30 * time.Minute),
		Labels: s.labels(catalog.Ticket),
		Annotations: map[string]string{
			"summary":     fmt.Sprintf("Objective %s cannot be judged on %s", s.id, s.targetText()),
			"description": fmt.Sprintf("%s has no bucket at %s in any of %s: the servers' buckets changed, or relabelling drops them. Generate the rules again from the servers.", family, render.Span(s.edge), strings.Join(s.cfg.names(family+"_bucket"), ", ")),
		},
	}
	if s.cfg.Runbook != "" {
		r.Annotations["runbook_url"] = s.cfg.Runbook
	}
	maps.Copy(r.Annotations, s.cfg.Annotations)
	return r
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
