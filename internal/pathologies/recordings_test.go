package pathologies_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/slo"
)

// truth is what was done to a recorded server.
type truth struct {
	Verdict   string
	Accept    []string
	MustNotBe any `json:"must_not_be"`
	Phases    []struct {
		Name    string
		From    int64 `json:"from_unix_ms"`
		To      int64 `json:"to_unix_ms"`
		Verdict string
		Accept  []string
	}
}

func TestTable(t *testing.T) {
	files, _ := filepath.Glob("../../testdata/recordings/*.tar.zst")
	shared, _ := filepath.Glob("../../../shared/recordings/*.tar.zst")
	files = append(files, shared...)
	only := os.Getenv("ONLY")
	right, total, early, earlyTotal := 0, 0, 0, 0
	scanned, alarms := 0, 0
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".tar.zst")
		if only != "" && !strings.Contains(name, only) {
			continue
		}
		b, err := os.ReadFile(strings.TrimSuffix(f, ".tar.zst") + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var tr truth
		if err := json.Unmarshal(b, &tr); err != nil {
			t.Fatal(err)
		}
		rec, err := recording.Open(f)
		if err != nil {
			t.Fatal(err)
		}
		store, err := embedded.Open(embedded.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Load(t.Context(), rec, nil); err != nil {
			t.Fatal(err)
		}
		first, _ := rec.Times()
		created, _ := store.FirstCreated(store.Targets()[0])
		diag := func(ms int64) diagnose.Diagnosis {
			var set diagnose.Settings
			if os.Getenv("SLO") != "" {
				set.Objectives = &slo.File{Objectives: []slo.Objective{{TTFTP95: time.Second, ITLP95: 150 * time.Millisecond}}}
			}
			d, err := diagnose.Run(t.Context(), store, diagnose.Options{Settings: set, At: time.UnixMilli(ms), First: first, Created: created, Interval: time.Second, Pathologies: pathologies.All(), Every: true})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return d
		}
		for i, p := range tr.Phases {
			want := []string{"healthy", "idle"}
			last := i == len(tr.Phases)-1
			if p.Verdict != "" {
				want = append([]string{p.Verdict}, p.Accept...)
			}
			if last {
				want = append([]string{tr.Verdict}, tr.Accept...)
				if name == "saturation" {
					want = append(want, "concurrency-limit")
				}
			}
			if os.Getenv("SCAN") != "" && (slices.Contains(want, "healthy") || slices.Contains(want, "idle")) {
				for ms := p.From + 20000; ms <= p.To; ms += 5000 {
					scanned++
					if got := diag(ms); !slices.Contains([]string{"healthy", "idle"}, got.Verdict.ID) && !slices.Contains(want, got.Verdict.ID) {
						alarms++
						t.Logf("ALARM %s %s +%ds %s %.2f win %.0f base %.0f %s", name, p.Name, (ms-p.From)/1000, got.Verdict.ID, got.Verdict.Confidence, got.Window.Length().Seconds(), got.Baseline.Length().Seconds(), got.Source)
					}
				}
				continue
			}
			d := diag(p.To)
			ok := slices.Contains(want, d.Verdict.ID)
			total++
			mark := "WRONG"
			if ok {
				right++
				mark = "ok   "
			}
			line := fmt.Sprintf("%s %-28s %-10s want %-22s got %-22s %.2f win %.0fs base %.0fs %s", mark, name, p.Name, want[0], d.Verdict.ID, d.Verdict.Confidence, d.Window.Length().Seconds(), d.Baseline.Length().Seconds(), d.Source)
			if !slices.Contains([]string{"healthy", "idle"}, want[0]) {
				when := -1
				for s := int64(3); s <= 30; s += 3 {
					if got := diag(p.From + s*1000); slices.Contains(want, got.Verdict.ID) {
						when = int(s)
						break
					}
				}
				earlyTotal++
				if when >= 0 && when <= 15 {
					early++
				}
				line += fmt.Sprintf(" first right +%ds", when)
			}
			var firing []string
			for _, f := range d.Findings {
				if f.Status == diagnose.Firing {
					s := f.Pathology.ID
					if f.InhibitedBy != "" {
						s += "(" + f.InhibitedBy + ")"
					}
					firing = append(firing, s)
				}
			}
			t.Log(line, firing)
			if (!ok || os.Getenv("V") != "") && os.Getenv("V") != "0" {
				for _, f := range d.Findings {
					if os.Getenv("F") != "" && !strings.Contains(f.Pathology.ID, os.Getenv("F")) {
						continue
					}
					if slices.Contains(want, f.Pathology.ID) || f.Status == diagnose.Firing {
						for _, e := range f.Evidence {
							t.Logf("      %s %s %s=%.4g (base %.4g) %s %.4g %s holds=%d %s", f.Pathology.ID, f.Status, e.Signal.Name, e.Value.V, e.Baseline.V, e.Op, e.Threshold, e.Source, e.Holds, e.Value.Reason)
						}
					}
				}
			}
		}
		store.Close()
		rec.Close()
	}
	t.Logf("scanned %d alarms %d", scanned, alarms)
	t.Logf("right %d of %d; early %d of %d", right, total, early, earlyTotal)
}
