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

// A Question asks what a change of a model's servers, or of their load, would do.
type Question struct {
	Model                    string        // as a diagnosis names it; "" if there is one model only
	Replicas                 int           // 0: the present number
	Arrivals, Prompt, Output float64       // factors of the present rate and lengths; 0 is 1
	Args                     engine.Config // flags with other values
}

// An Answer holds what users and servers of the model would see without and with the change. Its quantities have the
// names of docs/api.md.
type Answer struct {
	Target           string // the simulated server; the others count as equal to it
	Replicas         int    // the present number
	Engine           *perfmodel.Engine
	Known            engine.Config // the present settings
	Basis, Caveats   []string
	Present, Changed map[string]catalog.Estimate
}

// ErrNoPrediction is wrapped by errors that say why the present of the servers cannot be simulated.
var ErrNoPrediction = errors.New("no prediction")

// answered lists the quantities of an Answer.
var answered = []struct {
	name string
	like *indicator.Signal // the quantity that has the futureError and, if of is nil, the value
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

// Ask answers a question about the servers of a diagnosis. It simulates the server of the model's leading finding, as
// PredictFixes does, or the model's busiest server if nothing was found.
func Ask(ctx context.Context, q metrics.Querier, d *diagnose.Diagnosis, question Question) (*Answer, error) {
	v, err := findVerdict(d, question.Model)
	if err != nil {
		return nil, err
	}
	target, fixes := v.Workload.Target, []*catalog.Fix{}
	if f := d.LeadingFinding(v); f != nil && v.Status == diagnose.Firing {
		target, fixes = f.Targets[0], relevantFixes(f)
	}
	if target == "" && len(v.Targets) > 0 {
		target = v.Targets[0]
	}
	var out *Answer
	err = fmt.Errorf("%w: the servers are not judged yet", ErrNoPrediction)
	d.Predict(ctx, q, func(
		ctx context.Context, q metrics.Querier, r diagnose.Request, s *diagnose.Snapshot, d *diagnose.Diagnosis,
	) {
		p, cause := newPredictor(ctx, q, &r, s, target, fixes)
		if cause != nil {
			err = fmt.Errorf("%w: %w", ErrNoPrediction, cause)
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

// findVerdict returns the verdict on a model, or on any model if the name is "".
func findVerdict(d *diagnose.Diagnosis, model string) (*diagnose.Verdict, error) {
	var names []string
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		served := d.Labels(v.Model, v.Targets)["model_name"]
		if model == "" || model == v.Model || model == served || strings.HasSuffix(model, "/"+v.Model) {
			return v, nil
		}
		names = append(names, cmp.Or(served, v.Model))
	}
	return nil, fmt.Errorf("no server has the model %q: there are %s", model, strings.Join(names, ", "))
}

// fillAnswer simulates both sides of an answer.
func (p *predictor) fillAnswer(question *Question, answer *Answer) error {
	var f catalog.Fix
	for flag, to := range question.Args {
		f.Changes = append(f.Changes, catalog.Change{Flag: "--" + flag, To: to.Value})
	}
	slices.SortFunc(f.Changes, func(a, b catalog.Change) int { return strings.Compare(a.Flag, b.Flag) })
	if len(f.Changes) > 0 && !isRelevant(&f) {
		return hint.With(errors.New("one of these flags changes more than the scheduler, and only that is simulated"),
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
	answer.Basis = p.describeBasis()
	p.traffic = p.traffic.scaleLoad(cmp.Or(question.Arrivals, 1) * now / then)
	p.traffic.promptFactor, p.traffic.outputFactor = question.Prompt, question.Output
	outcomes, _, caveats, err := p.simulateFuture(after)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoPrediction, err)
	}
	answer.Caveats = caveats
	answer.Present, answer.Changed = p.estimateAnswer(unchanged, now), p.estimateAnswer(outcomes, then)
	return nil
}

// estimateAnswer returns the quantities of an answer for so many servers.
func (p *predictor) estimateAnswer(outcomes []*outcome, servers float64) map[string]catalog.Estimate {
	out, all, engines := map[string]catalog.Estimate{}, poolOutcomes(outcomes), servers*float64(p.traffic.ranks)
	for _, a := range answered {
		like := &quantities[quantityIndex(a.like)]
		e := estimateOne(all, outcomes, func(o *outcome) float64 {
			if a.of == nil {
				return like.of(o, engines, p.traffic.length.Seconds())
			}
			return a.of(o, engines)
		})
		e.Low, e.High = e.Low/like.futureError, e.High*like.futureError
		if a.name == "kv_cache_usage" {
			e.High = min(e.High, 1)
		}
		out[a.name] = e
	}
	return out
}
