package workload

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Asked is a workload as the flags of bench, simulate and tune describe it. An option that is not given has its
// measured value, if there is a measurement, or else a default.
type Asked struct {
	Rate      string  // requests per second, as ParseArrivals reads it
	RateScale float64 // multiplies the rate, given or measured
	CV        float64 // coefficient of variation of the times between arrivals

	Concurrency int // clients in a closed loop; 0: none

	Trace string  // a file
	Speed float64 // factor of the replay: 2 is twice as fast

	Prompt, Output string // as ParseLengths reads them
	// PromptScale and OutputScale multiply the lengths, given or measured; 0 is 1.
	PromptScale, OutputScale   float64
	SystemTokens, PrefixGroups int
	PrefixShare                float64

	Requests int           // ends after so many; 0: no limit
	Duration time.Duration // ends after this time; 0: no limit
	Seed     uint64

	// Options that replace the measurement even if their value is the default.
	SetCV, SetConcurrency, SetPrefixShare bool
}

// Lengths, in tokens, if neither given nor measured.
const (
	UsualPrompt = 512
	UsualOutput = 128
)

// Check refuses contradictory options.
func (a *Asked) Check() error {
	if err := a.checkKinds(); err != nil {
		return err
	}
	switch {
	case a.PromptScale < 0 || a.PromptScale > 1e3 || a.OutputScale < 0 || a.OutputScale > 1e3:
		return errors.New("--prompt-scale and --output-scale: want numbers up to a thousand")
	case !(a.RateScale > 0 && a.RateScale <= 1e6):
		return fmt.Errorf("--rate-scale %v: want a positive number", a.RateScale)
	case !(a.CV >= 0 && a.CV <= 100):
		return fmt.Errorf("--cv %v: want 0 to 100", a.CV)
	case a.Duration < 0 || a.Requests < 0:
		return errors.New("--duration and --requests cannot be negative")
	}
	return nil
}

// checkKinds refuses options of different kinds of workload: a closed loop, a rate, a trace.
func (a *Asked) checkKinds() error {
	switch {
	case a.Concurrency < 0:
		return fmt.Errorf("--concurrency %d: want a number of clients", a.Concurrency)
	case a.Concurrency > 0 && (a.Rate != "" || a.Trace != "" || a.SetCV):
		return hint.With(errors.New("--concurrency sets arrivals, and so do --rate, --cv and --trace"),
			"give one of them")
	case a.Trace == "" && a.Speed != 1:
		return errors.New("--speed goes with --trace")
	case a.Trace == "":
		return nil
	case a.Rate != "":
		return errors.New("--rate and --trace are two workloads: give one")
	case a.RateScale != 1:
		return hint.With(errors.New("--rate-scale does not go with --trace"), "replay it faster with --speed")
	case a.Prompt != "" || a.Output != "" || a.PrefixShare != 0 || a.SystemTokens != 0:
		return errors.New("a trace has its own lengths and prefixes: " +
			"--prompt-tokens, --output-tokens, --prefix-share and --system-tokens do not go with --trace")
	}
	return nil
}

// Spec returns the lengths and prefixes of made-up requests: the given ones, else the measured ones if m is not nil,
// else the usual ones. It lists the names of the measured ones.
func (a *Asked) Spec(m *Measured) (s Spec, measured []string, err error) {
	if m != nil && (a.Prompt == "" || a.Output == "") {
		if s, err = m.Workload.Spec(); err != nil {
			return s, nil, err
		}
		if s.PrefixShare > 0 {
			measured = append(measured, "prefix reuse")
		}
	}
	for _, x := range []struct {
		name, text string
		usual      int
		to         *Lengths
	}{{"prompt", a.Prompt, UsualPrompt, &s.Prompt}, {"output", a.Output, UsualOutput, &s.Output}} {
		switch {
		case x.text != "":
			if *x.to, err = ParseLengths(x.text); err != nil {
				return s, nil, fmt.Errorf("--%s-tokens: %w", x.name, err)
			}
		case !x.to.Valid():
			*x.to = Fixed(x.usual)
		default:
			measured = append(measured, x.name+" lengths")
		}
	}
	s.Prompt, s.Output = s.Prompt.Scale(cmp.Or(a.PromptScale, 1)), s.Output.Scale(cmp.Or(a.OutputScale, 1))
	s.SystemTokens, s.PrefixGroups = a.SystemTokens, a.PrefixGroups
	if a.SetPrefixShare {
		s.PrefixShare = a.PrefixShare
	}
	return s, measured, s.Validate()
}

// Arrivals returns the arrivals of made-up requests, and whether they are measured.
func (a *Asked) Arrivals(m *Measured) (out Arrivals, measured bool, err error) {
	switch {
	case a.Rate != "":
		out, err = ParseArrivals(a.Rate, a.CV)
	case m != nil:
		if out, err = m.Workload.Arrivals(); err == nil {
			measured = true
			if a.SetCV {
				out.CV = a.CV
			}
		}
	default:
		err = hint.With(errors.New("there is no workload"),
			"give --rate, a --trace where there is the flag, or a server or recording to measure it on")
	}
	if err != nil {
		return out, false, err
	}
	out = out.Scale(a.RateScale)
	return out, measured, out.Validate()
}

// usualDuration is how long made-up traffic lasts by default.
const usualDuration = 10 * time.Minute

// Until returns when the traffic ends: after the given time, else after the measured time, else after ten minutes. It
// is 0 if the number of requests ends the traffic.
func (a *Asked) Until(m *Measured) time.Duration {
	switch {
	case a.Duration > 0 || a.Requests > 0:
		return a.Duration
	case m != nil:
		return m.To.Sub(m.From)
	}
	return usualDuration
}

// ClosedLoop returns the given or measured clients of a closed loop, which wait for an answer before they send the next
// request. In an open loop there are none.
func (a *Asked) ClosedLoop(m *Measured) (l Loop) {
	switch {
	case a.Trace != "" || a.Rate != "":
		return l
	case a.Concurrency > 0:
		l.Clients = a.Concurrency
	case m != nil && !a.SetConcurrency && !a.SetCV:
		l = m.Workload.Loop
	}
	if l.Clients > 0 {
		l.Clients = max(int(math.Round(float64(l.Clients)*a.RateScale)), 1)
	}
	return l
}

// Pacer returns the times of sessions, and when the traffic ends. Measured arrivals keep their number.
func (a *Asked) Pacer(m *Measured) (p Pacer, end time.Duration, err error) {
	arrivals, measured, err := a.Arrivals(m)
	if err != nil {
		return nil, 0, err
	}
	if !measured {
		m = nil
	}
	if end = a.Until(m); !measured {
		p, err = arrivals.Pacer(a.Seed)
		return p, end, err
	}
	if arrivals = a.Repeat(arrivals, m); end > 0 {
		p, err = arrivals.Exactly(end, a.Seed)
	} else {
		p, err = arrivals.Pacer(a.Seed)
	}
	return p, end, err
}

// Repeat repeats measured arrivals for as long as the traffic lasts.
func (a *Asked) Repeat(arrivals Arrivals, m *Measured) Arrivals {
	if m == nil || a.Rate != "" {
		return arrivals
	}
	if until := a.Until(m); until > 0 {
		return arrivals.Repeat(until)
	}
	return arrivals.Repeat(time.Duration(float64(a.Requests)/max(arrivals.Rate(0), 1e-3)*2e9) + time.Hour)
}

// A Description describes a workload in words, with its source.
type Description struct {
	Source string // trace, closed-loop, measured, bursts, poisson or constant
	Text   string
	Notes  []string // about the workload: oddities, and parts that are not simulated
}

// Describe describes the workload.
func (a *Asked) Describe(m *Measured, t *Trace) (d Description, err error) {
	if a.Trace != "" {
		d = Description{Source: "trace", Text: "trace " + a.Trace, Notes: t.listOddities()}
		if a.Speed != 1 {
			d.Text += fmt.Sprintf(" at %g times its speed", a.Speed)
		}
		return d, nil
	}
	spec, lengths, err := a.Spec(m)
	if err != nil {
		return d, err
	}
	if loop := a.ClosedLoop(m); loop.Clients > 0 {
		d = a.describeLoop(m, loop, lengths)
	} else if d, err = a.describeArrivals(m, lengths); err != nil {
		return d, err
	}
	if d.Source != "measured" {
		d.Text += fmt.Sprintf("; prompts %s, outputs %s tokens", spec.Prompt, spec.Output)
	}
	return d, nil
}

const independentLengths = "metrics show the lengths of prompts and answers, not which go together: " +
	"they are drawn independently"

// describeLoop describes a closed loop. Lengths names the lengths that are measured.
func (a *Asked) describeLoop(m *Measured, loop Loop, lengths []string) Description {
	d := Description{Source: "closed-loop"}
	d.Text = fmt.Sprintf("%d closed-loop clients that send the next request", loop.Clients)
	if loop.Pause > 0 {
		d.Text += " " + loop.Pause.Round(time.Millisecond).String() + " after an answer"
	} else {
		d.Text += " when they have their answer"
	}
	if a.Concurrency == 0 {
		d.Text += fmt.Sprintf(": the number of requests in flight on %s hardly changed", m.Source)
		d.Notes = []string{"the load is treated as a closed loop, because the number of requests in flight stayed " +
			"the same " +
			"while requests came and went; use --concurrency for more users, " +
			"and --concurrency 0 to simulate the same arrivals as an open loop", independentLengths}
		if len(lengths) > 1 && a.RateScale == 1 {
			d.Source = "measured"
		}
	}
	return d
}

// describeArrivals describes an open loop. Lengths names the lengths that are measured.
func (a *Asked) describeArrivals(m *Measured, lengths []string) (d Description, err error) {
	arrivals, measured, err := a.Arrivals(m)
	if err != nil {
		return d, err
	}
	how := arrivals.describeRegularity()
	switch {
	case arrivals.CV < 1:
		d.Source = "constant"
	case arrivals.CV > 1:
		d.Source = "bursts"
	default:
		d.Source = "poisson"
	}
	d.Text = fmt.Sprintf("%s requests/s, %s", cmp.Or(a.Rate, "?"), how)
	if measured {
		d.Text = fmt.Sprintf("the arrivals of %s, %s", m.Source, how)
		if len(lengths) > 1 {
			d.Source = "measured"
			d.Text = fmt.Sprintf("measured on %s (%.0f requests in %s), %s",
				m.Source, m.Workload.Requests(), m.To.Sub(m.From).Round(time.Second), how)
		}
		d.Notes = []string{independentLengths + ". The clients do not look closed-loop: " +
			"above capacity the simulated queue grows, even if real clients would wait"}
	}
	if a.RateScale != 1 {
		d.Text += fmt.Sprintf(", times %g", a.RateScale)
	}
	return d, nil
}

// describeRegularity says how even the arrivals are.
func (a *Arrivals) describeRegularity() string {
	switch {
	case a.CV == 0:
		return "evenly spaced"
	case a.CV == 1:
		return "Poisson"
	case a.CV < 1:
		return fmt.Sprintf("more even than Poisson (variation %.3g)", a.CV)
	}
	return fmt.Sprintf("bursty (variation %.3g)", a.CV)
}

// longGap is the length from which a gap in a trace is reported, relative to the mean time between requests.
const longGap = 1000

// listOddities lists parts of a trace that are not replayed, and peculiarities.
func (t *Trace) listOddities() []string {
	var out []string
	for _, reason := range slices.Sorted(maps.Keys(t.Skipped)) {
		out = append(out, fmt.Sprintf("left out of the trace: %d × %s", t.Skipped[reason], reason))
	}
	if t.Truncated {
		out = append(out, fmt.Sprintf("the trace goes on after %d requests; the rest is left out", len(t.Requests)))
	}
	withoutOutput, gaps, longest := 0, 0, time.Duration(0)
	mean := t.Duration() / time.Duration(max(len(t.Requests)-1, 1))
	for i, r := range t.Requests {
		if r.OutputTokens == 0 {
			withoutOutput++
		}
		if i == 0 {
			continue
		}
		if gap := r.Arrival - t.Requests[i-1].Arrival; gap > longGap*mean && gap > time.Minute {
			gaps, longest = gaps+1, max(longest, gap)
		}
	}
	if withoutOutput > 0 {
		out = append(out, fmt.Sprintf("%d requests of the trace have no output length; they get %d tokens",
			withoutOutput, UsualOutput))
	}
	if gaps > 0 {
		out = append(out, fmt.Sprintf("gaps in the trace: %d without a request, the longest %s; they are replayed",
			gaps, longest.Round(time.Second)))
	}
	return out
}
