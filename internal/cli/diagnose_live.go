package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/live"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
	"github.com/sixty-dev/sixty/internal/pathologies/targetdown"
)

// When a live run may end before its duration: not before it has seen enough
// for rates, and when this many verdicts in a row, a second apart, agree and are
// sure of themselves.
const (
	soonest       = 10 * time.Second
	agreeing      = 3
	sure          = 0.9
	evaluateEvery = time.Second
	// hopeless is how many scrapes of every target must fail before a run ends
	// because nobody ever answered; of slow failures, as many as fit into soonest but
	// at least two.
	hopeless = 3
	// remembered is for how long a fault that was seen outlasts moments in which it
	// is not.
	remembered = 10 * time.Second
)

// diagnoseLive scrapes the servers for some seconds and judges what it saw.
func diagnoseLive(ctx context.Context, stderr io.Writer, addresses []string, f *diagnoseFlags, o diagnose.Options) (d diagnose.Diagnosis, err error) {
	targets, err := live.Targets(addresses)
	if err != nil {
		return d, err
	}
	http, err := f.http.config()
	if err != nil {
		return d, err
	}
	client, err := scrape.New(scrape.Config{HTTP: http})
	if err != nil {
		return d, err
	}
	defer client.Close()
	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()

	usual, err := dialect.Named("vllm-v1")
	if err != nil {
		return d, err
	}
	r := &liveRun{usual: usual, client: client, store: store, states: make([]liveState, len(targets)), targets: targets, interval: f.interval}
	annotate := o.Annotate
	o.Annotate = func(ts []diagnose.Target) {
		r.annotate(ts)
		annotate(ts)
	}
	o.Interval, o.Every = f.interval, true

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	scrapes, stop := context.WithTimeout(ctx, f.duration)
	defer stop()
	began := time.Now()
	var facts sync.WaitGroup
	for i := range targets {
		facts.Go(func() {
			r.learn(ctx, i)
			if f.probe {
				r.probe(scrapes, i, http)
			}
		})
	}
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(scrapes, stop, stderr, f, o) })
	live.Run(scrapes, client, targets, f.interval, r.take)
	stop()
	watch.Wait()
	facts.Wait()
	seen := time.Since(began)
	interrupted := ctx.Err() != nil
	if interrupted {
		if _, ever, _ := r.count(0); ever == 0 {
			return d, context.Cause(ctx)
		}
		o.Predict = nil
		var done func()
		ctx, done = lastWords(ctx)
		defer done()
	}
	if err := r.unreachable(); err != nil {
		return d, err
	}
	if !interrupted {
		r.learnFailed(ctx)
	}
	d, err = r.diagnose(ctx, o)
	if more := needs(&d); err == nil && more > 0 && f.longer && !interrupted {
		// A verdict is there; a prediction of its fixes needs to see more.
		fmt.Fprintf(stderr, "scraping for %s more, to predict what the fixes would do\n", more)
		longer, stop := context.WithTimeout(ctx, more)
		live.Run(longer, client, targets, f.interval, r.take)
		stop()
		if err := ctx.Err(); err != nil {
			return d, err
		}
		d, err = r.diagnose(ctx, o)
	}
	notes(stderr, store.Warnings())
	if err == nil {
		r.recall(&d)
		r.tellDown(&d)
	}
	if err == nil && interrupted {
		d.Notes = slices.Insert(d.Notes, 0, fmt.Sprintf("interrupted: this is what %.0f s of %s show", seen.Seconds(), f.duration))
	}
	return d, err
}

// needs is for how much longer a run must go on for the fixes of its verdict to be
// predicted, 0 where they are or never will be.
func needs(d *diagnose.Diagnosis) time.Duration {
	most := time.Duration(0)
	if d.Status == diagnose.Firing && len(d.Findings) > 0 {
		for i := range d.Findings[0].Fixes {
			if p := d.Findings[0].Fixes[i].Predicted; p != nil {
				most = max(most, p.Needs)
			}
		}
	}
	return most
}

// liveRun is a live run as it goes on.
type liveRun struct {
	client   *scrape.Client
	store    *embedded.Store
	targets  []live.Target
	interval time.Duration
	usual    dialect.Dialect // what a server is taken for that never answered
	fault    sighting        // the latest; of watch, until it ended

	mu     sync.Mutex
	states []liveState // by target
	err    error       // of the store
}

// sighting is a fault that interim diagnoses agreed upon.
type sighting struct {
	first diagnose.Diagnosis // the first that named it
	last  diagnose.Diagnosis
	times int // that it was named
}

// liveState is what is known of one target.
type liveState struct {
	good, failed int
	last         error  // of the last scrape, nil when it was good
	outage       string // in what way it is away, by the last scrape; "" where that does not say so
	away         gap    // the scrapes that fail now
	gaps         []gap  // those that ended
	facts        scrape.Facts
	probed       string // what a client saw, "" when none was sent
}

// gap is a time without a page.
type gap struct {
	from, to time.Time // to is that of the next page
	failed   int       // scrapes
	why      string
}

// take stores a page.
func (r *liveRun) take(p live.Page) {
	t := embedded.Target{Instance: r.targets[p.Target].Instance}
	err, storeErr := p.Err, error(nil)
	if err == nil {
		_, err = r.store.Append(t, p.Body.At, p.Body.Raw, p.Body.ContentType, p.Body.Duration)
		if err != nil && !embedded.IsPageFault(err) {
			storeErr = err
		}
	} else {
		// A scrape that failed late has failed at every time that it kept from being asked.
		for late := time.Duration(0); late <= p.Body.Duration; late += r.interval {
			storeErr = errors.Join(storeErr, r.store.AppendFailure(t, p.Body.At.Add(late)))
		}
	}
	if errors.Is(err, scrape.ErrNotExposition) {
		err = hint.With(fmt.Errorf("scrape %s: %w", r.targets[p.Target].Name(), scrape.ErrNotExposition), "check that the address is a server's metrics page")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, storeErr)
	st := &r.states[p.Target]
	st.last, st.outage = err, scrape.Outage(p.Body, err)
	if err == nil {
		st.good++
		if st.away.failed > 0 {
			st.away.to = p.Body.At
			st.gaps = append(st.gaps, st.away)
			st.away = gap{}
		}
		return
	}
	st.failed++
	if st.away.failed++; st.away.failed == 1 {
		st.away.from = p.Body.At
	}
	st.away.why = err.Error()
}

// learn asks a server for what it says beside its metrics.
func (r *liveRun) learn(ctx context.Context, i int) {
	facts := r.client.Facts(ctx, r.targets[i].URL)
	r.mu.Lock()
	defer r.mu.Unlock()
	if facts.Version == "" {
		facts.Version = r.states[i].facts.Version
	}
	if len(facts.Models) == 0 {
		facts.Models = r.states[i].facts.Models
	}
	r.states[i].facts = facts
}

// learnFailed asks again those whose last scrape failed, and those that did not answer
// at the start and do now: whether they are down, or only their metrics, is not what
// it was at the start.
func (r *liveRun) learnFailed(ctx context.Context) {
	var wg sync.WaitGroup
	r.mu.Lock()
	for i := range r.states {
		if st := &r.states[i]; st.good > 0 && (st.last != nil || st.facts.HealthErr != nil) {
			wg.Go(func() { r.learn(ctx, i) })
		}
	}
	r.mu.Unlock()
	wg.Wait()
}

// count returns how many targets answered lately, how many ever, and whether
// there is no hope that any will in a run that has gone on for so long.
func (r *liveRun) count(ran time.Duration) (answering, ever int, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost = true
	for _, st := range r.states {
		if st.good > 0 {
			ever++
			if st.last == nil {
				answering++
			}
		}
		lost = lost && st.good == 0 && (st.failed >= hopeless || st.failed > 1 && ran >= soonest)
	}
	return answering, ever, lost
}

// watch shows the progress and what is found so far, and ends the scraping as soon
// as the verdict is certain or nobody answers.
func (r *liveRun) watch(ctx context.Context, stop func(), stderr io.Writer, f *diagnoseFlags, o diagnose.Options) {
	began := time.Now()
	line := newProgress(stderr)
	defer line.clear()
	tick := time.NewTicker(evaluateEvery)
	defer tick.Stop()
	before, same, found := "", 0, ""
	o.Predict = nil // only once, for the final verdict
	for {
		answering, _, lost := r.count(time.Since(began))
		line.show("scraping: %.0f s of %.0f s, answering: %d of %d%s", time.Since(began).Seconds(), f.duration.Seconds(), answering, len(r.targets), found)
		if lost {
			stop()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		early := time.Since(began) < soonest-evaluateEvery/2
		if early && !line.on {
			continue
		}
		d, err := r.diagnose(ctx, o)
		if err != nil {
			before, same = "", 0
			continue
		}
		found = ", so far: " + d.Verdict.ID
		r.fault.see(&d)
		if early || d.Verdict.Confidence < sure || d.Status != diagnose.Firing && r.fault.times > 0 {
			before, same = "", 0
			continue
		}
		if d.Verdict.ID != before {
			before, same = d.Verdict.ID, 0
		}
		if same++; same >= agreeing {
			stop()
			return
		}
	}
}

// see takes note of an interim diagnosis. A quiet one leaves what was seen before:
// under a fault that goes on some moments look healthy.
func (s *sighting) see(d *diagnose.Diagnosis) {
	switch {
	case d.Status != diagnose.Firing:
	case s.times > 0 && s.last.Verdict.ID == d.Verdict.ID:
		s.last = *d
		s.times++
	case s.times < agreeing || d.Verdict.Confidence >= s.last.Verdict.Confidence:
		*s = sighting{first: *d, last: *d, times: 1}
	}
}

// recall puts the fault that interim diagnoses agreed upon in the place of a quiet
// last one, if that is a moment ago, and mentions it otherwise. What fires at the end
// leads in any case.
func (r *liveRun) recall(d *diagnose.Diagnosis) {
	s := &r.fault
	if d.Status == diagnose.Firing || s.times < agreeing {
		return
	}
	clock := func(d *diagnose.Diagnosis) string { return d.At.UTC().Format("15:04:05Z") }
	if ago := d.At.Sub(s.last.At); ago < remembered {
		now := d.Verdict.ID
		*d = s.last
		d.Notes = append(slices.Clip(d.Notes), fmt.Sprintf("found from %s to %s; in the last %.0f s the verdict was %s, which is too short to call it over", clock(&s.first), clock(&s.last), ago.Seconds(), now))
		return
	}
	d.Notes = append(d.Notes, fmt.Sprintf("%s was found from %s to %s, and not any more: %s", s.last.Verdict.ID, clock(&s.first), clock(&s.last), s.last.Verdict.Summary))
}

// diagnose judges what was scraped so far.
func (r *liveRun) diagnose(ctx context.Context, o diagnose.Options) (diagnose.Diagnosis, error) {
	r.mu.Lock()
	err := r.err
	r.mu.Unlock()
	if err != nil {
		return diagnose.Diagnosis{}, err
	}
	first, last, ok := r.store.Times()
	if !ok {
		return diagnose.Diagnosis{}, hint.With(errors.New("not one scrape ended in time"), "allow a longer --duration")
	}
	o.First, o.At, o.Created = first, last, firstCreated(r.store)
	return judge(ctx, r.store, o)
}

// unreachable is the error of a run in which nobody ever answered with metrics, and
// nobody who is away: that is a verdict.
func (r *liveRun) unreachable() error {
	_, ever, _ := r.count(0)
	r.mu.Lock()
	defer r.mu.Unlock()
	if ever > 0 || r.err != nil || slices.ContainsFunc(r.states, func(st liveState) bool { return st.isAway() }) {
		return r.err
	}
	for _, st := range r.states {
		if st.last == nil {
			continue
		}
		err := st.last
		if st.facts.Health == 200 {
			err = hint.With(fmt.Errorf("%w; but /health answers 200: the server is up, and its metrics page fails", err), firstHint(err, "look at the server's log"))
		}
		if len(r.states) > 1 {
			err = fmt.Errorf("none of %d servers answers; the first: %w", len(r.states), err)
		}
		return err
	}
	return hint.With(errors.New("not one scrape ended in time"), "allow a longer --duration")
}

// isAway reports whether a server does not answer, rather than only its metrics
// page, or a question that is wrong.
func (st *liveState) isAway() bool { return st.outage != "" && st.facts.Health != 200 }

// tellDown says of a target-down finding what was tried, and whether only the metrics
// pages fail.
func (r *liveRun) tellDown(d *diagnose.Diagnosis) {
	if d.Verdict.ID != targetdown.Pathology.ID || len(d.Findings) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var tried, why []string
	alive := true
	for i := range r.targets {
		st := &r.states[i]
		if !slices.Contains(d.Verdict.Targets, r.targets[i].Instance) || st.last == nil {
			continue
		}
		alive = alive && st.facts.Health == 200
		health := fmt.Sprintf("/health answers %d", st.facts.Health)
		if st.facts.Health == 0 {
			health = "/health does not answer either"
		}
		tried = append(tried, fmt.Sprintf("%s: the last %d of %d scrapes failed (%v); %s.", r.targets[i].Name(), st.away.failed, st.good+st.failed, st.last, health))
		if st.outage != "" && !slices.Contains(why, st.outage) {
			why = append(why, st.outage)
		}
	}
	if len(tried) == 0 {
		return
	}
	f := &d.Findings[0]
	switch {
	case alive:
		f.Summary = "The metrics page fails while /health answers 200: the server is up, and cannot be judged"
	case len(tried) == 1 && len(why) == 1:
		f.Summary = "The server does not answer: " + why[0]
	case len(tried) > 1 && len(why) == 1:
		f.Summary = fmt.Sprintf("%d servers do not answer: %s", len(tried), why[0])
	}
	d.Verdict.Summary, d.Verdicts[0].Summary = f.Summary, f.Summary
	f.Reasons = append(tried, f.Reasons...)
}

// annotate adds what the servers say beside their metrics. A server that never
// answered anything is taken for one of the kind that its neighbours are, or for the
// usual one: the user named it, and so it is a target that is down.
func (r *liveRun) annotate(ts []diagnose.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kind := diagnose.Target{Dialect: r.usual}
	if k := slices.IndexFunc(ts, func(t diagnose.Target) bool { return t.Problem == "" && !t.IsGPU() }); k >= 0 {
		kind = ts[k]
	}
	for i := range ts {
		t := &ts[i]
		k := r.index(t.Labels["instance"])
		if k < 0 || t.IsGPU() {
			continue
		}
		st := &r.states[k]
		switch {
		case st.good > 0 || t.Problem == "":
		case st.facts.Health == 200 && st.last != nil:
			t.Problem = "its metrics page fails while /health answers 200: " + st.last.Error()
		case st.isAway():
			t.Problem, t.Dialect, t.Config = "", kind.Dialect, engine.Config{}
		case st.last != nil:
			t.Problem = "it cannot be asked: " + st.last.Error()
		}
		st.tell(t)
	}
}

func (r *liveRun) index(instance string) int {
	return slices.IndexFunc(r.targets, func(t live.Target) bool { return t.Instance == instance })
}

// tell adds the facts to a target.
func (st *liveState) tell(t *diagnose.Target) {
	f := &st.facts
	if f.Version != "" {
		t.Version = f.Version
	}
	for _, m := range f.Models {
		if m.MaxModelLen > 0 && (m.ID == t.Labels["model_name"] || len(f.Models) == 1) {
			if t.Config == nil {
				t.Config = engine.Config{}
			}
			t.Config.Set(engine.MaxModelLen, fmt.Sprint(m.MaxModelLen), "/v1/models")
		}
	}
	if st.probed != "" {
		t.Notes = append(t.Notes, st.probed)
	}
	for _, g := range st.gaps {
		if g.failed > 1 || g.to.Sub(g.from) > time.Second {
			t.Notes = append(t.Notes, fmt.Sprintf("its scrapes failed for %s, until %s (%s); it answers again",
				indicator.FormatNumber(g.to.Sub(g.from).Seconds(), indicator.Seconds), g.to.UTC().Format("15:04:05Z"), g.why))
		}
	}
	if st.last != nil && t.Problem == "" {
		t.Notes = append(t.Notes, "the last scrape failed: "+st.last.Error())
	}
	switch {
	case f.Health == 200 && st.last != nil && t.Problem == "":
		t.Notes = append(t.Notes, "/metrics fails while /health answers 200: the server is up, and its metrics page fails")
	case f.Health == 404 || f.Health == 200:
		// An exporter, or another server without /health; or all is well.
	case f.Health > 0:
		t.Notes = append(t.Notes, fmt.Sprintf("/health answers %d", f.Health))
	case f.HealthErr != nil:
		t.Notes = append(t.Notes, "/health does not answer: "+f.HealthErr.Error())
	}
}
