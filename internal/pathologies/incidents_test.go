package pathologies_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

// incidentsTable is where TestIncidents leaves its table for TestVerdicts' page.
const incidentsTable = "testdata/incidents.md"

// TestIncidents judges public incidents, which the rules were not made with, 30, 60 and 120 s after their onset and
// at their end (testdata/incidents/README.md): in the end no fault is called well, and nothing that is none is a fault.
func TestIncidents(t *testing.T) {
	files, err := filepath.Glob("../../testdata/incidents/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no incidents: %v", err)
	}
	var table bytes.Buffer
	for _, file := range files {
		var in struct {
			Link, What, Verdict string
			First               []string
			OnsetMS             int64 `json:"onset_unix_ms"`
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &in)
		}
		must.Succeed(t, err)
		p, last := playIncident(t, strings.TrimSuffix(file, ".json")+".tar.zst")
		onset, want := time.UnixMilli(in.OnsetMS), strings.Split(in.Verdict, " or ")
		var now []string
		for _, at := range []time.Time{onset.Add(30 * time.Second), onset.Add(time.Minute), onset.Add(2 * time.Minute), last} {
			now = append(now, p.diagnose(t, at).Verdict.ID)
		}
		end := now[len(now)-1]
		if quiet(end) != quiet(want[0]) {
			t.Errorf("%s: %s in the end, want %s", p.name, end, in.Verdict)
		}
		right := "no"
		if slices.Contains(want, end) || quiet(end) && quiet(want[0]) {
			right = "yes"
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s | %s |\n", in.Link, in.What, in.Verdict, strings.Join(in.First, ", "), strings.Join(now, ", "), right)
	}
	if *update {
		must.Succeed(t, os.WriteFile(incidentsTable, table.Bytes(), 0o644))
	}
	golden, err := os.ReadFile(incidentsTable)
	if err != nil || !bytes.Equal(golden, table.Bytes()) {
		t.Errorf("the answers changed; if that is wanted, run with -update:\n%s", table.String())
	}
}

// TestMendedIncidents judges incidents that were answered wrongly once, at their end.
func TestMendedIncidents(t *testing.T) {
	files, err := filepath.Glob("../../testdata/incidents/mended/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no incidents: %v", err)
	}
	for _, file := range files {
		var in struct{ What, Verdict string }
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &in)
		}
		must.Succeed(t, err)
		p, last := playIncident(t, strings.TrimSuffix(file, ".json")+".tar.zst")
		if d := p.diagnose(t, last); !slices.Contains(strings.Split(in.Verdict, " or "), d.Verdict.ID) {
			t.Errorf("%s: %s: %s, want %s; %s", p.name, d.Verdict.ID, d.Verdict.Summary, in.Verdict, in.What)
		}
	}
}

// playIncident loads a recording without a truth, and returns the time of its last page too.
func playIncident(t *testing.T, file string) (p *played, last time.Time) {
	t.Helper()
	rec, err := recording.Open(t.Context(), file)
	must.Succeed(t, err)
	defer rec.Close()
	p = &played{name: strings.TrimSuffix(filepath.Base(file), ".tar.zst"), interval: time.Second}
	p.store, err = embedded.Open(embedded.Config{})
	must.Succeed(t, err)
	t.Cleanup(func() { p.store.Close() })
	pages, target := 0, ""
	if err := rec.Scrapes(func(sc recording.Scrape) error {
		if target == "" || target == sc.Target {
			target, pages = sc.Target, pages+1
		}
		return p.scrape(sc)
	}); err != nil {
		t.Fatal(err)
	}
	_, last = rec.Times()
	for _, t := range p.store.Targets() {
		if at, ok := p.store.FirstCreated(t); ok && (p.created.IsZero() || at.Before(p.created)) {
			p.created = at
		}
	}
	if first, _ := rec.Times(); pages > 1 {
		p.interval = last.Sub(first).Truncate(time.Second) / time.Duration(pages-1)
	}
	return p, last
}
