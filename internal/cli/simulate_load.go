package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/perfmodel"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/report/simreport"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/workload"
)

// defaultDuration of made-up traffic.
const simulatedDuration = 10 * time.Minute

// point prepares one simulation: its configuration and its requests.
func (s *simulation) point(ctx context.Context, set map[string]string) (*point, error) {
	f, err := s.f.apply(set)
	if err != nil {
		return nil, err
	}
	p := &point{set: set, known: s.known(set)}
	if p.engine, err = perfmodel.Config(s.release, p.known, s.device); err != nil {
		return nil, err
	}
	if p.known[engine.NumBlocks].Source == s.ledger[engine.NumBlocks].Source && s.ledger != nil && p.known[engine.NumBlocksOverride].Value == "" {
		p.engine.Assumed = append(p.engine.Assumed, s.ledgerSays)
	}
	p.deployment = perfmodel.Deployment{Config: p.engine.Config, Replicas: f.replicas, Route: perfmodel.Route(f.route)}
	if f.replicas == 0 && s.seen != nil {
		p.deployment.Replicas = len(s.seen.Engines)
	}
	if f.replicas < 0 {
		return nil, fmt.Errorf("--replicas %d: want 1 or more", f.replicas)
	}
	if p.deployment.Replicas > 1 && !s.f.routed && set["route"] == "" {
		s.spread(p)
	}
	if err := p.deployment.Validate(); err != nil {
		return nil, err
	}
	return p, s.draw(ctx, p, f)
}

// spread decides how requests come to several replicas where nobody says: as the
// servers were seen to get them, which is known of no other number of them.
func (s *simulation) spread(p *point) {
	d := &p.deployment
	if s.seen != nil && len(s.seen.Engines) == d.Replicas {
		if shares := s.seen.Shares(); shares != nil {
			d.Route, d.Shares = perfmodel.AsObserved, shares
			var parts []string
			for _, share := range shares[:min(len(shares), 8)] {
				parts = append(parts, fmt.Sprintf("%.0f %%", 100*share))
			}
			if len(shares) > 8 {
				parts = append(parts, "…")
			}
			p.engine.Assumed = append(p.engine.Assumed, "requests spread over the replicas as was observed: "+strings.Join(parts, ", "))
			return
		}
	}
	p.engine.Assumed = append(p.engine.Assumed, "requests spread over the replicas "+string(d.Route)+": no metric tells")
}

// draw makes a point's requests. Points that differ in the engine alone share them.
func (s *simulation) draw(ctx context.Context, p *point, f *simulateFlags) error {
	size := p.engine.Config.BlockSize
	key := fmt.Sprintf("%+v %d", f.load, size)
	var loop workload.Loop
	if loop, p.until = s.loop(&f.load); loop.Clients > 0 {
		p.clients = loop.Clients
	}
	source, text, notes, err := "", "", []string(nil), error(nil)
	var requests []sim.Request
	if f.load.trace != "" {
		source, text = "trace", s.traceText(&f.load)
		notes = s.traceNotes()
	} else if source, text, notes, err = s.madeText(&f.load); err != nil {
		return err
	}
	if known, ok := s.drawn[key]; ok {
		requests = known
	} else {
		if f.load.trace != "" {
			requests, err = s.replay(ctx, &f.load, size)
		} else if p.clients > 0 {
			requests, err = s.looped(ctx, &f.load, loop, p.until, size)
		} else {
			requests, err = s.made(ctx, &f.load, size)
		}
		if err != nil {
			return err
		}
		if len(requests) == 0 {
			return hint.With(fmt.Errorf("the workload has no requests"), "give a longer --duration, or a higher --rate")
		}
		if s.drawn == nil {
			s.drawn = map[string][]sim.Request{}
		}
		s.drawn[key] = requests
	}
	p.requests = requests
	limits, err := s.fits(p)
	if err != nil {
		return err
	}
	p.workload = simreport.WorkloadOf(source, text, f.load.seed, p.requests, size, slices.Concat(notes, limits))
	return nil
}

// sourceUntil is a source that has no more when a context ends.
type sourceUntil struct {
	ctx context.Context
	workload.Source
}

func (s sourceUntil) Next(to *workload.Session) bool {
	return s.ctx.Err() == nil && s.Source.Next(to)
}

// readTrace reads --trace.
func readTrace(path, format string) (*workload.Trace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open --trace: %w", err)
	}
	defer file.Close()
	t, err := workload.Read(file, workload.Options{Format: workload.Format(format)})
	if err != nil {
		return nil, err
	}
	if t.Format == workload.ShareGPT {
		return nil, hint.With(fmt.Errorf("--trace %s: conversations without arrival times", path), "give a trace with times, or --rate with --prompt-tokens and --output-tokens")
	}
	return t, nil
}

// replay takes the requests of the trace.
func (s *simulation) replay(ctx context.Context, l *simulateLoad, blockSize int) ([]sim.Request, error) {
	t := s.trace
	if l.traceFrom > 0 || l.traceFor > 0 {
		if t = t.Cut(l.traceFrom, l.traceFor); len(t.Requests) == 0 {
			return nil, fmt.Errorf("no request of the trace lies in that part: it is %s long", s.trace.Duration().Round(time.Second))
		}
	}
	source, err := workload.NewReplay(t, l.speed, workload.UsualOutput)
	if err != nil {
		return nil, err
	}
	return planning.Draw(sourceUntil{ctx, source}, nil, blockSize, l.requests, l.duration)
}

func (s *simulation) traceText(l *simulateLoad) string {
	text := "trace " + l.trace
	if l.speed != 1 {
		text += fmt.Sprintf(" at %g times its speed", l.speed)
	}
	return text
}

// longGap is a pause in a trace that is worth telling: nothing arrives for so
// many times the mean time between requests.
const longGap = 1000

// traceNotes tell what of a trace is not simulated, and what is odd about it.
func (s *simulation) traceNotes() []string {
	t := s.trace
	var out []string
	for _, reason := range slices.Sorted(maps.Keys(t.Skipped)) {
		out = append(out, fmt.Sprintf("left out of the trace: %d × %s", t.Skipped[reason], reason))
	}
	if t.Truncated {
		out = append(out, fmt.Sprintf("the trace goes on after %d requests; the rest is left out", len(t.Requests)))
	}
	untold, gaps, longest := 0, 0, time.Duration(0)
	mean := t.Duration() / time.Duration(max(len(t.Requests)-1, 1))
	for i, r := range t.Requests {
		if r.OutputTokens == 0 {
			untold++
		}
		if i == 0 {
			continue
		}
		if gap := r.Arrival - t.Requests[i-1].Arrival; gap > longGap*mean && gap > time.Minute {
			gaps, longest = gaps+1, max(longest, gap)
		}
	}
	if untold > 0 {
		out = append(out, fmt.Sprintf("%d requests of the trace tell no output length; they get %d tokens", untold, workload.UsualOutput))
	}
	if gaps > 0 {
		out = append(out, fmt.Sprintf("gaps in the trace: %d without a request, the longest of %s; they are replayed as they are", gaps, longest.Round(time.Second)))
	}
	return out
}

// spec is the lengths and prefixes of made-up requests: what the flags say, else
// what was measured.
func (s *simulation) spec(l *simulateLoad) (spec workload.Spec, measured []string, err error) {
	if s.seen != nil && (l.prompt == "" || l.output == "") {
		if spec, err = s.seen.Workload.Spec(); err != nil {
			return spec, nil, err
		}
		if spec.PrefixShare > 0 {
			measured = append(measured, "prefix reuse")
		}
	}
	for _, x := range []struct {
		name, text, otherwise string
		to                    *workload.Lengths
	}{{"prompt", l.prompt, "512", &spec.Prompt}, {"output", l.output, "128", &spec.Output}} {
		switch {
		case x.text != "" || !x.to.Valid():
			if *x.to, err = workload.ParseLengths(cmp.Or(x.text, x.otherwise)); err != nil {
				return spec, nil, fmt.Errorf("--%s-tokens: %w", x.name, err)
			}
		default:
			measured = append(measured, x.name+" lengths")
		}
	}
	spec.SystemTokens, spec.PrefixGroups = l.systemTokens, l.prefixGroups
	if l.shared || l.prefixShare > 0 {
		spec.PrefixShare = l.prefixShare
	}
	return spec, measured, spec.Validate()
}

// arrivals are when made-up requests come.
func (s *simulation) arrivals(l *simulateLoad) (a workload.Arrivals, measured bool, err error) {
	switch {
	case l.rate != "":
		a, err = workload.ParseArrivals(l.rate, l.cv)
	case s.seen != nil:
		if a, err = s.seen.Workload.Arrivals(); err == nil {
			measured = true
			if l.bursty {
				a.CV = l.cv
			}
		}
	default:
		return a, false, hint.With(fmt.Errorf("there is no workload"), "give --rate or --trace, or a server or recording to measure it on")
	}
	if err != nil {
		return a, false, err
	}
	a = a.Scale(l.rateScale)
	return a, measured, a.Validate()
}

// loop is the clients that wait for an answer before they ask again, those of the
// flags or those that were seen, and until when they ask; no clients where requests
// come whatever happens.
func (s *simulation) loop(l *simulateLoad) (loop workload.Loop, until time.Duration) {
	until = l.duration
	switch {
	case l.trace != "" || l.rate != "":
		return loop, until
	case l.concurrency > 0:
		loop = workload.Loop{Clients: l.concurrency, Pause: l.think}
	case s.seen != nil && !l.looped && !l.bursty:
		loop = s.seen.Workload.Loop
	}
	if loop.Clients > 0 {
		loop.Clients = max(int(math.Round(float64(loop.Clients)*l.rateScale)), 1)
		if until == 0 && l.requests == 0 {
			if until = simulatedDuration; s.seen != nil {
				until = s.seen.To.Sub(s.seen.Fleet.From)
			}
		}
	}
	return loop, until
}

// looped draws requests for clients in a loop: more than they can send, for every
// token takes a step.
func (s *simulation) looped(ctx context.Context, l *simulateLoad, loop workload.Loop, until time.Duration, blockSize int) ([]sim.Request, error) {
	spec, _, err := s.spec(l)
	if err != nil {
		return nil, err
	}
	source, err := workload.NewGenerator(spec, l.seed)
	if err != nil {
		return nil, err
	}
	n := l.requests
	var within time.Duration
	if l.concurrency == 0 {
		// They were seen in the midst of it: their requests are spread over the time
		// that one takes. The API server's time is a part of the pause that was seen.
		if came := s.seen.Summary().FirstTokens; came > 0 {
			within = time.Duration(float64(s.seen.To.Sub(s.seen.Fleet.From)) * float64(s.seen.Workload.Loop.Clients) / came)
		}
		loop.Pause = max(loop.Pause-s.calibration.Fit.Frontend.Delay(int(spec.Prompt.Mean())), 0)
	}
	if n == 0 {
		one := max(spec.Output.Mean(), 1)*max(s.calibration.Fit.Low.Base/2, s.calibration.Fit.Cost.Base/10) + loop.Pause.Seconds()
		n = int(min(float64(loop.Clients)*(until.Seconds()/max(one, 1e-6)+2), planning.MaxRequests))
	}
	return planning.DrawLoop(sourceUntil{ctx, source}, blockSize, n, loop.Clients, within, loop.Pause)
}

// loopText describes clients in a loop, as madeText does requests.
func (s *simulation) loopText(l *simulateLoad, loop workload.Loop) (source, text string, notes []string, err error) {
	spec, lengths, err := s.spec(l)
	if err != nil {
		return "", "", nil, err
	}
	source = "closed-loop"
	text = fmt.Sprintf("%d clients that each ask again", loop.Clients)
	if loop.Pause > 0 {
		text += " " + loop.Pause.Round(time.Millisecond).String() + " after an answer"
	} else {
		text += " when they have their answer"
	}
	if l.concurrency == 0 {
		text += fmt.Sprintf(": the number of requests in flight on %s hardly moved", s.seen.From)
		notes = append(notes, "the load is taken for a closed loop, because the number of requests in flight stayed the same while requests came and went; more users would then be --concurrency, and --concurrency 0 simulates the same arrivals as if nobody waited",
			"metrics show how long prompts and answers are, not which go together: they are drawn independently of each other")
		if len(lengths) > 1 && l.rateScale == 1 {
			source = "measured"
		}
	}
	if source != "measured" {
		text += fmt.Sprintf("; prompts %s, outputs %s", spec.Prompt, spec.Output)
	}
	return source, text, notes, nil
}

// madeText describes made-up requests: their source, a line, and notes.
func (s *simulation) madeText(l *simulateLoad) (source, text string, notes []string, err error) {
	if loop, _ := s.loop(l); loop.Clients > 0 {
		return s.loopText(l, loop)
	}
	a, measured, err := s.arrivals(l)
	if err != nil {
		return "", "", nil, err
	}
	spec, lengths, err := s.spec(l)
	if err != nil {
		return "", "", nil, err
	}
	source = map[bool]string{true: "bursts", false: "poisson"}[a.CV != 1]
	if a.CV < 1 {
		source = "constant"
	}
	text = fmt.Sprintf("%s requests/s, %s", cmp.Or(l.rate, "?"), regularity(a.CV))
	if measured {
		text = fmt.Sprintf("the arrivals of %s, %s", s.seen.From, regularity(a.CV))
		if len(lengths) > 1 {
			source, text = "measured", fmt.Sprintf("measured on %s (%.0f requests in %s), %s", s.seen.From, s.seen.Workload.Requests(), s.seen.To.Sub(s.seen.Fleet.From).Round(time.Second), regularity(a.CV))
		}
		notes = append(notes, "metrics show how long prompts and answers are, not which go together: they are drawn independently of each other. Nothing shows clients that wait for an answer before asking again: above its capacity the simulated queue grows where their patience would bound it")
	}
	if l.rateScale != 1 {
		text += fmt.Sprintf(", times %g", l.rateScale)
	}
	if source != "measured" {
		text += fmt.Sprintf("; prompts %s, outputs %s", spec.Prompt, spec.Output)
	}
	return source, text, notes, nil
}

func regularity(cv float64) string {
	switch {
	case cv == 0:
		return "evenly spaced"
	case cv == 1:
		return "Poisson"
	case cv < 1:
		return fmt.Sprintf("more even than Poisson (variation %.3g)", cv)
	}
	return fmt.Sprintf("bursty (variation %.3g)", cv)
}

// made draws made-up requests.
func (s *simulation) made(ctx context.Context, l *simulateLoad, blockSize int) ([]sim.Request, error) {
	a, measured, err := s.arrivals(l)
	if err != nil {
		return nil, err
	}
	spec, _, err := s.spec(l)
	if err != nil {
		return nil, err
	}
	until := l.duration
	switch {
	case until == 0 && l.requests == 0 && measured:
		until = s.seen.To.Sub(s.seen.Fleet.From)
	case until == 0 && l.requests == 0:
		until = simulatedDuration
	}
	if measured {
		long := until
		if long == 0 {
			long = time.Duration(float64(l.requests)/max(a.Rate(0), 1e-3)*2e9) + time.Hour
		}
		a = a.Repeat(long)
	}
	pacer, err := a.Pacer(l.seed)
	if measured && until > 0 {
		pacer, err = a.Exactly(until, l.seed)
	}
	if err != nil {
		return nil, err
	}
	source, err := workload.NewGenerator(spec, l.seed)
	if err != nil {
		return nil, err
	}
	return planning.Draw(sourceUntil{ctx, source}, pacer, blockSize, l.requests, until)
}

// fits refuses, or leaves out, requests that can never be served, and says so.
func (s *simulation) fits(p *point) (notes []string, err error) {
	cfg := p.deployment.Config
	for _, t := range planning.Fit(cfg, p.requests) {
		what := fmt.Sprintf("%d of %d requests %s; the largest has %d prompt and %d output tokens", t.Count, len(p.requests), t.Why, t.Prompt, t.Output)
		switch {
		case t.Refused:
			notes = append(notes, what+": the server refuses them")
			continue
		case !s.f.dropTooLarge:
			return nil, hint.With(fmt.Errorf("%s: it would need %d blocks of %d tokens, and there are %d", what, t.Blocks, cfg.BlockSize, cfg.NumBlocks),
				"shorten them, give the cache more memory, or leave them out with --drop-too-large")
		}
		notes = append(notes, what+": left out")
		p.requests = slices.DeleteFunc(slices.Clone(p.requests), func(r sim.Request) bool {
			return r.PromptTokens < cfg.MaxModelLen && !cfg.Fits(r.PromptTokens, r.OutputTokens)
		})
		if len(p.requests) == 0 {
			return nil, fmt.Errorf("no request fits into the KV cache")
		}
	}
	return notes, nil
}
