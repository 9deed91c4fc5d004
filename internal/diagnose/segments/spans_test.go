package segments

import (
	"slices"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/period"
)

// TestALoadTestIsNoNormal has requests that hit the prefix cache for a while, after traffic that
// never did and before the same traffic again.
func TestALoadTestIsNoNormal(t *testing.T) {
	segment := func(at int, seconds, rate, cached float64) Segment {
		return Segment{run: run{{from: at, to: at + 1}}, service: service{
			seconds: seconds, requests: rate * seconds, answers: rate * seconds, ttft: 0.05, gap: 0.01, cached: cached,
		}}
	}
	for seconds, want := range map[float64]int{60: 0, 300: 0, 1200: 1} { // a cache that worked for so long is what was normal
		normal, _ := Limits{}.normalSegment([]Segment{segment(0, 3200, 1.5, 0), segment(1, seconds, 12, 0.9)}, service{})
		if len(normal) != 1 || normal[0].from != want {
			t.Errorf("%.0f s: normal is %v, not segment %d", seconds, normal, want)
		}
	}
	// Soon after the start there is little traffic to compare it with: that which came back tells.
	before, test, after := segment(1, 80, 2, 0.05), segment(2, 50, 35, 0.9), segment(3, 30, 2, 0.05)
	for name, tc := range map[string]struct {
		segs []Segment
		now  Segment
		want int
	}{
		"the traffic of before":            {[]Segment{before, test}, after, 1},
		"worse than it was before":         {[]Segment{segment(1, 80, 2, 0.6), test}, segment(3, 30, 2, 0), 2},
		"a fault that comes again":         {[]Segment{segment(0, 90, 2, 0.9), before, test}, after, 2},
		"longer than the traffic before":   {[]Segment{before, segment(2, 300, 35, 0.9)}, after, 2},
		"too few requests after the test":  {[]Segment{before, test}, segment(3, 2, 1, 0), 2},
		"a cache that fills after a start": {[]Segment{before, segment(2, 900, 2, 0.9)}, after, 2},
	} {
		normal, _ := Limits{}.normalSegment(tc.segs, tc.now.service)
		if len(normal) == 0 || normal[len(normal)-1].from != tc.want {
			t.Errorf("%s: normal is %v, not segment %d", name, normal, tc.want)
		}
	}
}

// Windows of targets that are scraped at different moments are asked in one go where
// that changes none of the scrapes that they hold.
func TestWindowsInCommon(t *testing.T) {
	const step = 15 * time.Second
	noon := time.Unix(1_800_000_000, 0)
	// A span of a target that is scraped at a phase of the grid, over so many intervals.
	span := func(phase time.Duration, intervals int) Span {
		last := noon.Add(-phase)
		from := last.Add(-time.Duration(intervals) * step)
		return Span{Window: period.Period{From: from.Add(-Edge), To: last}, before: from.Add(-step)}
	}
	tests := map[string]struct {
		spans    []Span
		distinct int
	}{
		"four phases":                      {[]Span{span(0, 4), span(4*time.Second, 4), span(9*time.Second, 4), span(14*time.Second, 4)}, 1},
		"another length":                   {[]Span{span(0, 4), span(4*time.Second, 4), span(9*time.Second, 8)}, 2},
		"too short for what rate() adds":   {[]Span{span(0, 1), span(9*time.Second, 1)}, 2},
		"no scrape was seen before either": {[]Span{{Window: period.Period{From: noon.Add(-time.Minute), To: noon}}, {Window: period.Period{From: noon.Add(-61 * time.Second), To: noon}}}, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			spans := append([]Span(nil), tt.spans...)
			shareSpans(spans, step)
			distinct := map[period.Period]bool{}
			for i, s := range spans {
				distinct[s.Window] = true
				was := tt.spans[i]
				if s.Window.From.After(was.Window.From) || !was.before.IsZero() && !was.before.Before(s.Window.From) {
					t.Errorf("target %d: from %s on, want it after the scrape at %s and not after %s", i, s.Window.From, was.before, was.Window.From)
				}
				if s.Window.To.Before(was.Window.To) || s.Window.To.After(noon) {
					t.Errorf("target %d: up to %s, want %s or later", i, s.Window.To, was.Window.To)
				}
			}
			if len(distinct) != tt.distinct {
				t.Errorf("%d windows, want %d: %v", len(distinct), tt.distinct, distinct)
			}
		})
	}
}

// However many targets there are, what is asked is bounded by the time that it lies in:
// a thousand that fall ill at once are one incident, and not a thousand sets of queries.
func TestSpansOfManyTargetsAreBounded(t *testing.T) {
	const step, many = 15 * time.Second, 1000
	noon := time.Unix(1_800_000_000, 0)
	for name, tt := range map[string]struct {
		intervals int
		whole     bool
		normal    time.Duration
		source    BaselineSource
	}{
		"just ill":                   {1, false, 20 * time.Minute, FromHistory},
		"for a while":                {4, false, 20 * time.Minute, FromHistory},
		"just begun":                 {2, true, 20 * time.Minute, FromHistory},
		"scraped once":               {0, true, 20 * time.Minute, FromHistory},
		"an interval before":         {4, false, step, FromHistory},
		"totals of a long life only": {4, true, 20 * time.Minute, FromLifetime},
	} {
		t.Run(name, func(t *testing.T) {
			var spans []Span
			for i := range many {
				last := noon.Add(-step * time.Duration(i) / many)
				from := last.Add(-time.Duration(tt.intervals) * step)
				h := &History{}
				for at := from; !at.After(last); at = at.Add(step) {
					h.at = append(h.at, at)
				}
				if !tt.whole {
					h.at = slices.Insert(h.at, 0, from.Add(-step))
				}
				s := Span{
					Window: period.Period{From: from.Add(-Edge), To: last}, Asked: last,
					Baseline: period.Period{From: from.Add(-tt.normal - Edge), To: from}, Source: tt.source,
				}
				if tt.source == FromLifetime {
					s.Baseline.From = noon.Add(-time.Hour)
				}
				if tt.intervals == 0 {
					s.Window.From = last.Add(-usualWindow)
				}
				s.markBefore(h, step)
				spans = append(spans, s)
			}
			was := slices.Clone(spans)
			shareSpans(spans, step)
			type asked struct {
				window  period.Period
				scrapes time.Time
			}
			windows, baselines := map[asked]bool{}, map[period.Period]bool{}
			for i, s := range spans {
				windows[asked{s.Window, s.Asked}] = true
				baselines[s.Baseline] = true
				if !s.before.Before(s.Window.From) || s.Window.From.After(was[i].Window.From) {
					t.Fatalf("target %d: its window begins at %s, want it after %s and not after %s", i, s.Window.From, s.before, was[i].Window.From)
				}
				off := []time.Duration{s.Baseline.From.Sub(was[i].Baseline.From), s.Baseline.To.Sub(was[i].Baseline.To)}
				if slices.ContainsFunc(off, func(d time.Duration) bool { return d.Abs() >= step+Edge }) {
					t.Fatalf("target %d: the baseline %v has other scrapes than its own %v", i, s.Baseline, was[i].Baseline)
				}
			}
			if len(windows) > mostSpans || len(baselines) > mostSpans {
				t.Errorf("%d windows and %d baselines of %d targets, want %d at most", len(windows), len(baselines), many, mostSpans)
			}
		})
	}
}

func TestLongBaselinesStayOnAGrid(t *testing.T) {
	noon := time.Unix(1_800_000_000, 0).Truncate(time.Hour)
	ago := func(from, to time.Duration) period.Period {
		return period.Period{From: noon.Add(-from), To: noon.Add(-to)}
	}
	for _, tt := range []struct{ of, want period.Period }{
		{ago(58*time.Minute, 2*time.Minute), ago(50*time.Minute, 10*time.Minute)},
		{ago(43*time.Minute, 2*time.Minute), ago(40*time.Minute, 5*time.Minute)},
		{ago(30*time.Minute, 0), ago(30*time.Minute, 0)},
		{ago(15*time.Minute+time.Second, time.Minute+time.Second), ago(15*time.Minute, 2*time.Minute)},
		{ago(7*time.Minute+time.Second, time.Second), ago(7*time.Minute+time.Second, time.Second)},
	} {
		if got := alignToStep(tt.of); got != tt.want {
			t.Errorf("%v became %v, want %v", tt.of, got, tt.want)
		}
	}
}

// A minute in which few clients happened to cancel is not what is normal for the hour after it.
func TestALuckyMinuteIsNotNormal(t *testing.T) {
	of := func(abandoned, answers float64) service {
		return service{requests: answers, answers: answers, abandoned: abandoned}
	}
	for _, tt := range []struct {
		now, was service
		worse    bool
	}{
		{of(0.57, 726), of(0.2, 15), false},
		{of(0.57, 726), of(0.2, 300), true},
		{of(0.6, 30), of(0, 15), true},
		{of(0.3, 10), of(0, 200), true},
	} {
		if got := (Limits{}).isWorse(tt.now, tt.was, clearly); got != tt.worse {
			t.Errorf("%.2f of %g, after %.2f of %g: worse %v, want %v",
				tt.now.abandoned, tt.now.answers, tt.was.abandoned, tt.was.answers, got, tt.worse)
		}
	}
}

// TestSharedBaselinesDoNotDependOnTheOthers: what one target is compared with is the same, whoever else is there.
func TestSharedBaselinesDoNotDependOnTheOthers(t *testing.T) {
	at, step := time.Unix(1_700_000_000, 0), 5*time.Second
	spans := func(phases ...time.Duration) (out []Span) {
		for _, p := range phases {
			out = append(out, Span{Source: FromHistory, Baseline: period.Period{From: at.Add(p - Edge), To: at.Add(p + time.Minute)}})
		}
		return out
	}
	few, more := spans(2*time.Second, 3*time.Second), spans(2*time.Second, 0, 4900*time.Millisecond, 4*time.Second, time.Second, 1500*time.Millisecond)
	shareBaselines(few, step)
	shareBaselines(more, step)
	want := period.Period{From: at.Add(step - Edge), To: at.Add(time.Minute)}
	for _, s := range append(few, more...) {
		if s.Baseline != want {
			t.Errorf("%v, want %v", s.Baseline, want)
		}
	}
}
