package perfmodel

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// Basis is the kind of evidence that step times rest on.
type Basis string

// The kinds of evidence, the best first.
const (
	Given     Basis = "given"      // constants that the user gave
	Requests  Basis = "load-test"  // per-request results of a load test
	Metrics   Basis = "metrics"    // a server's or a recording's own metrics
	DataSheet Basis = "data-sheet" // nothing was measured
)

// Evidence is all that is known about how long a server's steps take. Every part
// may be missing.
type Evidence struct {
	// Config is the configuration under which requests and scrapes were observed.
	Config sim.Config
	// Requested is the deployment that requests were sent to, where that is more than an
	// engine of Config.
	Requested Deployment

	Cost     *sim.StepCost // constants from an earlier calibration
	Requests []Measured
	Scrapes  []workload.Interval

	// Prior is what data sheets tell: the prior of a fit, and the basis where nothing
	// was measured. Ledger.StepCost works it out.
	Prior *Prior

	// Check, which may be nil, is asked now and then whether to go on, as a context's
	// Err: its error ends the calibration.
	Check func() error

	// What each part came from, for people: a file's name, a URL, "H100 SXM".
	CostFrom, RequestsFrom, ScrapesFrom, HardwareFrom string
}

// Calibration is a simulator's step cost with the basis that it rests on.
type Calibration struct {
	Fit    *Fit
	Basis  Basis
	Source string // what was evaluated, for people

	// Notes say why better evidence that was given could not be used, and what is
	// poor about the evidence that was.
	Notes []string
}

// poorFit is the median error of durations above which a fit does not describe
// what it was fitted to: the server spent its time on something that the model of
// a step does not have.
const poorFit = 0.25

// Calibrate fits step times to the best evidence. Per-request results tell what
// each request sat through and come first, then metrics, which are means over
// intervals, then data sheets, which are a rough estimate. Evidence that cannot
// be fitted is passed over with a note; without any other it is an error.
func Calibrate(e Evidence) (*Calibration, error) {
	if e.Cost != nil {
		if err := e.Cost.Validate(); err != nil {
			return nil, err
		}
		return &Calibration{Fit: Exactly(*e.Cost), Basis: Given, Source: e.CostFrom}, nil
	}
	if e.Prior != nil {
		if err := e.Prior.Validate(); err != nil {
			return nil, hint.With(fmt.Errorf("data sheet: %w", err), "check the model's size and the GPU's numbers")
		}
	}
	c := &Calibration{}
	var last, impossible error
	take := func(b Basis, source string, fit *Fit, err error) {
		if err != nil {
			last = fmt.Errorf("%s: %w", source, err)
			c.Notes = append(c.Notes, last.Error())
			return
		}
		if wrong := e.Prior.possible(fit); wrong != nil && impossible == nil {
			impossible = fmt.Errorf("%s: %w", source, wrong)
		}
		c.choose(b, source, fit, e.Prior)
	}
	fit := func(b Basis, source string, typical float64, fit func(prior *Prior) (*Fit, error)) {
		prior := e.Prior
		if prior == nil && typical > 0 {
			guess := guessFrom(typical)
			prior = &guess
		}
		f, err := fit(prior)
		take(b, source, f, err)
	}
	if len(e.Requests) > 0 {
		fit(Requests, e.RequestsFrom, typicalRequest(e.Requests), func(p *Prior) (*Fit, error) {
			d := e.Requested
			d.Config = e.Config
			return FromRequests(d, e.Requests, p, e.Check)
		})
	}
	if len(e.Scrapes) > 0 && (c.Fit == nil || c.Fit.MedianError > poorFit) {
		fit(Metrics, e.ScrapesFrom, typicalScrape(e.Scrapes), func(p *Prior) (*Fit, error) {
			return FromScrapes(e.Config, e.Scrapes, p, e.Check)
		})
	}
	if e.Check != nil {
		if err := e.Check(); err != nil { // and not that nothing could be fitted
			return nil, err
		}
	}
	if impossible != nil {
		return nil, impossible
	}
	if c.Fit == nil && e.Prior != nil {
		take(DataSheet, e.HardwareFrom, FromPrior(*e.Prior), nil)
	}
	if c.Fit == nil {
		if last != nil {
			return nil, last
		}
		return nil, hint.With(errors.New("step times are unknown"),
			"give a load test's results, a server or recording that was under load, or the model and the GPU")
	}
	if off := c.Fit.off.String(); off != "" {
		c.Notes = append(c.Notes, "a simulation of the load test itself, with the fitted step times, is off: "+off+"; no prediction is more accurate, and the intervals are at least as wide")
	}
	if c.Fit.MedianError > poorFit {
		c.Notes = append(c.Notes, fmt.Sprintf("poor fit: the median error of step times is %.0f %%; the server does something that is not simulated, or shares its machine", 100*c.Fit.MedianError))
	}
	return c, nil
}

// choose takes a fit that is better than what there is, and says why where it does not.
func (c *Calibration) choose(b Basis, source string, fit *Fit, prior *Prior) {
	if text := prior.differenceFrom(fit); text != "" {
		c.Notes = append(c.Notes, source+": "+text)
	}
	switch {
	case prior != nil && fit.off.nothing():
		c.Notes = append(c.Notes, fmt.Sprintf("%s: skipped, because a simulation with the fitted step times is off: %s. The server does something that is not simulated, or has other arguments", source, fit.off.String()))
	case c.Fit == nil || c.Fit.MedianError > poorFit && fit.MedianError < c.Fit.MedianError:
		if c.Fit != nil {
			c.Notes = append(c.Notes, fmt.Sprintf("%s: skipped, because the median error of step times is %.0f %%", c.Source, 100*c.Fit.MedianError))
		}
		c.Fit, c.Basis, c.Source = fit, b, source
	}
}

// typicalRequest and typicalScrape are the median time of a token, which is that of
// a step.
func typicalRequest(ms []Measured) float64 {
	var v []float64
	for _, m := range ms {
		if n := m.Request.OutputTokens; m.Use && n > 1 && m.LastToken > m.FirstToken {
			v = append(v, (m.LastToken-m.FirstToken).Seconds()/float64(n-1))
		}
	}
	return stat.Median(v)
}

func typicalScrape(scrapes []workload.Interval) float64 {
	var v []float64
	for _, s := range scrapes {
		if s.ITLCount > 0 && s.ITLSum > 0 {
			v = append(v, s.ITLSum/s.ITLCount)
		}
	}
	return stat.Median(v)
}

// Statement says in one sentence what the step times rest on.
func (c *Calibration) Statement() string {
	f := c.Fit
	switch c.Basis {
	case Given:
		return "step times as given: " + c.Source
	case DataSheet:
		return "not calibrated: step times estimated from the data sheet of " + c.Source + "; the interval shows the uncertainty"
	}
	kind := "per-request results of "
	if c.Basis == Metrics {
		kind = "metrics of "
	}
	text := fmt.Sprintf("step times fitted to %s%s: %d observations, error %.1f %% in the median and %.1f %% at P95; observed batches of %s requests and %s context tokens",
		kind, c.Source, f.Observations, 100*f.MedianError, 100*f.P95Error, span(f.Seen.MinSeqs, f.Seen.MaxSeqs), span(f.Seen.MinKV, f.Seen.MaxKV))
	if s := f.Frontend.PerRequest; s >= 0.5e-3 { // less reads 0 ms
		text += fmt.Sprintf("; the API server takes %.0f ms of each first token (%.0f to %.0f)", 1e3*s, 1e3*f.FrontendLow, 1e3*f.FrontendHigh)
	}
	return text
}

func span(lo, hi float64) string {
	if lo == hi {
		return fmt.Sprintf("%.3g", lo)
	}
	return strings.Join([]string{whole(lo), whole(hi)}, " to ")
}

func whole(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.0f", v)
}
