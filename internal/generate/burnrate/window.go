package burnrate

import (
	"fmt"
	"math"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
)

// The bounds of an objective's period. In less than a week the error budget is so small that single requests decide; a
// period longer than a quarter is of no use to anybody.
const (
	MinPeriod = 7 * day
	MaxPeriod = 92 * day
)

const day = 24 * time.Hour

// Base is the range of the recorded rates, and the shortest window: four scrapes at intervals of up to 75 seconds.
const Base = 5 * time.Minute

// A Level is a burn rate that deserves an alert. It must hold in the long window, so that it is significant, and in the
// short one, so that it still goes on.
type Level struct {
	Severity catalog.Severity // Page or Ticket

	// Factor is the burn rate: 1 spends the budget evenly over the period.
	Factor float64

	// Spent is the share of the budget that a burn at Factor spends in the long window: Factor × Long / period.
	Spent float64

	Long, Short time.Duration

	// Most bounds the share of bad events that the level needs; 0 means no bound. Only Fast's level has one.
	Most float64
}

// DefaultFast is the window of the fastest level: four scrapes at intervals of up to 30 seconds.
const DefaultFast = 2 * time.Minute

// fastMost is the share of bad events that is a fault under any budget.
const fastMost = 0.5

// Fast returns the level that pages after minutes: when most events are bad, or when the window spends half a percent
// of the period's budget. The workbook's fastest level takes 43 minutes under a budget of 5 %, even if all events are
// bad.
func Fast(period, window time.Duration) Level {
	const spent = 0.005
	return Level{
		Severity: catalog.Page, Factor: roundOff(spent * float64(period) / float64(window)), Spent: spent,
		Long: window, Short: window, Most: fastMost,
	}
}

// workbook lists the levels of the Google SRE workbook, chapter 5 ("Alerting on SLOs", table 5-8), for a period of 30
// days: the share of the budget that is spent, and the window. The factors 14.4, 6, 3 and 1 follow. The third level,
// factor 3, has a window of a day in the workbook, and of an hour here, so that a lasting burn is reported within the
// hour.
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

// ladder lists round windows.
var ladder = []time.Duration{
	5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 90 * time.Minute, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 8 * time.Hour,
	12 * time.Hour, 18 * time.Hour,
	day, 2 * day, 3 * day, 4 * day, 5 * day, 7 * day, 10 * day,
}

// nearestWindow returns the window of the ladder that is nearest in proportion.
func nearestWindow(d time.Duration) time.Duration {
	best := ladder[0]
	for _, w := range ladder {
		if distanceBetween(w.Seconds(), d.Seconds()) < distanceBetween(best.Seconds(), d.Seconds()) {
			best = w
		}
	}
	return best
}

// distanceBetween returns how far apart two positive numbers are in proportion; 0 if they are equal.
func distanceBetween(a, b float64) float64 { return math.Abs(math.Log(a / b)) }

// Levels returns the levels of a period except Fast: pages first, and the fastest of a severity first. For 30 days
// they are the workbook's. Other periods keep the shares of the budget and scale the windows, to round ones. The factor
// follows from both but is at least 1: a burn at 1 breaks no promise.
func Levels(period time.Duration) ([]Level, error) {
	if err := checkPeriod(period); err != nil {
		return nil, err
	}
	var out []Level
	for _, w := range workbook {
		l := Level{Severity: w.severity}
		l.Long = nearestWindow(time.Duration(float64(w.long) * float64(period) / float64(30*day)))
		l.Short = nearestWindow(l.Long / 12)
		l.Factor = max(1, roundOff(w.spent*float64(period)/float64(l.Long)))
		l.Spent = l.Factor * float64(l.Long) / float64(period)
		out = append(out, l)
	}
	return out, nil
}

func checkPeriod(period time.Duration) error {
	if period < MinPeriod || period > MaxPeriod || period%day != 0 {
		return hint.With(fmt.Errorf("an objective's period of %s: want whole days from %s to %s", formatSpan(period),
			formatSpan(MinPeriod), formatSpan(MaxPeriod)),
			"--slo-period 30d, 28d (whole weeks) or 7d")
	}
	return nil
}

// ParsePeriod reads a period such as 30d, 28d or 4w.
func ParsePeriod(s string) (time.Duration, error) {
	d, err := model.ParseDuration(s)
	if err != nil {
		return 0, hint.With(fmt.Errorf("an objective's period of %q: %w", s, err),
			"--slo-period 30d, 28d (whole weeks) or 7d")
	}
	return time.Duration(d), checkPeriod(time.Duration(d))
}

// Threshold returns the share of bad events that the level needs under a budget, the share of events that may be bad.
func (l Level) Threshold(budget float64) float64 {
	t := roundOff(l.Factor * budget)
	if l.Most > 0 {
		return min(t, l.Most)
	}
	return t
}

// Reachable reports whether a level is possible, since no more than all events can be bad, and means something: if
// more than a quarter may be bad, half is no fault.
func (l Level) Reachable(budget float64) bool {
	return l.Threshold(budget) < 1 && (l.Most == 0 || 2*budget <= l.Most)
}

// covers reports whether an incident that reaches another level has always reached l before.
func (l Level) covers(o Level, budget float64) bool {
	return l.Severity >= o.Severity && l.Long < o.Long && l.Long <= o.Short &&
		l.Threshold(budget) <= o.Threshold(budget)
}

// Detects returns how long after its beginning an incident reaches the level, if all events were good before and a
// share of them is bad since. ok is false if the share is too small. The rules take about half of Base longer,
// because they add up rates over Base.
func (l Level) Detects(budget, bad float64) (after time.Duration, ok bool) {
	t := l.Threshold(budget)
	if bad <= t {
		return 0, false
	}
	return time.Duration(float64(l.Long) * t / bad), true
}

// formatSpan writes a duration in PromQL's notation: "5m", "1d". Weeks are written in days: "30d", not "4w2d".
func formatSpan(d time.Duration) string {
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return model.Duration(d).String()
}

// roundOff removes the error of binary fractions: 1 − 0.999 is 0.001.
func roundOff(v float64) float64 {
	const digits = 1e9
	return math.Round(v*digits) / digits
}
