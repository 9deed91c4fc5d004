package burnrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/render"
)

// An sli is the service level indicator of one promise: its events and bad events.
type sli struct {
	cfg       *Config
	objective slo.Objective
	earlier   []slo.Objective // objectives that take precedence where they match
	promise   slo.Promise
	levels    []Level // reachable ones, after dropUnreachable
	budget    float64 // share of events that may be bad
	id        string  // value of the label slo

	// For a latency: the bucket edge at which it is counted, the consequence of moving the target to it ("" if it did
	// not move), and the source of the edges.
	edge   time.Duration
	moved  string
	source string
}

// families are the histograms of the latencies.
var families = map[slo.Quantity]string{
	slo.TTFT: "vllm:time_to_first_token_seconds",
	slo.ITL:  "vllm:inter_token_latency_seconds",
	slo.E2E:  "vllm:e2e_request_latency_seconds",
}

// The canonical names of the metrics of availability.
const (
	httpRequests = "http_requests_total"
	finished     = "vllm:request_success_total"
	rejected     = "vllm:admission_rejections_total"
	running      = "vllm:num_requests_running"
)

// serving matches the handlers of http_requests_total that serve a model, not those that list models or administer
// the server (vllm/entrypoints@v0.33.0).
const serving = `/v1/(chat/completions|completions|responses|messages|embeddings|score|rerank|audio/.+|realtime)` +
	`|/v2/rerank|/(inference/v1/)?generate|/pooling|/classify|/score|/rerank|/invocations`

// chooseBucket sets the edge at which a latency is counted, and warns if that moves the target.
func (s *sli) chooseBucket(rules *Rules) error {
	family, ok := families[s.promise.Quantity]
	if !ok {
		return nil
	}
	bucketEdges, known := s.cfg.Edges[family]
	s.source = "read from the server"
	if !known {
		if bucketEdges, known = s.cfg.usualEdges(family); !known {
			return hint.With(fmt.Errorf("the bucket edges of %s are not known",
				strings.Join(s.cfg.metricNames(family), ", ")), "read them from a server")
		}
		s.source = "the engines' defaults, not read from a server"
		rules.addWarning("bucket edges of %s: %s", family, s.source)
	}
	p, err := placeTarget(s.promise.Target, bucketEdges)
	if err != nil {
		return fmt.Errorf("%s of %s: %w", s.title(), family, err)
	}
	if s.edge = p.edge; p.moved != "" {
		s.moved = fmt.Sprintf("the target %s is not a bucket edge of %s (%s): %s", render.Span(s.promise.Target),
			family, s.source, p.moved)
		rules.addWarning("%s: %s", s.id, s.moved)
	}
	return nil
}

// dropUnreachable drops the levels that no incident can reach, and those that a faster level of the same alert
// covers.
func (s *sli) dropUnreachable(rules *Rules) {
	var reachable []Level
	for _, l := range s.levels {
		if l.Reachable(s.budget) {
			reachable = append(reachable, l)
			continue
		}
		if l.Most > 0 {
			continue // the fastest level is an addition: nobody misses it
		}
		rules.addWarning("%s: no alert at %s times the budget of %s over %s: that would be more than all events", s.id,
			formatNumber(l.Factor), formatPercent(s.budget), formatSpan(l.Long))
	}
	s.levels = slices.DeleteFunc(reachable, func(l Level) bool {
		return slices.ContainsFunc(reachable,
			func(o Level) bool { return o.covers(l, s.budget) && o.Severity == l.Severity })
	})
}

func formatPercentile(share float64) string { return "P" + formatNumber(roundOff(share*100)) }

// title names the promise for people: "TTFT P95 within 500ms".
func (s *sli) title() string {
	if s.promise.Quantity == slo.Succeeded {
		return "availability of " + formatPercent(s.promise.Share)
	}
	return fmt.Sprintf("%s %s within %s", strings.ToUpper(string(s.promise.Quantity)),
		formatPercentile(s.promise.Share), render.Span(s.promise.Target))
}

// kindOf names the promise in identifiers: "TTFTP95", "Availability".
func kindOf(p slo.Promise) string {
	if p.Quantity == slo.Succeeded {
		return "Availability"
	}
	return strings.ToUpper(string(p.Quantity)) + strings.ReplaceAll(formatPercentile(p.Share), ".", "")
}

// identifierOf names an objective's promise: the value of the label slo.
func identifierOf(o slo.Objective, p slo.Promise) string {
	parts := []string{scopeOf(o)}
	if p.Quantity == slo.Succeeded {
		parts = append(parts, "availability")
	} else {
		parts = append(parts, string(p.Quantity), strings.ToLower(formatPercentile(p.Share)))
	}
	return slugOf(strings.Join(parts, " "))
}

// scopeOf names the scope of an objective.
func scopeOf(o slo.Objective) string {
	if o.Name != "" {
		return o.Name
	}
	return strings.Join(slices.DeleteFunc([]string{o.Model, o.Namespace, o.Cluster, o.Service},
		func(s string) bool { return s == "" }), " ")
}

// slugOf keeps lower-case letters, digits and dots, and joins words with hyphens.
func slugOf(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.'
	})
	return strings.Join(words, "-")
}

// baseRules returns the rules for the rates of events and bad events over a window.
func (s *sli) baseRules(w time.Duration) ([]recording, error) {
	own, err := s.objective.Matchers()
	if err != nil {
		return nil, err
	}
	if s.promise.Quantity == slo.Succeeded {
		return s.availabilityRules(w, own)
	}
	return s.latencyRules(w, own)
}

// A recording is the name and the PromQL of a recording rule.
type recording struct{ name, expr string }

// latencyRules counts all observations of a histogram as events, and those above the edge as bad ones.
func (s *sli) latencyRules(w time.Duration, own []*labels.Matcher) ([]recording, error) {
	family, events, bad := families[s.promise.Quantity], rateName(Events, w), rateName(BadEvents, w)
	unless, err := s.excludeEarlier(family + "_count")
	if err != nil {
		return nil, err
	}
	all := aggregateBy("sum", s.cfg.By, s.cfg.overWindow(w, "rate", family+"_count", own...))
	good := aggregateBy("sum", s.cfg.By,
		s.cfg.overWindow(w, "rate", family+"_bucket", append(slices.Clone(own), edgeMatcher(s.edge.Seconds()))...))
	out := []recording{
		{events, all + unless},
		{bad, fmt.Sprintf("clamp_min(%s - on (%s) %s, 0)", s.selectRecorded(events), joinNames(s.cfg.By), good)},
	}
	if s.promise.Quantity == slo.ITL {
		count := s.cfg.overWindow(w, "rate", families[slo.TTFT]+"_count", own...)
		// unless fits both families, because their labels are the same.
		out = append(out, recording{rateName(Requests, w), aggregateBy("sum", s.cfg.By, count) + unless})
	}
	return out, nil
}

// excludeEarlier returns PromQL that excludes the targets of earlier objectives, or "".
func (s *sli) excludeEarlier(canonical string) (string, error) {
	var parts []string
	for _, o := range s.earlier {
		ms, err := o.Matchers()
		if err != nil {
			return "", err
		}
		parts = append(parts, s.cfg.overBase("last_over_time", canonical, ms...))
	}
	if len(parts) == 0 {
		return "", nil
	}
	return fmt.Sprintf(" unless on (%s) %s", joinNames(s.cfg.By),
		aggregateBy("group", s.cfg.By, strings.Join(parts, " or "))), nil
}

// availabilityRules counts failed requests at the HTTP boundary and in the engine, and takes the larger number for each
// target. Most failed requests are in both. Failures after streaming began are only in the engine's counters;
// requests that never reached the engine are only in HTTP's.
//
// http_requests_total has no model_name; all requests of a target count for its model. Targets with several models
// are judged by the engine's counters alone.
func (s *sli) availabilityRules(w time.Duration, own []*labels.Matcher) ([]recording, error) {
	withoutModel := slices.DeleteFunc(slices.Clone(own), func(m *labels.Matcher) bool { return m.Name == modelName })
	unless, err := s.excludeEarlier(running)
	if err != nil {
		return nil, err
	}
	events, bad := rateName(Events, w), rateName(BadEvents, w)
	target := unionOf(s.cfg.Instance, without(s.cfg.By, modelName)...)
	on := joinNames(target)
	full := append(slices.Clone(target), modelName)
	served := func(ms []*labels.Matcher) string {
		return aggregateBy("group", full, s.cfg.overBase("last_over_time", running, ms...))
	}

	handler := labels.MustNewMatcher(labels.MatchRegexp, "handler", serving)
	http := func(kind labels.MatchType, status string) string {
		ms := append(slices.Clone(withoutModel), handler, labels.MustNewMatcher(kind, "status", status))
		return fmt.Sprintf("%s * on (%s) group_left (%s) %s", aggregateBy("sum", target,
			s.cfg.overWindow(w, "rate", httpRequests, ms...)), on, modelName, s.selectRecorded(ServedModel))
	}
	failed := append(slices.Clone(own), labels.MustNewMatcher(labels.MatchEqual, "finished_reason", "error"))
	rejections := s.cfg.overWindow(w, "rate", rejected, own...)
	engine := aggregateBy("sum", full, s.cfg.overWindow(w, "rate", finished, own...)+" or "+rejections)
	engineBad := aggregateBy("sum", full, s.cfg.overWindow(w, "rate", finished, failed...)+" or "+rejections)
	mark := func(expr, counter string) string { // so that the two counts of a target are two series
		return fmt.Sprintf("label_replace(%s, \"counter\", %q, \"\", \"\")", expr, counter)
	}
	return []recording{
		{
			ServedModel,
			fmt.Sprintf("%s and on (%s) count by (%s) (%s) == 1", served(own), on, on, served(withoutModel)),
		},
		{events, aggregateBy("sum", s.cfg.By,
			fmt.Sprintf("(%s) or on (%s) %s", http(labels.MatchNotRegexp, "4.."), on, engine)) + unless},
		{bad, fmt.Sprintf("%s%s or on (%s) 0 * %s",
			aggregateBy("sum", s.cfg.By, aggregateBy("max", full, mark(http(labels.MatchRegexp, "5.."), "http")+
				" or "+mark(engineBad, "engine"))), unless, joinNames(s.cfg.By), s.selectRecorded(events))},
	}, nil
}

func (s *sli) selectRecorded(name string) string { return fmt.Sprintf("%s{slo=%q}", name, s.id) }

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func formatPercent(v float64) string { return strconv.FormatFloat(roundOff(v*100), 'f', -1, 64) + " %" }
