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
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

// incidentsTable is where TestIncidents leaves its table for TestVerdicts' page.
const incidentsTable = "testdata/incidents.md"

// TestIncidents judges public incidents that the rules were not made from (testdata/incidents/README.md), 30, 60 and
// 120 s after their onset and at their end, where the verdict must be right.
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
		p, last := playIncident(t, file, &in)
		onset, want := time.UnixMilli(in.OnsetMS), strings.Split(in.Verdict, " or ")
		var now []string
		for _, at := range []time.Time{
			onset.Add(30 * time.Second), onset.Add(time.Minute), onset.Add(2 * time.Minute), last,
		} {
			now = append(now, p.diagnose(t, at).Verdict.ID)
		}
		end := now[len(now)-1]
		right := "yes"
		if !slices.Contains(want, end) && !(quiet(end) && quiet(want[0])) {
			right = "no"
			t.Errorf("%s: %s in the end, want %s", p.name, end, in.Verdict)
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s | %s |\n", in.Link, in.What, in.Verdict,
			strings.Join(in.First, ", "), strings.Join(now, ", "), right)
	}
	if *update {
		must.Succeed(t, os.WriteFile(incidentsTable, table.Bytes(), 0o644))
	}
	golden, err := os.ReadFile(incidentsTable)
	if err != nil || !bytes.Equal(golden, table.Bytes()) {
		t.Errorf("the answers changed; if that is wanted, run with -update:\n%s", table.String())
	}
}

// TestMendedIncidents judges the end of incidents whose verdict was once wrong.
func TestMendedIncidents(t *testing.T) {
	files, err := filepath.Glob("../../testdata/incidents/mended/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no incidents: %v", err)
	}
	for _, file := range files {
		var in struct{ What, Verdict string }
		p, last := playIncident(t, file, &in)
		if d := p.diagnose(t, last); !slices.Contains(strings.Split(in.Verdict, " or "), d.Verdict.ID) {
			t.Errorf("%s: %s: %s, want %s; %s", p.name, d.Verdict.ID, d.Verdict.Summary, in.Verdict, in.What)
		}
	}
}

// playIncident reads an incident's description into known and loads its recording. last is the time of the last page.
func playIncident(t *testing.T, file string, known any) (p *played, last time.Time) {
	t.Helper()
	text, err := os.ReadFile(file)
	must.Succeed(t, err)
	must.Succeed(t, json.Unmarshal(text, known))
	name := strings.TrimSuffix(file, ".json")
	rec, err := recording.Open(t.Context(), name+".tar.zst")
	must.Succeed(t, err)
	defer rec.Close()
	p = &played{name: filepath.Base(name), interval: time.Second, store: embeddedtest.New(t)}
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
	p.tellBirths()
	if first, _ := rec.Times(); pages > 1 {
		p.interval = last.Sub(first).Truncate(time.Second) / time.Duration(pages-1)
	}
	return p, last
}

// TestAPromptThatNeverFitsIsNoHang plays a prompt that never fits into the cache. Within the first minute a hang may be
// suspected; then the verdict is saturation, and not misses of the prefix cache.
func TestAPromptThatNeverFitsIsNoHang(t *testing.T) {
	p, last := playIncident(t, "../../testdata/incidents/vllm-never-fits.json", &struct{}{})
	onset := last.Add(-6 * time.Minute).Truncate(time.Minute)
	for after := 30 * time.Second; after <= 3*time.Minute; after += 15 * time.Second {
		if d := p.diagnose(t, onset.Add(after)); d.Verdict.ID != "saturation" &&
			(d.Verdict.ID != diagnose.NotCertain || after > time.Minute) {
			t.Errorf("after %s: %s: %s", after, d.Verdict.ID, d.Verdict.Summary)
		}
	}
}
