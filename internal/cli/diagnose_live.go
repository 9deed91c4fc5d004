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
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/hint"
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
	// hopeless is how many scrapes of every target must fail before a run is given
	// up because nobody ever answered.
	hopeless = 3
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

	r := &liveRun{client: client, store: store, states: make([]liveState, len(targets)), targets: targets}
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
	if err := ctx.Err(); err != nil {
		return d, err
	}
	if err := r.unreachable(); err != nil {
		return d, err
	}
	r.learnFailed(ctx)
	notes(stderr, store.Warnings())
	if d, err = r.diagnose(ctx, o); err == nil {
		r.tellDown(&d)
	}
	return d, err
}

// liveRun is a live run as it goes on.
type liveRun struct {
	client  *scrape.Client
	store   *embedded.Store
	targets []live.Target

	mu     sync.Mutex
	states []liveState // by target
	err    error       // of the store
}

// liveState is what is known of one target.
type liveState struct {
	good, failed int
	last         error // of the last scrape, nil when it was good
	facts        scrape.Facts
	probed       string // what a client saw, "" when none was sent
}

// take stores a page.
func (r *liveRun) take(p live.Page) {
	t := embedded.Target{Instance: r.targets[p.Target].Instance}
	err, storeErr := p.Err, error(nil)
	if err == nil {
		_, err = r.store.Append(t, p.Body.At, p.Body.Raw, p.Body.ContentType, p.Body.Duration)
		if err != nil && !errors.Is(err, scrape.ErrNotExposition) {
			storeErr = err
		}
	} else {
		storeErr = r.store.AppendFailure(t, p.Body.At)
	}
	if errors.Is(err, scrape.ErrNotExposition) {
		err = hint.With(fmt.Errorf("scrape %s: %w", r.targets[p.Target].Name(), scrape.ErrNotExposition), "check that the address is a server's metrics page")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, storeErr)
	st := &r.states[p.Target]
	if st.last = err; err == nil {
		st.good++
	} else {
		st.failed++
	}
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

// learnFailed asks again those whose last scrape failed: whether they are down,
// or only their metrics, is not what it was at the start.
func (r *liveRun) learnFailed(ctx context.Context) {
	var wg sync.WaitGroup
	r.mu.Lock()
	for i := range r.states {
		if r.states[i].last != nil && r.states[i].good > 0 {
			wg.Go(func() { r.learn(ctx, i) })
		}
	}
	r.mu.Unlock()
	wg.Wait()
}

// count returns how many targets answered lately, how many ever, and whether
// there is no hope that any will.
func (r *liveRun) count() (answering, ever int, lost bool) {
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
		lost = lost && st.good == 0 && st.failed >= hopeless
	}
	return answering, ever, lost
}

// watch shows the progress, and ends the scraping as soon as the verdict is
// certain or nobody answers.
func (r *liveRun) watch(ctx context.Context, stop func(), stderr io.Writer, f *diagnoseFlags, o diagnose.Options) {
	began := time.Now()
	line := newProgress(stderr)
	defer line.clear()
	tick := time.NewTicker(evaluateEvery)
	defer tick.Stop()
	before, same := "", 0
	o.Predict = nil // only once, for the final verdict
	for {
		answering, _, lost := r.count()
		line.show("scraping: %.0f s of %.0f s, answering: %d of %d", time.Since(began).Seconds(), f.duration.Seconds(), answering, len(r.targets))
		if lost {
			stop()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if time.Since(began) < soonest-evaluateEvery/2 {
			continue
		}
		d, err := r.diagnose(ctx, o)
		if err != nil || d.Verdict.Confidence < sure {
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
	return diagnose.Run(ctx, r.store, o)
}

// unreachable is the error of a run in which nobody ever answered with metrics.
func (r *liveRun) unreachable() error {
	_, ever, _ := r.count()
	r.mu.Lock()
	defer r.mu.Unlock()
	if ever > 0 || r.err != nil {
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

// tellDown corrects the words of a target-down finding where the servers
// answer, and only their metrics pages fail.
func (r *liveRun) tellDown(d *diagnose.Diagnosis) {
	if d.Verdict.ID != targetdown.Pathology.ID || len(d.Findings) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.targets {
		if slices.Contains(d.Verdict.Targets, r.targets[i].Instance) && r.states[i].facts.Health != 200 {
			return
		}
	}
	d.Verdict.Summary = "The metrics page fails while /health answers 200: the server is up, and cannot be judged"
	d.Findings[0].Summary, d.Verdicts[0].Summary = d.Verdict.Summary, d.Verdict.Summary
}

// annotate adds what the servers say beside their metrics.
func (r *liveRun) annotate(ts []diagnose.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range ts {
		t := &ts[i]
		k := r.index(t.Labels["instance"])
		if k < 0 || t.IsGPU() {
			continue
		}
		st := &r.states[k]
		if st.good == 0 && st.facts.Health == 200 && st.last != nil {
			t.Problem = "its metrics page fails while /health answers 200: " + st.last.Error()
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
