package burnrate

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
)

func TestLevels(t *testing.T) {
	const page, ticket = catalog.Page, catalog.Ticket
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-6 })
	for period, want := range map[string][]Level{
		// The Google SRE workbook's, chapter 5.
		"30d": {
			{page, 14.4, 0.02, time.Hour, 5 * time.Minute, 0},
			{page, 6, 0.05, 6 * time.Hour, 30 * time.Minute, 0},
			{ticket, 3, 3.0 / 720, time.Hour, 5 * time.Minute, 0},
			{ticket, 1, 0.1, 3 * day, 6 * time.Hour, 0},
		},
		"28d": {
			{page, 13.44, 0.02, time.Hour, 5 * time.Minute, 0},
			{page, 5.6, 0.05, 6 * time.Hour, 30 * time.Minute, 0},
			{ticket, 2.8, 3.0 / 720, time.Hour, 5 * time.Minute, 0},
			{ticket, 1, 3.0 / 28, 3 * day, 6 * time.Hour, 0},
		},
		"7d": {
			{page, 13.44, 0.02, 15 * time.Minute, 5 * time.Minute, 0},
			{page, 5.6, 0.05, 90 * time.Minute, 10 * time.Minute, 0},
			{ticket, 2.8, 3.0 / 720, 15 * time.Minute, 5 * time.Minute, 0},
			{ticket, 1, 18.0 / 168, 18 * time.Hour, 90 * time.Minute, 0},
		},
	} {
		t.Run(period, func(t *testing.T) {
			d, err := ParsePeriod(period)
			must.Succeed(t, err)
			got, err := Levels(d)
			must.Succeed(t, err)
			must.Equal(t, want, got, near)
		})
	}
}

func TestAlgebraOfBurnRates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := time.Duration(rapid.IntRange(7, 92).Draw(t, "days")) * day
		budget := rapid.Float64Range(1e-5, 0.99).Draw(t, "budget")
		levels, err := Levels(period)
		must.Succeed(t, err)
		for i, l := range levels {
			if l.Factor < 1 {
				t.Errorf("%+v fires while the promise is kept", l)
			}
			if l.Short < Base || l.Short >= l.Long || l.Long > period {
				t.Errorf("%+v: windows out of order", l)
			}
			if spent := l.Factor * l.Long.Hours() / period.Hours(); math.Abs(spent-l.Spent) > 1e-9 || spent < 0.003 || spent > 0.3 {
				t.Errorf("%+v spends %g", l, spent)
			}
			if i > 0 && (l.Factor >= levels[i-1].Factor || l.Long <= levels[i-1].Long && l.Severity == levels[i-1].Severity || l.Severity > levels[i-1].Severity) {
				t.Errorf("%+v is no slower than %+v", l, levels[i-1])
			}
			bad := rapid.Float64Range(0, 1).Draw(t, "bad")
			took, ok := l.Detects(budget, bad)
			if ok != (bad > l.Threshold(budget)) {
				t.Errorf("%+v: detects %g of %g: %v", l, bad, budget, ok)
			}
			if !ok {
				continue
			}
			if !l.Reachable(budget) {
				t.Errorf("%+v is reached with a budget of %g, but said to be out of reach", l, budget)
			}
			// When it is reached, exactly Spent of the budget is gone: budget × period
			// events at an even rate may be bad, and bad × took were.
			spent := bad * float64(took) / (budget * float64(period))
			if took > l.Long || math.Abs(spent-l.Spent) > 1e-3*l.Spent+1e-9/budget {
				t.Errorf("%+v: after %s of %g bad, %g of the budget %g is spent", l, took, bad, spent, budget)
			}
		}
	})
}

// TestFastPagesAskForMostEvents looks at the share of bad events that pages at once.
func TestFastPagesAskForMostEvents(t *testing.T) {
	fast := Fast(slo.DefaultPeriod, DefaultFast)
	for budget, want := range map[float64]float64{0.05: 0.5, 0.01: 0.5, 0.001: 0.108, 0.0001: 0.0108} {
		if got := fast.Threshold(budget); math.Abs(got-want) > 1e-9 || !fast.Reachable(budget) {
			t.Errorf("a budget of %g: pages at %g, want %g", budget, got, want)
		}
	}
	if fast.Reachable(0.5) {
		t.Error("half of the events are late as promised, and somebody is woken")
	}
}

func TestPeriodsAreRefused(t *testing.T) {
	for period, want := range map[string]string{
		"1h":   "want whole days from 7d to 92d",
		"6d":   "want whole days from 7d to 92d",
		"100d": "want whole days from 7d to 92d",
		"7d1h": "want whole days from 7d to 92d",
		"":     "empty duration",
		"week": `"week"`,
		"-7d":  `"-7d"`,
	} {
		_, err := ParsePeriod(period)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", period, err, want)
		}
		if !strings.Contains(hint.Of(err), "--slo-period 30d") {
			t.Errorf("%q: no way out: %q", period, hint.Of(err))
		}
	}
	if d, err := ParsePeriod("4w"); err != nil || d != 28*day {
		t.Errorf("4w is %s, %v", d, err)
	}
}
