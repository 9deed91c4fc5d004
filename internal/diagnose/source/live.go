package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// A Live scrapes a set of servers, and holds what they say about themselves beside their metrics. It is safe for
// concurrent use.
type Live struct {
	*Scraper
	store *embedded.Store

	mu     sync.Mutex
	states []liveState // by target
	err    error       // error of the store
}

func newLive(s *Scraper, store *embedded.Store) *Live {
	return &Live{Scraper: s, store: store, states: make([]liveState, len(s.Targets))}
}

// Run scrapes every server immediately and then at every interval, until ctx is done, and stores the pages. If
// Spec.Host is set it also stores this machine's readings. It may be called again.
func (r *Live) Run(ctx context.Context) {
	r.scrapeWithHost(ctx, r.addHostPage, func(ctx context.Context) { r.Scraper.Run(ctx, r.addScrape) })
}

// addHostPage stores a page of this machine.
func (r *Live) addHostPage(p hostmetrics.Page) {
	_, err := r.store.Append(embedded.Target{Instance: p.Instance()}, p.At, p.Body, "", p.Took)
	if err != nil && !embedded.IsPageFault(err) { // more devices than a page may have are no reason to judge nothing
		r.mu.Lock()
		defer r.mu.Unlock()
		r.err = errors.Join(r.err, fmt.Errorf("this machine's page: %w", err))
	}
}

// ScrapeOnce fetches one page of every server and stores it.
func (r *Live) ScrapeOnce(ctx context.Context) {
	for _, p := range r.FetchAll(ctx) {
		r.addScrape(p)
	}
}

// liveState is the state of one target.
type liveState struct {
	good, failed int
	last         error  // error of the last scrape, nil if it succeeded
	outage       string // how it fails to answer, by the last scrape; "" if that does not show an outage
	away         gap    // the scrapes that fail now
	gaps         []gap  // gaps that ended
	seen         bool   // its first page was checked
	beside       bool   // it is no server, but a GPU exporter or a gateway
	facts        scrape.Facts
}

// gap is a time without a page.
type gap struct {
	from, to time.Time // to is the time of the next page
	failed   int       // scrapes
	why      string
}

// addScrape stores a page.
func (r *Live) addScrape(p Scrape) {
	t := embedded.Target{Instance: r.Targets[p.Target].Instance}
	err, storeErr := p.Err, error(nil)
	beside, seen := r.checkFirstPage(&p, &err)
	switch {
	case err == nil:
		_, err = r.store.Append(t, p.Body.At, p.Body.Raw, p.Body.ContentType, p.Body.Duration)
		if err != nil && !embedded.IsPageFault(err) {
			storeErr = err
		}
	case errors.Is(err, errStranger):
		storeErr = r.store.AppendFailure(t, p.Body.At)
	default:
		// A scrape that took long to fail counts as failed at every interval that it blocked.
		for late := time.Duration(0); late <= p.Body.Duration; late += r.Interval {
			storeErr = errors.Join(storeErr, r.store.AppendFailureAfter(t, p.Body.At.Add(late), p.Body.Duration))
		}
	}
	if errors.Is(err, scrape.ErrNotExposition) {
		err = hint.With(fmt.Errorf("scrape %s: %w", r.Targets[p.Target].Name(), scrape.ErrNotExposition),
			"check that the address is a server's metrics page")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, storeErr)
	st := &r.states[p.Target]
	st.seen, st.beside = seen, beside
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

// checkFirstPage checks pages until one is an inference server's, an exporter's or a gateway's. It sets err for a page
// of another program.
func (r *Live) checkFirstPage(p *Scrape, err *error) (beside, seen bool) {
	r.mu.Lock()
	st := &r.states[p.Target]
	beside, seen = st.beside, st.seen
	r.mu.Unlock()
	if seen || *err != nil {
		return beside, seen
	}
	kind, strange := p.Kind(r.Targets[p.Target].Name())
	if *err = strange; dialect.ShowsGPUs(kind) {
		r.noteExporter(p.Target)
	}
	return dialect.ShowsGPUs(kind) || kind == dialect.Gateway, *err == nil
}

// neverJudgeable reports whether scraping again is useless: each target was scraped, and is another program, a GPU
// exporter or a gateway.
func (r *Live) neverJudgeable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(r.states, func(st liveState) bool { return !st.beside && !isPermanent(st.last) })
}

// FetchFacts fetches what every server says about itself beside its metrics.
func (r *Live) FetchFacts(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range r.Targets {
		if !r.Targets[i].Gateway {
			wg.Go(func() { r.fetchFacts(ctx, i) })
		}
	}
	wg.Wait()
}

// FactsOf returns what a server said about itself beside its metrics, by the number of its target.
func (r *Live) FactsOf(i int) scrape.Facts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.states[i].facts
}

// LastError returns the error of the last scrape of a target, by its number; nil if it succeeded.
func (r *Live) LastError(i int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.states[i].last
}

// storageError returns the error of the storage.
func (r *Live) storageError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// FailedScrapes returns how many scrapes failed.
func (r *Live) FailedScrapes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, st := range r.states {
		n += st.failed
	}
	return n
}

func (r *Live) fetchFacts(ctx context.Context, i int) {
	facts := r.Client.Facts(ctx, r.Targets[i].URL)
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

// refetchFacts fetches the facts again of servers whose last scrape failed, or whose /health did not answer at the
// start. Since then they, or their metrics pages alone, may have gone down or come back.
func (r *Live) refetchFacts(ctx context.Context) {
	var wg sync.WaitGroup
	r.mu.Lock()
	for i := range r.states {
		if st := &r.states[i]; !r.Targets[i].Gateway && st.good > 0 && (st.last != nil || st.facts.HealthErr != nil) {
			wg.Go(func() { r.fetchFacts(ctx, i) })
		}
	}
	r.mu.Unlock()
	wg.Wait()
}

// countAnswering returns how many targets answered their last scrape, how many ever answered, and whether it is
// hopeless, after the time that the run has taken, that any will.
func (r *Live) countAnswering(ran time.Duration) (answering, ever int, lost bool) {
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
		lost = lost && st.good == 0 && (st.failed >= deadAfter || st.failed > 1 && ran >= soonest)
	}
	return answering, ever, lost
}

// onlyStrangersError returns the error for a run in which all targets are other programs.
func (r *Live) onlyStrangersError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var failed []error
	for _, st := range r.states {
		if st.last != nil {
			failed = append(failed, st.last)
		}
	}
	switch {
	case len(failed) == 0:
		return hint.With(fmt.Errorf("%s exposes %w: it is a GPU exporter or a gateway", r.Targets[0].Name(),
			errStranger),
			"also give the address of the inference server that it belongs to")
	case len(r.states) > 1:
		return fmt.Errorf("none of %d addresses is an inference server's; the first: %w", len(r.states), failed[0])
	}
	return failed[0]
}

// Answered returns nil if any server ever answered with metrics, and otherwise the error that says why none did.
func (r *Live) Answered() error {
	_, ever, _ := r.countAnswering(0)
	if ever == 0 && r.neverJudgeable() {
		return r.onlyStrangersError()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ever > 0 || r.err != nil {
		return r.err
	}
	for i := range r.states {
		st := &r.states[i]
		if st.last == nil {
			continue
		}
		err := st.last
		switch {
		case st.facts.Health == 200:
			err = hint.Or(fmt.Errorf("%w; but /health answers 200: the server is up, and its metrics page fails", err),
				"check the server's log")
		case !strings.HasSuffix(r.Targets[i].Instance, ":8000"):
			err = hint.With(err, strings.TrimPrefix(hint.Of(err)+"; is port 8000 meant?", "; "))
		}
		if len(r.states) > 1 {
			err = fmt.Errorf("none of %d servers answers; the first: %w", len(r.states), err)
		}
		return err
	}
	return errNoScrape
}

// isAway reports whether a server is down. It is not if only its metrics page fails, or if the request was wrong.
func (st *liveState) isAway() bool { return st.outage != "" && st.facts.Health != 200 }

// explainDown adds the attempts to a target-down finding, and whether only the metrics pages fail.
func (r *Live) explainDown(d *diagnose.Diagnosis) {
	if d.Status != diagnose.Firing || len(d.Findings) == 0 || !slices.ContainsFunc(d.Findings[0].Evidence,
		func(e catalog.Evidence) bool {
			return e.Signal == indicator.Up && e.Holds == catalog.True
		}) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var tried, why []string
	alive := true
	for i := range r.Targets {
		st := &r.states[i]
		if !slices.Contains(d.Verdict.Targets, r.Targets[i].Instance) || st.last == nil {
			continue
		}
		alive = alive && st.facts.Health == 200
		health := fmt.Sprintf("/health answers %d", st.facts.Health)
		if st.facts.Health == 0 {
			health = "/health does not answer either"
		}
		tried = append(tried, fmt.Sprintf("%s: the last %d of %d scrapes failed (%v); %s.", r.Targets[i].Name(),
			st.away.failed, st.good+st.failed, st.last, health))
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
		f.Summary = "The metrics page fails while /health answers 200: the server is up, but cannot be judged"
	case len(tried) > 1 && len(why) == 1:
		f.Summary = fmt.Sprintf("%d servers do not answer: %s", len(tried), why[0])
	}
	d.Verdict.Summary, d.Verdicts[0].Summary = f.Summary, f.Summary
	f.Reasons = append(tried, f.Reasons...)
}

// Annotate adds what the servers say about themselves beside their metrics. A server that never answered anything is
// taken to be starting, with the dialect of its neighbours.
func (r *Live) Annotate(ts []diagnose.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var kind diagnose.Target
	if k := slices.IndexFunc(ts, func(t diagnose.Target) bool { return t.Problem == "" && t.Serves() }); k >= 0 {
		kind = ts[k]
	}
	for i := range ts {
		t := &ts[i]
		k := r.indexOf(t.Labels["instance"])
		if k < 0 || !t.Serves() {
			continue
		}
		st := &r.states[k]
		if r.Targets[k].Gateway {
			t.Dialect = dialect.Dialect{Engine: dialect.Gateway}
			if t.Problem = "it exposes no metric of a known gateway"; st.last != nil {
				t.Problem = st.last.Error()
			}
			continue
		}
		switch {
		case st.good == 0 && isPermanent(st.last): // not down: another program
			t.Problem = strings.TrimPrefix(st.last.Error(), r.Targets[k].Name()+" ") + "; " + hint.Of(st.last)
			continue
		case st.good > 0 || t.Problem == "":
		case st.facts.Health == 200 && st.last != nil:
			t.Problem = "its metrics page fails while /health answers 200: " + st.last.Error()
		case st.isAway():
			t.Problem, t.Dialect, t.Config = "", kind.Dialect, engine.Config{}
		case st.last != nil:
			t.Problem = "it cannot be reached: " + st.last.Error()
			if way := hint.Of(st.last); way != "" {
				t.Problem += "; " + way
			}
		}
		t.Failure = st.outage
		st.annotateTarget(t)
	}
}

// addRelease adds a server's release, and the context length of the target's model.
func addRelease(t *diagnose.Target, release string, models []scrape.Model) {
	if release != "" {
		t.Version = release
	}
	for _, m := range models {
		if m.MaxModelLen > 0 && (m.ID == t.Labels["model_name"] || len(models) == 1) {
			if t.Config == nil {
				t.Config = engine.Config{}
			}
			t.Config.Set(engine.MaxModelLen, fmt.Sprint(m.MaxModelLen), "/v1/models")
		}
	}
}

// innermost returns the innermost wrapped error, which names no address.
func innermost(err error) error {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err
}

func (r *Live) indexOf(instance string) int {
	return slices.IndexFunc(r.Targets, func(t Target) bool { return t.Instance == instance })
}

// annotateTarget adds the facts to a target.
func (st *liveState) annotateTarget(t *diagnose.Target) {
	f := &st.facts
	addRelease(t, f.Version, f.Models)
	for _, g := range st.gaps {
		if g.failed > 1 || g.to.Sub(g.from) > time.Second {
			t.Notes = append(t.Notes, fmt.Sprintf("its scrapes failed for %s, until %s (%s); it answers again",
				indicator.FormatNumber(g.to.Sub(g.from).Seconds(), indicator.Seconds), g.to.UTC().Format("15:04:05Z"),
				g.why))
		}
	}
	switch {
	case st.last == nil || t.Problem != "":
	case st.good == 0:
		t.Notes = append(t.Notes, "it never answered: "+st.last.Error()+"; "+cmp.Or(hint.Of(st.last), "check its port"))
	default:
		t.Notes = append(t.Notes, "the last scrape failed: "+st.last.Error())
	}
	switch {
	case f.Health == 200 && st.last != nil && t.Problem == "":
		t.Notes = append(t.Notes,
			"/metrics fails while /health answers 200: the server is up, and its metrics page fails")
	case f.Health == 404 || f.Health == 200:
		// An exporter, or another server without /health; or all is well.
	case f.Health > 0:
		t.Notes = append(t.Notes, fmt.Sprintf("/health answers %d", f.Health))
	case f.HealthErr != nil && st.last != nil && innermost(f.HealthErr).Error() == innermost(st.last).Error():
		t.Notes = append(t.Notes, "/health does not answer either")
	case f.HealthErr != nil:
		t.Notes = append(t.Notes, "/health does not answer: "+f.HealthErr.Error())
	}
}
