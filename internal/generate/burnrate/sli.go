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

// sli is one promise under watch: what an event is, and when it is bad.
type sli struct {
	cfg       *Config
	objective slo.Objective
	earlier   []slo.Objective // entries that come first where they match
	promise   slo.Promise
	levels    []Level // reachable ones, once reach was called
	budget    float64 // share of events that may be bad
	id        string  // value of the label slo

	edge   time.Duration // where a latency is counted
	moved  string        // what moving it there means; "" where it stayed
	source string        // where the edges come from
}

// families are the histograms of the latencies that can be promised.
var families = map[slo.Quantity]string{
	slo.TTFT: "vllm:time_to_first_token_seconds",
	slo.ITL:  "vllm:inter_token_latency_seconds",
	slo.E2E:  "vllm:e2e_request_latency_seconds",
}

// The canonical names of availability.
const (
	httpRequests = "http_requests_total"
	finished     = "vllm:request_success_total"
	rejected     = "vllm:admission_rejections_total"
	running      = "vllm:num_requests_running"
)

// serving matches the handlers of http_requests_total that serve a model, as
// against lists of models and administration (vllm/entrypoints@v0.33.0).
const serving = `/v1/(chat/completions|completions|responses|messages|embeddings|score|rerank|audio/.+|realtime)|/v2/rerank|/(inference/v1/)?generate|/pooling|/classify|/score|/rerank|/invocations`

// chooseBucket finds the bucket edge of a latency.
func (s *sli) chooseBucket(out *Rules) error {
	family, ok := families[s.promise.Quantity]
	if !ok {
		return nil
	}
	edges, known := s.cfg.Edges[family]
	s.source = "read from the server"
	if !known {
		if edges, known = s.cfg.usualEdges(family); !known {
			return hint.With(fmt.Errorf("the bucket edges of %s are not known", strings.Join(s.cfg.names(family), ", ")), "read them from a server")
		}
		s.source = "the engines' defaults, not read from a server"
		out.warn("bucket edges of %s: %s", family, s.source)
	}
	p, err := placeOn(s.promise.Target, edges)
	if err != nil {
		return fmt.Errorf("%s of %s: %w", s.title(), family, err)
	}
	if s.edge = p.edge; p.moved != "" {
		s.moved = fmt.Sprintf("the target %s is not a bucket edge of %s (%s): %s", render.Span(s.promise.Target), family, s.source, p.moved)
		out.warn("%s: %s", s.id, s.moved)
	}
	return nil
}

// dropUnreachable drops the levels that no incident can reach.
func (s *sli) dropUnreachable(out *Rules) {
	var reachable []Level
	for _, l := range s.levels {
		if l.Reachable(s.budget) {
			reachable = append(reachable, l)
			continue
		}
		if l.Most > 0 {
			continue // as was promised
		}
		out.warn("%s: no alert at %s times the budget of %s over %s: that would be more than all events", s.id, number(l.Factor), percent(s.budget), span(l.Long))
	}
	// Fewer rules: what another level of the same alert tells before is not asked again.
	s.levels = slices.DeleteFunc(reachable, func(l Level) bool {
		return slices.ContainsFunc(reachable, func(o Level) bool { return o.covers(l, s.budget) && o.Severity == l.Severity })
	})
}

// percentile writes the promise's share as "P95".
func percentile(share float64) string { return "P" + number(rounded(share*100)) }

// title names the promise for people: "TTFT P95 within 500ms".
func (s *sli) title() string {
	if s.promise.Quantity == slo.Succeeded {
		return "availability of " + percent(s.promise.Share)
	}
	return fmt.Sprintf("%s %s within %s", strings.ToUpper(string(s.promise.Quantity)), percentile(s.promise.Share), render.Span(s.promise.Target))
}

// kind names the promise in identifiers: "TTFTP95", "Availability".
func kind(p slo.Promise) string {
	if p.Quantity == slo.Succeeded {
		return "Availability"
	}
	return strings.ToUpper(string(p.Quantity)) + strings.ReplaceAll(percentile(p.Share), ".", "")
}

// identifier names an objective's promise: the value of the label slo.
func identifier(o slo.Objective, p slo.Promise) string {
	parts := []string{subject(o)}
	if p.Quantity == slo.Succeeded {
		parts = append(parts, "availability")
	} else {
		parts = append(parts, string(p.Quantity), strings.ToLower(percentile(p.Share)))
	}
	return slug(strings.Join(parts, " "))
}

// subject names what an objective is of.
func subject(o slo.Objective) string {
	if o.Name != "" {
		return o.Name
	}
	return strings.Join(slices.DeleteFunc([]string{o.Model, o.Namespace, o.Cluster, o.Service}, func(s string) bool { return s == "" }), " ")
}

// slug keeps lower-case letters, digits and dots, and joins them by hyphens.
func slug(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.'
	})
	return strings.Join(words, "-")
}

// base returns the rules that count events and bad events per second, as rates over a
// window.
func (s *sli) base(w time.Duration) ([]counter, error) {
	own, err := s.objective.Matchers()
	if err != nil {
		return nil, err
	}
	if s.promise.Quantity == slo.Succeeded {
		return s.availability(w, own)
	}
	return s.latency(w, own)
}

// A counter is a recording rule that counts, before it has its label.
type counter struct{ name, expr string }

// latency counts by a histogram: all observations, and those beyond the edge.
func (s *sli) latency(w time.Duration, own []*labels.Matcher) ([]counter, error) {
	family, events, bad := families[s.promise.Quantity], rate(Events, w), rate(BadEvents, w)
	unless, err := s.unless(family + "_count")
	if err != nil {
		return nil, err
	}
	all := by("sum", s.cfg.By, s.cfg.overWindow(w, "rate", family+"_count", own...))
	good := by("sum", s.cfg.By, s.cfg.overWindow(w, "rate", family+"_bucket", append(slices.Clone(own), le(s.edge.Seconds()))...))
	out := []counter{
		{events, all + unless},
		{bad, fmt.Sprintf("clamp_min(%s - on (%s) %s, 0)", s.recorded(events), list(s.cfg.By), good)},
	}
	if s.promise.Quantity == slo.ITL {
		count := s.cfg.overWindow(w, "rate", families[slo.TTFT]+"_count", own...)
		// The same exclusion: both families have the same labels.
		out = append(out, counter{rate(Requests, w), by("sum", s.cfg.By, count) + unless})
	}
	return out, nil
}

// unless returns what takes out the targets of earlier entries, "" where there
// are none.
func (s *sli) unless(canonical string) (string, error) {
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
	return fmt.Sprintf(" unless on (%s) %s", list(s.cfg.By), by("group", s.cfg.By, strings.Join(parts, " or "))), nil
}

// availability counts at the HTTP boundary where there is one, and what the
// engine itself says failed; of both, for each target, whichever is more: a
// failed request is in both, one that fails after streaming began in the
// engine's alone, one that never reached the engine in HTTP's alone.
//
// http_requests_total has no model_name: a target's requests are its model's.
// Of a target that serves several models the engine's counters are taken.
func (s *sli) availability(w time.Duration, own []*labels.Matcher) ([]counter, error) {
	boundary := slices.DeleteFunc(slices.Clone(own), func(m *labels.Matcher) bool { return m.Name == modelName })
	unless, err := s.unless(running)
	if err != nil {
		return nil, err
	}
	events, bad := rate(Events, w), rate(BadEvents, w)
	target := union(s.cfg.Instance, without(s.cfg.By, modelName)...)
	on := list(target)
	full := append(slices.Clone(target), modelName)
	there := func(ms []*labels.Matcher) string {
		return by("group", full, s.cfg.overBase("last_over_time", running, ms...))
	}

	handler := labels.MustNewMatcher(labels.MatchRegexp, "handler", serving)
	http := func(kind labels.MatchType, status string) string {
		ms := append(slices.Clone(boundary), handler, labels.MustNewMatcher(kind, "status", status))
		return fmt.Sprintf("%s * on (%s) group_left (%s) %s", by("sum", target, s.cfg.overWindow(w, "rate", httpRequests, ms...)), on, modelName, s.recorded(ServedModel))
	}
	failed := append(slices.Clone(own), labels.MustNewMatcher(labels.MatchEqual, "finished_reason", "error"))
	rejections := s.cfg.overWindow(w, "rate", rejected, own...)
	engine := by("sum", full, s.cfg.overWindow(w, "rate", finished, own...)+" or "+rejections)
	engineBad := by("sum", full, s.cfg.overWindow(w, "rate", finished, failed...)+" or "+rejections)
	mark := func(expr, counter string) string {
		return fmt.Sprintf("label_replace(%s, \"counter\", %q, \"\", \"\")", expr, counter)
	}
	return []counter{
		{ServedModel, fmt.Sprintf("%s and on (%s) count by (%s) (%s) == 1", there(own), on, on, there(boundary))},
		{events, by("sum", s.cfg.By, fmt.Sprintf("(%s) or on (%s) %s", http(labels.MatchNotRegexp, "4.."), on, engine)) + unless},
		{bad, fmt.Sprintf("%s%s or on (%s) 0 * %s",
			by("sum", s.cfg.By, by("max", full, mark(http(labels.MatchRegexp, "5.."), "http")+" or "+mark(engineBad, "engine"))), unless, list(s.cfg.By), s.recorded(events))},
	}, nil
}

// recorded selects a recorded series of this objective.
func (s *sli) recorded(name string) string { return fmt.Sprintf("%s{slo=%q}", name, s.id) }

// number writes a number as PromQL reads it back.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// percent writes a share for people.
func percent(v float64) string { return strconv.FormatFloat(rounded(v*100), 'f', -1, 64) + " %" }
