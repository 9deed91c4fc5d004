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

// Names of recorded series, as level:metric:operations. All have the label slo and, unless noted, the labels of
// Config.By.
const (
	// Events and BadEvents are per second. For availability, ServedModel records which model a target serves. For
	// gaps between tokens, Requests is the rate of requests with such gaps.
	Events      = "slo:vllm_events:rate5m"
	BadEvents   = "slo:vllm_bad_events:rate5m"
	Requests    = "slo:vllm_requests:rate5m"
	ServedModel = "instance:vllm_served_model:group"

	// Objective and ErrorBudget are constants: the share of events that must be good, and the share that may be bad.
	// Their only label is slo.
	Objective   = "slo:vllm_objective:ratio"
	ErrorBudget = "slo:vllm_error_budget:ratio"

	// Remaining is the share of the period's error budget that is left. It is negative if the budget is overspent.
	Remaining = "slo:vllm_error_budget_remaining:ratio"
)

// ErrorRatio returns the name of the recorded share of bad events in a window: the period, or a window of Levels.
func ErrorRatio(window time.Duration) string { return "slo:vllm_error:ratio_rate" + formatSpan(window) }

// BurnRate returns the name of the recorded burn rate in a window. At a burn rate of 1 the budget lasts for the
// period. Recorded windows are the period and the long window of the fastest of Levels.
func BurnRate(window time.Duration) string {
	return "slo:vllm_burn_rate:ratio_rate" + formatSpan(window)
}

// SLI returns the name of the recorded share of good events in the period.
func SLI(period time.Duration) string { return "slo:vllm_sli:ratio_rate" + formatSpan(period) }

// increaseName returns the name for the increase over a window of what series records as a rate.
func increaseName(series string, window time.Duration) string {
	return strings.TrimSuffix(series, "rate5m") + "increase" + formatSpan(window)
}

// rateName returns the name for the rate over a window of what series records over Base.
func rateName(series string, window time.Duration) string {
	return strings.TrimSuffix(series, "5m") + formatSpan(window)
}

// budgetInterval is the evaluation interval of sums over the whole period. It is long, because they read every recorded
// sample, but within Prometheus' lookback of five minutes.
const budgetInterval = 150 * time.Second

// newGroup returns the rules of every window and the alerts on them.
func (s *sli) newGroup() (rulefmt.RuleGroup, error) {
	g := rulefmt.RuleGroup{Name: "vllm-slo-" + s.id, Interval: model.Duration(s.cfg.Interval)}
	base, err := s.baseRules(Base)
	if err != nil {
		return g, err
	}
	for _, r := range base {
		s.addRecording(&g, r.name, r.expr)
	}
	long := map[time.Duration]bool{}
	windows := map[time.Duration]bool{}
	for _, l := range s.levels {
		if l.Most > 0 {
			if err := s.recordFastLevel(&g, l.Long); err != nil {
				return g, err
			}
			continue
		}
		long[l.Long], windows[l.Long], windows[l.Short] = true, true, true
	}
	for _, w := range slices.Sorted(maps.Keys(windows)) {
		if !long[w] {
			s.addRecording(&g, ErrorRatio(w), s.badShare(w))
			continue
		}
		for _, r := range base {
			if r.name != ServedModel {
				s.addRecording(&g, increaseName(r.name, w), fmt.Sprintf("sum_over_time(%s[%s]) * %s",
					s.selectRecorded(r.name), formatSpan(w), formatNumber(s.cfg.Interval.Seconds())))
			}
		}
		s.addRecording(&g, ErrorRatio(w), s.selectRecorded(increaseName(BadEvents, w))+" / "+
			s.selectRecorded(increaseName(Events, w)))
	}
	if len(long) > 0 {
		w := slices.Min(slices.Collect(maps.Keys(long)))
		s.addRecording(&g, BurnRate(w), fmt.Sprintf("%s / %s", s.selectRecorded(ErrorRatio(w)), formatNumber(s.budget)))
	}
	for _, severity := range []catalog.Severity{catalog.Page, catalog.Ticket} {
		if levels := s.levelsOf(severity); len(levels) > 0 {
			for _, subject := range s.cfg.Subjects {
				g.Rules = append(g.Rules, s.newAlert(subject, severity, levels))
			}
		}
	}
	if s.countsBuckets() {
		for _, subject := range s.cfg.Subjects {
			g.Rules = append(g.Rules, s.newUnknownAlert(subject))
		}
	}
	return g, nil
}

// recordFastLevel records the rates and the share of bad events of the fastest level.
func (s *sli) recordFastLevel(g *rulefmt.RuleGroup, window time.Duration) error {
	if window == Base {
		return nil // newGroup records it
	}
	base, err := s.baseRules(window)
	if err != nil {
		return err
	}
	for _, r := range base {
		if r.name != ServedModel {
			s.addRecording(g, r.name, r.expr)
		}
	}
	s.addRecording(g, ErrorRatio(window), s.selectRecorded(rateName(BadEvents, window))+" / "+
		s.selectRecorded(rateName(Events, window)))
	return nil
}

// badShare returns the share of bad events in a window. For the shortest window the recorded rates suffice.
func (s *sli) badShare(w time.Duration) string {
	if w == Base {
		return s.selectRecorded(BadEvents) + " / " + s.selectRecorded(Events)
	}
	return fmt.Sprintf("sum_over_time(%s[%s]) / sum_over_time(%s[%s])", s.selectRecorded(BadEvents), formatSpan(w),
		s.selectRecorded(Events), formatSpan(w))
}

// newBudgetGroup returns the rules over the whole period.
func (s *sli) newBudgetGroup() rulefmt.RuleGroup {
	g := rulefmt.RuleGroup{Name: "vllm-slo-" + s.id + "-budget", Interval: model.Duration(budgetInterval)}
	period := s.cfg.Period
	s.addRecording(&g, Objective, fmt.Sprintf("vector(%s)", formatNumber(roundOff(s.promise.Share))))
	s.addRecording(&g, ErrorBudget, fmt.Sprintf("vector(%s)", formatNumber(s.budget)))
	s.addRecording(&g, ErrorRatio(period), s.badShare(period))
	s.addRecording(&g, SLI(period), "1 - "+s.selectRecorded(ErrorRatio(period)))
	s.addRecording(&g, BurnRate(period),
		fmt.Sprintf("%s / %s", s.selectRecorded(ErrorRatio(period)), formatNumber(s.budget)))
	s.addRecording(&g, Remaining, "1 - "+s.selectRecorded(BurnRate(period)))
	return g
}

func (s *sli) addRecording(g *rulefmt.RuleGroup, name, expr string) {
	g.Rules = append(g.Rules, rulefmt.Rule{Record: name, Expr: expr, Labels: map[string]string{"slo": s.id}})
}

func (s *sli) levelsOf(severity catalog.Severity) []Level {
	return slices.DeleteFunc(slices.Clone(s.levels), func(l Level) bool { return l.Severity != severity })
}

func (s *sli) countsBuckets() bool { return s.promise.Quantity != slo.Succeeded }

// Alerts is the part of an alert's name that follows the engine's prefix.
const Alerts = "ErrorBudget"

// AlertName returns the name of the page or of the ticket on a promise, with an engine's prefix.
func AlertName(prefix string, p slo.Promise, severity catalog.Severity) string {
	alert := prefix + Alerts + "Burn" + kindOf(p)
	if severity != catalog.Page {
		alert += "Ticket"
	}
	return alert
}

// UnknownName returns the name of the alert on a latency that cannot be judged: events exist, but no bucket has the
// edge at which they are counted.
func UnknownName(prefix string, p slo.Promise) string { return prefix + Alerts + "Unknown" + kindOf(p) }

// holdDuration returns how long an alert's condition must last. The windows already prevent flapping; this only covers
// a rule that is evaluated between two scrapes.
func holdDuration(severity catalog.Severity) time.Duration {
	if severity == catalog.Page {
		return time.Minute
	}
	return 15 * time.Minute
}

// The least numbers of requests and of bad events in the long window for which an alert trusts the share.
const (
	minEvents = 10
	minBad    = 3
)

func (s *sli) newAlert(subject Subject, severity catalog.Severity, levels []Level) rulefmt.Rule {
	requests := Events
	if s.promise.Quantity == slo.ITL {
		requests = Requests
	}
	var parts []string
	for _, l := range levels {
		threshold := formatNumber(l.Factor) + " * " + formatNumber(s.budget)
		count := func(series string, least float64) string {
			return fmt.Sprintf("%s >= %s", s.selectRecorded(increaseName(series, l.Long)), formatNumber(least))
		}
		if l.Most > 0 {
			threshold = formatNumber(l.Threshold(s.budget))
			count = func(series string, least float64) string {
				return fmt.Sprintf("%s * %s >= %s", s.selectRecorded(rateName(series, l.Long)),
					formatNumber(l.Long.Seconds()), formatNumber(least))
			}
		}
		conditions := []string{fmt.Sprintf("%s > %s", s.selectRecorded(ErrorRatio(l.Long)), threshold)}
		if l.Short != l.Long {
			conditions = append(conditions, fmt.Sprintf("%s > %s", s.selectRecorded(ErrorRatio(l.Short)), threshold))
		}
		conditions = append(conditions, count(requests, minEvents), count(BadEvents, minBad))
		parts = append(parts, "(\n  "+strings.Join(conditions, "\nand\n  ")+"\n)")
	}
	return rulefmt.Rule{
		Alert: AlertName(subject.Prefix, s.promise, severity),
		Expr:  subject.restrict(strings.Join(parts, "\nor\n")),
		For:   model.Duration(holdDuration(severity)),

		KeepFiringFor: model.Duration(s.cfg.KeepFiringFor),

		Labels:      s.alertLabels(severity),
		Annotations: s.newAnnotations(levels),
	}
}

func (s *sli) alertLabels(severity catalog.Severity) map[string]string {
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

func (s *sli) describeBad() string {
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

// caveats describe the blind spots of the indicators: see docs/burn-rates.md.
var caveats = map[slo.Quantity]string{
	slo.TTFT: "Measured in the API server; users wait longer. A request that never gets a first token is not " +
		"counted: see the alerts on a hung engine and on cancellations.",
	slo.ITL: "One gap is one output event; with speculative decoding it brings several tokens. Gaps are " +
		"counted, not requests: long answers weigh more.",
	slo.E2E: "Counted when a request finishes: requests that clients abandon, usually the slow ones, are " +
		"missing.",
	slo.Succeeded: "Counted in the server: requests to a target that is down, errors after streaming began (HTTP " +
		"200) and clients that give up are not counted. The engine's own counters, used without HTTP counters, " +
		"miss unfinished requests. Measure at the gateway if there is one. Client errors (4xx) count neither as " +
		"good nor as bad.",
}

func (s *sli) newAnnotations(levels []Level) map[string]string {
	var rates []string
	detected := s.cfg.Period
	for _, l := range levels {
		took, _ := l.Detects(s.budget, 1) // ok, because dropUnreachable left only reachable levels
		took += holdDuration(l.Severity)
		if l.Most > 0 {
			rates = append(rates,
				fmt.Sprintf("%s are bad in %s", formatPercent(l.Threshold(s.budget)), formatSpan(l.Long)))
			took += s.cfg.Interval
		} else {
			rates = append(rates, fmt.Sprintf("the budget burns %s times too fast in %s and %s",
				formatNumber(l.Factor), formatSpan(l.Long), formatSpan(l.Short)))
			took += Base / 2
		}
		detected = min(detected, took.Round(time.Minute))
	}
	out := map[string]string{
		"summary": fmt.Sprintf("Error budget burns: {{ $value | humanizePercentage }} %s on %s, %s may",
			s.describeBad(), s.targetText(), formatPercent(s.budget)),
		"description": fmt.Sprintf("Objective: %s, over %s. Fires when %s, with at least %s requests and %s bad "+
			"ones. If all requests are bad, that takes about %s.",
			s.title(), formatSpan(s.cfg.Period), strings.Join(rates, ", or "), formatNumber(minEvents),
			formatNumber(minBad), formatSpan(detected)),
		"thresholds": fmt.Sprintf("%s (%s)", s.title(), s.thresholdSource()),
		"caveat":     caveats[s.promise.Quantity],
	}
	out["description"] += s.nameCauses()
	if s.moved != "" {
		out["bucket_edge"] = capitalize(s.moved) + "."
	}
	if s.cfg.Runbook != "" {
		out["runbook_url"] = s.cfg.Runbook
	}
	maps.Copy(out, s.cfg.Annotations)
	return out
}

// nameCauses returns the part of a description that names the pending and firing alerts on the servers whose budget
// burns.
func (s *sli) nameCauses() string {
	if s.cfg.Causes == "" {
		return ""
	}
	return fmt.Sprintf("{{ with printf `group by (alertname) (ALERTS{%s,%s})` %s | query }} Beside it: "+
		"{{ range $i, $a := . }}{{ if $i }}, {{ end }}{{ $a | label `alertname` }}{{ end }}.{{ end }}",
		s.cfg.Causes, generate.Placeholders(s.cfg.By), generate.Arguments(s.cfg.By))
}

// thresholdSource returns the sources of the target and of the edge at which it is counted.
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

// restrict restricts PromQL to the models of the subject.
func (s Subject) restrict(expr string) string {
	if s.Served == "" {
		return expr
	}
	return "(" + expr + ")" + s.Served
}

// newUnknownAlert returns the alert on a histogram that lacks the edge: an objective that cannot be judged must not
// look kept.
func (s *sli) newUnknownAlert(subject Subject) rulefmt.Rule {
	family := families[s.promise.Quantity]
	r := rulefmt.Rule{
		Alert:  UnknownName(subject.Prefix, s.promise),
		Expr:   subject.restrict(fmt.Sprintf("%s unless %s", s.selectRecorded(Events), s.selectRecorded(BadEvents))),
		For:    model.Duration(30 * time.Minute),
		Labels: s.alertLabels(catalog.Ticket),
		Annotations: map[string]string{
			"summary": fmt.Sprintf("Objective %s cannot be judged on %s", s.id, s.targetText()),
			"description": fmt.Sprintf("%s has no bucket at %s in any of %s: the servers' buckets changed, or "+
				"relabelling drops them. Generate the rules again from the servers.", family, render.Span(s.edge),
				strings.Join(s.cfg.metricNames(family+"_bucket"), ", ")),
		},
	}
	if s.cfg.Runbook != "" {
		r.Annotations["runbook_url"] = s.cfg.Runbook
	}
	maps.Copy(r.Annotations, s.cfg.Annotations)
	return r
}

func capitalize(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
