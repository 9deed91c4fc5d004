package planning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// A Question is a change of a model's servers and of what they are asked for. Factors are of the present.
type Question struct {
	Model                    string // as a diagnosis names it; "" where there is one
	Replicas                 int    // 0: as many as there are
	Arrivals, Prompt, Output float64
	Args                     engine.Config // flags with other values
}

// An Answer has what users and servers of the model would see with nothing changed and with the change, by the names of
// docs/api.md.
type Answer struct {
	Target           string // the server that was simulated; the others are taken for its like
	Replicas         int    // that there are
	Engine           *perfmodel.Engine
	Known            engine.Config
	Basis, Caveats   []string
	Present, Changed map[string]catalog.Estimate
}

// ErrNoPrediction is wrapped by the error for servers of which there can be no prediction, which says why.
var ErrNoPrediction = errors.New("no prediction")

// answered are the quantities of an Answer: of all engines, and how far simulations were off, as quantities have it.
var answered = []struct {
	name string
	like *indicator.Signal // whose of and off are taken
	of   func(o *outcome, engines float64) float64
}{
	{"ttft_p50", indicator.TTFTP50, nil},
	{"ttft_p95", indicator.TTFTP95, nil},
	{"itl_p95", indicator.ITLP95, nil},
	{"e2e_mean", indicator.E2EMean, nil},
	{"output_tokens_rate", indicator.GenerationTokenRate, nil},
	{"requests_rate", indicator.GenerationTokenRate, func(o *outcome, engines float64) float64 {
		return float64(len(o.ended)) / o.seconds * engines
	}},
	{"preemptions_rate", indicator.Preemptions, func(o *outcome, engines float64) float64 {
		return o.preemptions / o.seconds * engines
	}},
	{"kv_cache_usage", indicator.Running, func(o *outcome, _ float64) float64 { return o.kv / o.seconds }},
}

// Ask answers a question about the servers of a diagnosis, with the simulation, the window and the server of
// PredictFixes. If nothing is found on the model, that is its busiest server.
func Ask(ctx context.Context, q metrics.Querier, d *diagnose.Diagnosis, question Question) (*Answer, error) {
	k := slices.IndexFunc(d.Verdicts, func(v diagnose.Verdict) bool {
		return question.Model == "" || v.Model == question.Model || strings.HasSuffix(question.Model, "/"+v.Model) ||
			d.Labels(v.Model, v.Targets)["model_name"] == question.Model
	})
	if k < 0 {
		var names []string
		for _, v := range d.Verdicts {
			names = append(names, cmp.Or(d.Labels(v.Model, v.Targets)["model_name"], v.Model))
		}
		return nil, fmt.Errorf("no server has the model %q: there are %s", question.Model, strings.Join(names, ", "))
	}
	v := &d.Verdicts[k]
	target, fixes := v.Workload.Target, []*catalog.Fix{}
	if f := d.LeadingFinding(v); f != nil && v.Status == diagnose.Firing {
		target = f.Targets[0]
		for i := range f.Fixes {
			if isRelevant(&f.Fixes[i]) {
				fixes = append(fixes, &f.Fixes[i])
			}
		}
	}
	if target == "" && len(v.Targets) > 0 {
		target = v.Targets[0]
	}
	var out *Answer
	err := fmt.Errorf("%w: the servers are not judged yet", ErrNoPrediction)
	d.Predict(ctx, q, func(
		ctx context.Context, q metrics.Querier, r diagnose.Request, s *diagnose.Snapshot, d *diagnose.Diagnosis,
	) {
		p, perr := newPredictor(ctx, q, &r, s, target, fixes)
		if perr != nil {
			err = fmt.Errorf("%w: %w", ErrNoPrediction, perr)
			return
		}
		out = &Answer{Target: target, Engine: p.engine, Known: p.now.known}
		for i := range d.Targets {
			if t := &d.Targets[i]; t.Serves() && (slices.Contains(v.All, t.Name) || len(d.Verdicts) == 1) {
				out.Replicas++
			}
		}
		err = p.fillAnswer(&question, out)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// fillAnswer fills an answer in.
func (p *predictor) fillAnswer(question *Question, answer *Answer) error {
	var f catalog.Fix
	for flag, to := range question.Args {
		f.Changes = append(f.Changes, catalog.Change{Flag: "--" + flag, To: to.Value})
	}
	slices.SortFunc(f.Changes, func(a, b catalog.Change) int { return strings.Compare(a.Flag, b.Flag) })
	if len(f.Changes) > 0 && !isRelevant(&f) {
		return hint.With(errors.New("one of these flags changes more than the scheduler, whose simulation this is"),
			"run the command sixty simulate")
	}
	after, err := p.changeSetup(&f)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoPrediction, err)
	}
	unchanged, err := p.simulateUnchanged()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoPrediction, err)
	}
	now, then := float64(max(answer.Replicas, 1)), float64(cmp.Or(question.Replicas, max(answer.Replicas, 1)))
	t := p.traffic.scaleLoad(cmp.Or(question.Arrivals, 1) * now / then)
	t.promptFactor, t.outputFactor = question.Prompt, question.Output
	p.traffic, t = t, p.traffic
	defer func() { p.traffic = t }()
	outcomes, _, caveats, err := p.simulateFuture(after)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoPrediction, err)
	}
	answer.Caveats, answer.Present, answer.Changed = caveats, p.tell(unchanged, now), p.tell(outcomes, then)
	p.traffic = t
	answer.Basis = p.describeBasis()
	return nil
}

// tell makes the quantities of an answer, of so many servers.
func (p *predictor) tell(outcomes []*outcome, servers float64) map[string]catalog.Estimate {
	out, all, engines := map[string]catalog.Estimate{}, poolOutcomes(outcomes), servers*float64(p.traffic.ranks)
	for _, a := range answered {
		like := &quantities[quantityIndex(a.like)]
		e := estimateOne(all, outcomes, func(o *outcome) float64 {
			if a.of == nil {
				return like.of(o, engines, p.traffic.length.Seconds())
			}
			return a.of(o, engines)
		})
		e.Low, e.High = e.Low/like.off, e.High*like.off
		if a.name == "kv_cache_usage" {
			e.High = min(e.High, 1)
		}
		out[a.name] = e
	}
	return out
}
