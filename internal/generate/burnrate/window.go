package burnrate

import (
	"fmt"
	"math"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
)

// The periods over which a promise can hold. Below a week an error budget is
// so small that single requests decide; above a quarter nobody remembers it.
const (
	DefaultPeriod = 30 * day
	MinPeriod     = 7 * day
	MaxPeriod     = 92 * day
)

const day = 24 * time.Hour

// Base is the range of the rates that everything else adds up, and the
// shortest window: four scrapes at up to 75 seconds.
const Base = 5 * time.Minute

// A Level is one burn rate that is worth telling somebody: over its long window
// because it matters, over its short one because it still goes on.
type Level struct {
	Severity catalog.Severity // Page or Ticket

	// Factor is the burn rate: how many times faster than evenly over the period
	// the budget is spent. At 1 it ends with the period.
	Factor float64

	// Spent is the share of the period's budget that a burn at Factor spends in
	// the long window: Factor × Long / period.
	Spent float64

	Long, Short time.Duration

	// Most bounds the share of bad events that the level asks for; 0 is no bound.
	Most float64
}

// DefaultFast is the window of the fastest level: four scrapes at up to 30 seconds.
const DefaultFast = 2 * time.Minute

// mostLate is a fault that nobody needs a budget to judge: half of all events are bad.
const mostLate = 0.5

// Fast returns the level that pages while most events are bad, or in two minutes so much
// of the budget goes as otherwise in a fifth of a percent of the period. The workbook's
// fastest level takes 43 minutes over a budget of 5 %: 2 % of it is 43 minutes of nothing
// but bad events.
func Fast(period, window time.Duration) Level {
	const spent = 0.005
	return Level{Severity: catalog.Page, Factor: rounded(spent * float64(period) / float64(window)), Spent: spent, Long: window, Short: window, Most: mostLate}
}

// workbook lists the levels of the Google SRE workbook, chapter 5 ("Alerting on
// SLOs", table 5-8), for a period of 30 days: how much of the budget may be
// spent in which window. The factors 14.4, 6, 3 and 1 follow. Its third level, 3 in a
// day, is asked of an hour: a burn that lasts is told within the hour, not within the day.
var workbook = []struct {
	severity catalog.Severity
	spent    float64
	long     time.Duration
}{
	{catalog.Page, 0.02, time.Hour},
	{catalog.Page, 0.05, 6 * time.Hour},
	{catalog.Ticket, 3.0 / (30 * 24), time.Hour},
	{catalog.Ticket, 0.10, 3 * day},
}

// ladder lists the windows that people recognise on a dashboard.
var ladder = []time.Duration{
	5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 90 * time.Minute, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 8 * time.Hour, 12 * time.Hour, 18 * time.Hour,
	day, 2 * day, 3 * day, 4 * day, 5 * day, 7 * day, 10 * day,
}

// nearest returns the window of the ladder that is nearest in proportion.
func nearest(d time.Duration) time.Duration {
	best := ladder[0]
	for _, w := range ladder {
		if distance(w.Seconds(), d.Seconds()) < distance(best.Seconds(), d.Seconds()) {
			best = w
		}
	}
	return best
}

// distance is how far apart two positive numbers are in proportion, 0 for none.
func distance(a, b float64) float64 { return math.Abs(math.Log(a / b)) }

// Levels returns the levels of a period but Fast, pages first and the fastest of a
// severity first. For 30 days they are the workbook's. Other periods keep the shares of the budget and scale the
// windows, to the nearest usual one; the factor follows from both, but is never
// below 1: a burn that lasts the whole period breaks no promise.
func Levels(period time.Duration) ([]Level, error) {
	if err := checkPeriod(period); err != nil {
		return nil, err
	}
	var out []Level
	for _, w := range workbook {
		l := Level{Severity: w.severity}
		l.Long = nearest(time.Duration(float64(w.long) * float64(period) / float64(30*day)))
		l.Short = nearest(l.Long / 12)
		l.Factor = max(1, rounded(w.spent*float64(period)/float64(l.Long)))
		l.Spent = l.Factor * float64(l.Long) / float64(period)
		out = append(out, l)
	}
	return out, nil
}

func checkPeriod(period time.Duration) error {
	if period < MinPeriod || period > MaxPeriod || period%day != 0 {
		return hint.With(fmt.Errorf("an objective's period of %s: want whole days from %s to %s", span(period), span(MinPeriod), span(MaxPeriod)),
			"--slo-period 30d, 28d (whole weeks) or 7d")
	}
	return nil
}

// ParsePeriod reads a period such as 30d, 28d or 4w.
func ParsePeriod(s string) (time.Duration, error) {
	d, err := model.ParseDuration(s)
	if err != nil {
		return 0, hint.With(fmt.Errorf("an objective's period of %q: %w", s, err), "--slo-period 30d, 28d (whole weeks) or 7d")
	}
	return time.Duration(d), checkPeriod(time.Duration(d))
}

// Threshold returns the share of bad events beyond which the level is reached,
// given the budget: the share of events that may be bad.
func (l Level) Threshold(budget float64) float64 {
	t := rounded(l.Factor * budget)
	if l.Most > 0 {
		return min(t, l.Most)
	}
	return t
}

// Reachable reports whether the level can be reached at all, no more than all events can
// be bad, and means something: beyond a quarter of bad events that were promised, half is
// no fault.
func (l Level) Reachable(budget float64) bool {
	return l.Threshold(budget) < 1 && (l.Most == 0 || 2*budget <= l.Most)
}

// covers reports whether whatever reaches another level has reached l before.
func (l Level) covers(o Level, budget float64) bool {
	return l.Severity >= o.Severity && l.Long < o.Long && l.Long <= o.Short && l.Threshold(budget) <= o.Threshold(budget)
}

// Detects returns how long after the beginning of an incident the level is
// reached, where events were all good before and a share of them is bad since;
// false where the share is too small to reach it. The rules take about half of
// Base longer: they add up rates over Base.
func (l Level) Detects(budget, bad float64) (time.Duration, bool) {
	t := l.Threshold(budget)
	if bad <= t {
		return 0, false
	}
	return time.Duration(float64(l.Long) * t / bad), true
}

// span writes a duration as PromQL has it: "5m", "1d". Weeks are written in
// days: nobody says "4w2d" of a month.
func span(d time.Duration) string {
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return model.Duration(d).String()
}

// rounded takes off what binary fractions add: 1 − 0.999 is 0.001.
func rounded(v float64) float64 {
	const digits = 1e9
	return math.Round(v*digits) / digits
}
