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
	Requests  Basis = "load-test"  // per-request results of a load test
	Metrics   Basis = "metrics"    // a server's or a recording's own metrics
	DataSheet Basis = "data-sheet" // nothing was measured
)

// Evidence is all that is known about how long a server's steps take. Every part may be missing.
type Evidence struct {
	// Config is the configuration under which requests and scrapes were observed.
	Config sim.Config
	// Requested is the deployment that requests were sent to, if it is more than one engine of Config.
	Requested Deployment

	Requests []MeasuredRequest
	Scrapes  []workload.Interval

	// Prior comes from data sheets (Ledger.StepCost): the prior of a fit, and the basis if nothing was measured.
	Prior *Prior

	// Check, which may be nil, is called now and then. Its error ends the calibration, as a context's would.
	Check func() error

	// The source of each part, for people: a file's name, a URL, "H100 SXM".
	RequestsFrom, ScrapesFrom, HardwareFrom string
}

// Calibration is a simulator's step cost with the basis that it rests on.
type Calibration struct {
	Fit    *Fit
	Basis  Basis
	Source string // the evidence that was used, for people

	// Notes say why better evidence could not be used, and how the used evidence is poor.
	Notes []string
}

// poorFit is the median error of durations above which a fit does not describe its own observations: the server spent
// time on work that is not modelled.
const poorFit = 0.25

// Calibrate fits step times to the best evidence. Per-request results come first, because they show the work that each
// request waited for. Then come metrics, which are means over intervals, then data sheets, which are a rough estimate.
// Evidence that cannot be fitted is passed over with a note; without any other it is an error.
func Calibrate(e Evidence) (*Calibration, error) {
	if e.Prior != nil {
		if err := e.Prior.Validate(); err != nil {
			return nil, hint.With(fmt.Errorf("data sheet: %w", err), "check the model's size and the GPU's numbers")
		}
	}
	c := &calibrator{Evidence: e, Calibration: &Calibration{}}
	if len(e.Requests) > 0 {
		d := e.Requested
		d.Config = e.Config
		f, err := FitRequests(d, e.Requests, c.priorOrGuess(typicalRequest(e.Requests)), e.Check)
		c.consider(Requests, e.RequestsFrom, f, err)
	}
	if len(e.Scrapes) > 0 && (c.Fit == nil || c.Fit.MedianError > poorFit) {
		f, err := FitScrapes(e.Config, e.Scrapes, c.priorOrGuess(typicalScrape(e.Scrapes)), e.Check)
		c.consider(Metrics, e.ScrapesFrom, f, err)
	}
	if e.Check != nil {
		if err := e.Check(); err != nil { // rather than an error that nothing could be fitted
			return nil, err
		}
	}
	if c.impossible != nil {
		return nil, c.impossible
	}
	if c.Fit == nil && e.Prior != nil {
		c.consider(DataSheet, e.HardwareFrom, FitPrior(*e.Prior), nil)
	}
	if c.Fit == nil {
		if c.failed != nil {
			return nil, c.failed
		}
		return nil, hint.With(errors.New("step times are unknown"),
			"give a load test's results, a server or recording that was under load, or the model and the GPU")
	}
	c.noteQuality()
	return c.Calibration, nil
}

// calibrator chooses among fits to the evidence.
type calibrator struct {
	Evidence
	*Calibration
	failed     error // the last fit's error
	impossible error // steps that were too short for the model on its GPU
}

// priorOrGuess returns the evidence's prior, or else a guess from a typical step's seconds.
func (c *calibrator) priorOrGuess(step float64) *Prior {
	if c.Prior != nil || step <= 0 {
		return c.Prior
	}
	guess := guessFrom(step)
	return &guess
}

// consider chooses a fit if it is better than the present one, or notes its error.
func (c *calibrator) consider(b Basis, source string, fit *Fit, err error) {
	if err != nil {
		c.failed = fmt.Errorf("%s: %w", source, err)
		c.Notes = append(c.Notes, c.failed.Error())
		return
	}
	if wrong := c.Prior.checkPossible(fit); wrong != nil && c.impossible == nil {
		c.impossible = fmt.Errorf("%s: %w", source, wrong)
	}
	c.chooseFit(b, source, fit, c.Prior)
}

// noteQuality notes the chosen fit's errors.
func (c *Calibration) noteQuality() {
	if off := c.Fit.misses.String(); off != "" {
		c.Notes = append(c.Notes, "a simulation of the load test itself, with the fitted step times, is off: "+off+
			"; no prediction is more accurate, and the intervals are at least as wide")
	}
	if c.Fit.MedianError > poorFit {
		c.Notes = append(c.Notes, fmt.Sprintf("poor fit: the median error of step times is %.0f %%; "+
			"the server does something that is not simulated, or shares its machine", 100*c.Fit.MedianError))
	}
}

// chooseFit takes a fit that is better than the present one, or notes why it is worse.
func (c *Calibration) chooseFit(b Basis, source string, fit *Fit, prior *Prior) {
	if text := prior.differenceFrom(fit); text != "" {
		c.Notes = append(c.Notes, source+": "+text)
	}
	switch {
	case prior != nil && fit.misses.tooLarge():
		c.Notes = append(c.Notes,
			fmt.Sprintf("%s: skipped, because a simulation with the fitted step times is off: %s. "+
				"The server does something that is not simulated, or has other arguments", source, fit.misses.String()))
	case c.Fit == nil || c.Fit.MedianError > poorFit && fit.MedianError < c.Fit.MedianError:
		if c.Fit != nil {
			c.Notes = append(c.Notes, fmt.Sprintf("%s: skipped, because the median error of step times is %.0f %%",
				c.Source, 100*c.Fit.MedianError))
		}
		c.Fit, c.Basis, c.Source = fit, b, source
	}
}

// typicalRequest and typicalScrape return the median time between tokens, in seconds, which is the time of a step.
func typicalRequest(ms []MeasuredRequest) float64 {
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

// Statement describes the basis of the step times in one sentence.
func (c *Calibration) Statement() string {
	f := c.Fit
	if c.Basis == DataSheet {
		return "not calibrated: step times estimated from the data sheet of " + c.Source +
			"; the interval shows the uncertainty"
	}
	kind := "per-request results of "
	if c.Basis == Metrics {
		kind = "metrics of "
	}
	text := fmt.Sprintf("step times fitted to %s%s: %d observations, error %.1f %% in the median and %.1f %% at P95; "+
		"observed batches of %s requests and %s context tokens",
		kind, c.Source, f.Observations, 100*f.MedianError, 100*f.P95Error,
		formatSpan(f.Seen.MinSeqs, f.Seen.MaxSeqs), formatSpan(f.Seen.MinKV, f.Seen.MaxKV))
	if s := f.Frontend.PerRequest; s >= 0.5e-3 { // a smaller value prints as 0 ms
		text += fmt.Sprintf("; the API server takes %.0f ms of each first token (%.0f to %.0f)",
			1e3*s, 1e3*f.FrontendLow, 1e3*f.FrontendHigh)
	}
	return text
}

func formatSpan(lo, hi float64) string {
	if lo == hi {
		return fmt.Sprintf("%.3g", lo)
	}
	return strings.Join([]string{formatWhole(lo), formatWhole(hi)}, " to ")
}

func formatWhole(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.0f", v)
}
