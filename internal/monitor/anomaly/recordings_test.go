package anomaly_test

import (
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/monitor/anomaly"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

var whole = flag.Bool("all", false, "compare on all recordings: forty seconds of one processor")

type truth struct {
	Verdict string
	Accept  []string
	Phases  []struct {
		Name    string
		FromMS  int64 `json:"from_unix_ms"`
		ToMS    int64 `json:"to_unix_ms"`
		OnsetMS int64 `json:"onset_unix_ms"`
		Verdict string
		Accept  []string
	}
}

func wrong(id string) bool {
	return id != "" && !slices.Contains([]string{diagnose.Healthy, diagnose.Idle, diagnose.InsufficientData,
		"workload-shift", "engine-restart"}, id)
}

// TestRecordings lets the detector and the judgement watch the recorded incidents side by
// side: how soon each notices, and what each reports while all is well. Its log is the table
// of docs/lab/anomaly.md.
func TestRecordings(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/recordings/*.tar.zst")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	if !*whole {
		files = slices.DeleteFunc(files, func(f string) bool {
			return !slices.Contains([]string{"thrashing-deep", "one-replica-down", "slow-decode-throttled"},
				strings.TrimSuffix(filepath.Base(f), ".tar.zst"))
		})
	}
	const every = 2 * time.Second // as often as a healthy phase of 50 s allows twenty values
	type side struct {
		found       int
		delays      []float64
		falseAlarms int
	}
	var detector, correlation, judgement side
	incidents, healthy := 0, time.Duration(0)
	for _, file := range files {
		store, first, last := embeddedtest.Open(t, file, nil)
		var tr truth
		embeddedtest.ReadTruth(t, file, &tr)
		watcher := anomaly.Watcher{Catalogue: pathologies.All()}
		type moment struct {
			at            time.Time
			any, together bool
			verdict       string
			alarming      bool
		}
		var all []moment
		for at := first.Add(every); !at.After(last); at = at.Add(every) {
			d, err := diagnose.Run(t.Context(), store, diagnose.Options{
				At: at, First: first, Interval: time.Second, Every: true, Pathologies: pathologies.All()})
			must.Succeed(t, err)
			m := moment{at: at, verdict: d.Verdict.ID, alarming: d.Status == diagnose.Firing &&
				d.Verdict.Severity > catalog.Info}
			for _, a := range watcher.Observe(&d) {
				m.any, m.together = true, m.together || a.Pathology != nil
			}
			all = append(all, m)
		}
		for k, p := range tr.Phases {
			accepted := slices.Concat([]string{p.Verdict}, p.Accept)
			if k == len(tr.Phases)-1 {
				accepted = slices.Concat([]string{tr.Verdict}, tr.Accept, p.Accept)
			}
			from, to := time.UnixMilli(max(p.FromMS, p.OnsetMS)), time.UnixMilli(p.ToMS)
			within := slices.DeleteFunc(slices.Clone(all),
				func(m moment) bool { return m.at.Before(from) || m.at.After(to) })
			if p.Name == "healthy" {
				healthy += to.Sub(from)
				episode := func(is func(moment) bool) (n int) {
					for i, m := range within {
						if is(m) && (i == 0 || !is(within[i-1])) {
							n++
						}
					}
					return n
				}
				detector.falseAlarms += episode(func(m moment) bool { return m.any && !m.together })
				correlation.falseAlarms += episode(func(m moment) bool { return m.together })
				judgement.falseAlarms += episode(func(m moment) bool { return m.alarming })
				continue
			}
			if !slices.ContainsFunc(accepted, wrong) || slices.Contains(accepted, diagnose.Healthy) ||
				slices.Contains(accepted, diagnose.Idle) {
				continue
			}
			incidents++
			see := func(s *side, is func(moment) bool) {
				if i := slices.IndexFunc(within, is); i >= 0 {
					s.found++
					s.delays = append(s.delays, within[i].at.Sub(from).Seconds())
				}
			}
			see(&detector, func(m moment) bool { return m.any })
			see(&correlation, func(m moment) bool { return m.together })
			see(&judgement, func(m moment) bool { return m.alarming && slices.Contains(accepted, m.verdict) })
			t.Logf("%s, %s (%s)", strings.TrimSuffix(filepath.Base(file), ".tar.zst"), p.Name,
				strings.Join(accepted, ", "))
		}
		store.Close()
	}
	for _, s := range []struct {
		name string
		*side
	}{{"any anomaly", &detector}, {"correlation", &correlation}, {"judgement, with the cause", &judgement}} {
		slices.Sort(s.delays)
		t.Logf("%s: noticed %d of %d; after %.0f s (median), %.0f s (90 %%); %d false alarms in %.0f min of healthy traffic",
			s.name, s.found, incidents, stat.Quantile(s.delays, 0.5), stat.Quantile(s.delays, 0.9), s.falseAlarms,
			healthy.Minutes())
	}
	if judgement.found < incidents*9/10 || judgement.falseAlarms > 1 {
		t.Errorf("the judgement found %d of %d, with %d false alarms", judgement.found, incidents,
			judgement.falseAlarms)
	}
	if detector.found == 0 {
		t.Error("the detector noticed nothing: was it fed?")
	}
}
