package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/render"
)

const (
	// soonest is when watching live servers may end early: rates need that long.
	soonest       = 10 * time.Second
	evaluateEvery = time.Second
	// A run ends after deadAfter failed scrapes of every target if nobody ever answered. If failures are slow, the
	// number that fits into soonest suffices, but at least two.
	deadAfter = 3
)

// Diagnose judges this source at the time of the options, and live servers at their last scrape. Answers that do not
// arrive before the context's deadline are unknown, and the diagnosis is marked as partial.
func (s *Source) Diagnose(ctx context.Context, o diagnose.Options) (diagnose.Diagnosis, error) {
	if s.Live != nil {
		if err := s.Live.storageError(); err != nil {
			return diagnose.Diagnosis{}, err
		}
		span := s.Span()
		if span.Last.IsZero() {
			return diagnose.Diagnosis{}, errNoScrape
		}
		o.First, o.At, o.Created = span.First, span.Last, s.Created()
	}
	d, err := judgeInTime(ctx, s, o)
	if err == nil && s.partial != nil && len(s.partial()) > 0 {
		d.Notes = slices.Insert(d.Notes, 0, "partial: the server returned incomplete answers")
		d.MarkPartial(partialConfidence, "the server's answers are partial")
	}
	return d, err
}

var errNoScrape = hint.With(errors.New("no scrape finished in time"), "allow a longer --duration")

// A Watch says how servers are watched while they are scraped.
type Watch struct {
	// Fault means that only a fault ends watching early, because health is not certain before the end.
	Fault bool
	// Show, which may be nil, receives the verdict so far each second, "" without one. With Show, servers are diagnosed
	// from the first second on; without it, as soon as a verdict can be certain.
	Show func(ran time.Duration, verdict string)
}

// Watch diagnoses live servers once a second until a verdict is certain, no server ever answers, or the context ends.
// The caller scrapes them meanwhile. It returns what it has seen.
func (s *Source) Watch(ctx context.Context, o diagnose.Options, w Watch) *diagnose.Hysteresis {
	o.Predict = nil // only once, for the final verdict
	o.Memory = &diagnose.Memory{}
	h, verdict := &diagnose.Hysteresis{}, ""
	s.Live.pollEverySecond(ctx, func(ran time.Duration) bool {
		if w.Show != nil {
			defer func() { w.Show(ran, verdict) }()
		}
		early := ran < soonest-evaluateEvery/2
		if ran == 0 || early && w.Show == nil {
			return false
		}
		d, err := s.Diagnose(ctx, o)
		if err != nil {
			h.Restart()
			return false
		}
		verdict = describeSoFar(&d)
		certain := h.Observe(&d)
		if early {
			h.Restart()
		}
		return certain && !early && (!w.Fault || d.Status == diagnose.Firing)
	})
	return h
}

// describeSoFar describes a verdict to people who wait for the final one.
func describeSoFar(d *diagnose.Diagnosis) string {
	switch v := &d.Verdict; {
	case d.Status == diagnose.Firing:
		return fmt.Sprintf("%s (%s): %s", v.ID, v.Severity, v.Summary)
	case v.ID == diagnose.InsufficientData:
		return "too early to tell"
	default:
		return v.ID
	}
}

// pollEverySecond calls each at once and then every second, until each returns true, it is clear that no server
// answers, or the context ends.
func (r *Live) pollEverySecond(ctx context.Context, each func(ran time.Duration) bool) {
	began := time.Now()
	tick := time.NewTicker(evaluateEvery)
	defer tick.Stop()
	for ran := time.Duration(0); ; ran = time.Since(began) {
		if _, _, lost := r.countAnswering(ran); lost || r.neverJudgeable() || each(ran) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// RunFor scrapes for at most a time, and ends early if it is clear that no server answers. It calls show, which may be
// nil, each second.
func (r *Live) RunFor(ctx context.Context, most time.Duration, show func(ran time.Duration)) {
	r.scrapeWhile(ctx, most, func(ctx context.Context) {
		r.pollEverySecond(ctx, func(ran time.Duration) bool {
			if show != nil {
				show(ran)
			}
			return false
		})
	})
}

// scrapeWhile scrapes until watch returns, but for no longer than a time.
func (r *Live) scrapeWhile(ctx context.Context, most time.Duration, watch func(context.Context)) {
	ctx, stop := context.WithTimeout(ctx, most)
	defer stop()
	var watching sync.WaitGroup
	watching.Go(func() {
		watch(ctx)
		stop()
	})
	r.Run(ctx)
	stop()
	watching.Wait()
}

// WatchOptions says how to watch live servers for a verdict.
type WatchOptions struct {
	For    time.Duration // at most
	Longer bool          // watch longer than For if the prediction of a fix needs it

	// Judging bounds the time of the diagnosis after the scraping, and Late is the error when it is exceeded.
	Judging time.Duration
	Late    error

	Show func(line string) // shows the progress each second; nil if nobody watches
	Note func(line string) // prints a note before the end

	// LastWords returns the context in which an interrupted run may still judge what it has seen.
	LastWords func(context.Context) (context.Context, context.CancelFunc)
}

// WatchForVerdict scrapes the servers for some seconds and judges what it saw.
func (s *Source) WatchForVerdict(ctx context.Context, o diagnose.Options, l WatchOptions) (diagnose.Diagnosis, error) {
	r := s.Live
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	var facts sync.WaitGroup
	var seen *diagnose.Hysteresis
	r.scrapeWhile(ctx, l.For, func(scrapes context.Context) {
		for i := range r.Targets {
			if r.Targets[i].Gateway {
				continue
			}
			facts.Go(func() { r.fetchFacts(ctx, i) })
		}
		seen = s.Watch(scrapes, o, l.showProgress(r))
	})
	if l.Show != nil {
		l.Show("")
	}
	facts.Wait()
	took := time.Since(began)
	interrupted := ctx.Err() != nil
	if interrupted {
		if _, ever, _ := r.countAnswering(0); ever == 0 {
			return diagnose.Diagnosis{}, context.Cause(ctx)
		}
		o.Predict = nil
		var done func()
		ctx, done = l.LastWords(ctx)
		defer done()
	}
	if r.neverJudgeable() { // only other programs answered
		return diagnose.Diagnosis{}, r.onlyStrangersError()
	}
	if err := r.Answered(); err != nil {
		return diagnose.Diagnosis{}, err
	}
	if !interrupted {
		r.refetchFacts(ctx)
	}
	judge := func() (diagnose.Diagnosis, error) {
		ctx, done := context.WithTimeoutCause(ctx, l.Judging, l.Late)
		defer done()
		return s.Diagnose(ctx, o)
	}
	d, err := judge()
	if more := d.WatchNeeded(); err == nil && more > 0 && l.Longer && !interrupted {
		// The verdict is known. Predicting its fixes needs more samples.
		l.Note("so far " + render.Clean(describeSoFar(&d)))
		l.Note(fmt.Sprintf("scraping for another %.0f s to predict the effect of fixes; Ctrl-C skips that",
			more.Seconds()))
		longer, stop := context.WithTimeout(ctx, more)
		r.Run(longer)
		stop()
		if interrupted = ctx.Err() != nil; !interrupted {
			d, err = judge()
		}
	}
	if err != nil {
		return d, err
	}
	seen.RestoreVerdict(&d)
	r.explainDown(&d)
	if interrupted {
		d.Notes = slices.Insert(d.Notes, 0, fmt.Sprintf("interrupted: result of %.0f s of %s", took.Seconds(), l.For))
	}
	return d, nil
}

// showProgress shows the progress and the verdict so far.
func (l *WatchOptions) showProgress(r *Live) Watch {
	if l.Show == nil {
		return Watch{}
	}
	return Watch{Show: func(ran time.Duration, verdict string) {
		answering, _, _ := r.countAnswering(ran)
		line := fmt.Sprintf("scraping %.0f of %.0f s", ran.Seconds(), l.For.Seconds())
		if answering < len(r.Targets) {
			line += fmt.Sprintf(", %d of %d answer", answering, len(r.Targets))
		}
		if verdict != "" {
			line += ", so far " + render.Clean(verdict)
		}
		l.Show(line)
	}}
}
