package diagnose

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// notShown ends the summary of a fault that shows at the gateway and in no engine behind it, because healthy or idle
// engines do not make the service healthy.
const notShown = ". The engines' own metrics do not show it"

// discoverUpstreams reads which servers gateways stand before, and which models their engines say
// they serve.
func discoverUpstreams(ctx context.Context, q metrics.Querier, at time.Time, matchers []*labels.Matcher, targets []Target, l Layout) error {
	if !slices.ContainsFunc(targets, func(t Target) bool { return t.isGateway() && t.Problem == "" }) {
		return nil
	}
	of := samplesOf("sixty_gateway_upstream_up|sixty_gateway_upstream_engine_output_tokens_total", matchers).In(indicator.WindowMark)
	of.Func = "last_over_time"
	v, err := q.Evaluate(ctx, indicator.Aggregate{Op: "group", Labels: slices.Concat(l.Instance, []string{"model", "upstream"}), Of: of}, at)
	if err != nil {
		return fmt.Errorf("find what is behind gateways: %w", err)
	}
	for i := range targets {
		t := &targets[i]
		if !t.isGateway() {
			continue
		}
		for _, s := range v {
			if labelKey(s.Metric, l.Instance) != labelKey(t.Labels, l.Instance) {
				continue
			}
			t.Models, t.Upstreams = append(t.Models, string(s.Metric[indicator.PerModel])), append(t.Upstreams, string(s.Metric[indicator.PerUpstream]))
		}
		for _, list := range []*[]string{&t.Models, &t.Upstreams} {
			slices.Sort(*list)
			*list = slices.DeleteFunc(slices.Compact(*list), func(s string) bool { return s == "" })
		}
	}
	return nil
}

// poolsBehind lists the pools behind a gateway. It finds them by the gateway's servers or, if the gateway knows these
// by other addresses, by its models; without either, it returns the only pool.
func poolsBehind(gateway *Target, byKey map[string]*pool) (out []*pool) {
	of := func(label string, values []string) {
		for _, k := range slices.Sorted(maps.Keys(byKey)) {
			if slices.ContainsFunc(values, func(v string) bool { return byKey[k].servesLabel(label, v) }) {
				out = append(out, byKey[k])
			}
		}
	}
	if of("instance", gateway.Upstreams); len(out) == 0 {
		of("model_name", gateway.Models)
	}
	if len(out) == 0 && len(byKey) == 1 {
		out = slices.Collect(maps.Values(byKey))
	}
	return out
}

// spreadGateway assigns a gateway's findings to pools: a model's to that model, an upstream's to its server's pool, and the
// others to the only pool behind the gateway. The remaining findings form a pool of the gateway's own.
func spreadGateway(s *Snapshot, j judgement, byKey map[string]*pool) *pool {
	pools, own := poolsBehind(&s.Targets[j.target], byKey), &pool{snapshot: s}
	shares := map[*pool][]outcome{}
	for _, o := range j.outcomes {
		to := own
		for _, p := range pools {
			if len(pools) == 1 || o.part.label == indicator.PerModel && p.servesLabel("model_name", o.part.name) || o.part.label == indicator.PerUpstream && p.servesLabel("instance", o.part.name) {
				to = p
			}
		}
		shares[to] = append(shares[to], o)
	}
	for _, p := range append(pools, own) {
		p.judged = append(p.judged, judgement{target: j.target, view: j.view, outcomes: shares[p]})
	}
	return own
}

// servesLabel reports whether a server of the pool has a label.
func (p *pool) servesLabel(label, value string) bool {
	return slices.ContainsFunc(p.targets, func(i int) bool {
		t := &p.snapshot.Targets[i]
		return t.Serves() && t.Labels[label] == value
	})
}

// explainAcross lets the findings of a pool's gateways and servers explain each other, and lets those Across servers
// explain each other's. A finding about an upstream with a known server concerns that server alone.
func (p *pool) explainAcross() {
	for i := range p.judged {
		for k := range p.judged {
			a, b := &p.judged[i], &p.judged[k]
			if a.atGateway() != b.atGateway() {
				explainOutcomes(a.outcomes, b.outcomes, func(cause, o *outcome) bool { return p.mayBeUpstream(a, o.part) && p.mayBeUpstream(b, cause.part) })
			} else if i != k && !a.atGateway() {
				explainOutcomes(a.outcomes, b.outcomes, func(cause, o *outcome) bool { return o.pathology.Across || cause.pathology.Everywhere })
			}
		}
	}
}

func (j *judgement) atGateway() bool { return j.view.snapshot.Targets[j.target].isGateway() }

// mayBeUpstream reports whether a server may be the upstream that an outcome is about.
func (p *pool) mayBeUpstream(server *judgement, of part) bool {
	if of.label != indicator.PerUpstream || !p.servesLabel("instance", of.name) {
		return true
	}
	return server.view.snapshot.Targets[server.target].Labels["instance"] == of.name
}

// Requests at a gateway and in engines are taken for the same if their numbers agree within this share. They differ
// at the edges of the window.
const sameRequests = 0.25

// readOutside says how long requests are outside the engines, and how many of those that a gateway holds the engines do not,
// by the engines' own pages: these may be at hand where a gateway does not read them, or through the link that is slow.
func (s *Snapshot) readOutside() {
	for i := range s.Targets {
		if t := &s.Targets[i]; !t.isGateway() || t.Problem != "" {
			continue
		}
		outside, missing := s.readings[i].of(indicator.GatewayOutside), s.readings[i].of(indicator.GatewayMissing)
		if now := s.readOutsideEngine(i, s.Now, s.Spans[i].Window.Length()); now.OK {
			outside.now = now
		}
		if normal := s.readOutsideEngine(i, s.Normal, s.Spans[i].Baseline.Length()); normal.OK {
			outside.normal = normal
		}
		if now := s.readMissing(i, s.Now); now.V > 0 && !missing.now.OK {
			missing.now, s.readings[i].of(indicator.GatewayMade).now = now, indicator.Known(0)
		}
	}
}

// readOutsideEngine compares the mean time of a request at a gateway with that in the engines behind it, where
// these have served the same requests, over a time. It is less by what chance may do to both.
func (s *Snapshot) readOutsideEngine(gateway int, read func(int, *indicator.Signal) indicator.Value, over time.Duration) indicator.Value {
	whole := read(gateway, indicator.GatewayE2EMean)
	if !whole.OK {
		return whole
	}
	var timed, ended, completed, spent float64
	for i := range s.Targets {
		if s.Targets[i].isGateway() && s.Targets[i].Version == s.Targets[gateway].Version { // its replicas share the engines
			timed += read(i, indicator.GatewayTimed).Or(0)
			ended += read(i, indicator.GatewayEnded).Or(0)
		}
	}
	for _, i := range s.enginesBehind(gateway) {
		rate, mean := read(i, indicator.CompletionRate), read(i, indicator.E2EMean)
		if rate.Or(0) == 0 {
			continue
		}
		if !mean.OK || s.roleOf(i) != engine.Serve {
			return indicator.Unknown("the engines behind the gateway do not say how long a request is in them")
		}
		completed += rate.V
		spent += rate.V * mean.V
	}
	span := max(over.Seconds(), 1)
	few := 2 / span
	if completed == 0 || timed > completed*(1+sameRequests)+few || completed > max(timed, ended)*(1+sameRequests)+few {
		return indicator.Unknown("the engines that are watched did not serve the requests that the gateway timed")
	}
	// Requests that ended at one of the two only: between the scrapes of one and of the other.
	edge := math.Abs(timed-completed)*span + timed*s.interval.Seconds()
	chance := 2 * max(whole.V, spent/completed) * math.Sqrt(edge) / max(timed*span, 1)
	v := indicator.Known(whole.V - spent/completed - chance)
	v.AtLeast = true
	return v
}

// readMissing is how many of the requests that were open at a gateway at its last two scrapes the engines do not show, where
// nobody was answered and no token came; 0 where any was.
func (s *Snapshot) readMissing(gateway int, read func(int, *indicator.Signal) indicator.Value) (none indicator.Value) {
	open, answered, engines := read(gateway, indicator.GatewayWaiting), read(gateway, indicator.GatewayAnswered), s.enginesBehind(gateway)
	if !open.OK || !answered.OK || len(engines) == 0 {
		return none
	}
	for _, i := range engines {
		running, waiting, tokens := read(i, indicator.Running), read(i, indicator.Waiting), read(i, indicator.GenerationTokenRate)
		if s.Spans[i].Failing || !running.OK || !waiting.OK || !tokens.OK {
			return none
		}
		open.V -= running.V + waiting.V
		answered.V += tokens.V
	}
	if answered.V > 0 || open.V <= someUnserved {
		open.V = 0
	}
	return open
}

// enginesBehind lists the servers behind a gateway, by the addresses or models that it knows, else all servers.
func (s *Snapshot) enginesBehind(gateway int) (out []int) {
	g := &s.Targets[gateway]
	for _, known := range []struct {
		label  string
		values []string
	}{{"instance", g.Upstreams}, {"model_name", g.Models}, {}} {
		for i := range s.Targets {
			if t := &s.Targets[i]; t.Serves() && (known.label == "" || slices.Contains(known.values, t.Labels[known.label])) {
				out = append(out, i)
			}
		}
		if len(out) > 0 {
			break
		}
	}
	return out
}

// Gateway returns the index of the gateway to show: the one with the most firing findings, -1 without gateways.
func (d *Diagnosis) Gateway() int {
	shown, most := -1, -1
	for i := range d.Targets {
		if t := &d.Targets[i]; t.isGateway() && t.Problem == "" {
			fire := 0
			for k := range d.Findings {
				fire += boolToInt(d.Findings[k].Status == Firing && slices.Contains(d.Findings[k].Targets, t.Name))
			}
			if fire > most {
				shown, most = i, fire
			}
		}
	}
	return shown
}

// Parts returns a gateway's readings in the window for each model or upstream.
func (d *Diagnosis) Parts(target int, sig *indicator.Signal) map[string]float64 {
	if d.inquiry == nil || target >= len(d.inquiry.snapshot.parts) {
		return nil
	}
	return view{snapshot: d.inquiry.snapshot, target: target}.readingsByPart(sig)
}

// noteGateways says which gateways cannot be read.
func (d *Diagnosis) noteGateways() {
	for i := range d.Targets {
		if t := &d.Targets[i]; t.isGateway() && t.Problem != "" {
			d.Notes = append(d.Notes, fmt.Sprintf("the gateway %s cannot be read: %s", t.Name, t.Problem))
		}
	}
}
