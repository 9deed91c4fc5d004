package planning

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

var update = flag.Bool("update", false, "rewrite the golden file and the table in docs/lab/predictions.md")

// A recorded is a recording in a store, with the truth beside it.
type recorded struct {
	store       *embedded.Store
	first, last time.Time
	truth       struct {
		ServerArgs arguments `json:"server_args"`
		Phases     []struct {
			FromMS int64 `json:"from_unix_ms"`
			ToMS   int64 `json:"to_unix_ms"`
		}
	}
}

// arguments are the arguments of all servers. The truth of a single server may have them as one text.
type arguments []string

func (a *arguments) UnmarshalJSON(text []byte) error {
	var one string
	if err := json.Unmarshal(text, &one); err == nil {
		*a = arguments{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(a))
}

func openRecording(t *testing.T, file string) *recorded {
	t.Helper()
	r := &recorded{}
	embeddedtest.ReadTruth(t, file, &r.truth)
	r.store, r.first, r.last = embeddedtest.Open(t, file, nil)
	return r
}

// annotate adds the servers' arguments to what is known of them.
func (r *recorded) annotate(ts []diagnose.Target) {
	for i := range ts {
		if i < len(r.truth.ServerArgs) && ts[i].Config != nil {
			c := engine.ParseArgs(r.truth.ServerArgs[i], "--engine-args")
			c.Merge(ts[i].Config)
			ts[i].Config = c
		}
	}
}

// judged holds the results of diagnoseRecording by file. Tests that run in parallel share it.
var judged sync.Map

// diagnoseRecording judges a recording at the end of its last phase, with the servers' arguments known. It does so once
// for all tests.
func diagnoseRecording(t *testing.T, file string) diagnose.Diagnosis {
	t.Helper()
	if d, ok := judged.Load(file); ok {
		return d.(diagnose.Diagnosis)
	}
	r := openRecording(t, file)
	at := r.last
	if n := len(r.truth.Phases); n > 0 {
		at = time.UnixMilli(r.truth.Phases[n-1].ToMS)
	}
	d, err := diagnose.Run(t.Context(), r.store, diagnose.Options{
		At: at, First: r.first, Interval: time.Second, Every: true, Pathologies: pathologies.All(),
		Predict: PredictFixes, Annotate: r.annotate,
	})
	must.Succeed(t, err)
	judged.Store(file, d)
	return d
}

var numbers = regexp.MustCompile(`\d[\d.,]*`)

// TestRecordings pins which recordings' fixes get a prediction, and why the others do not. The simulated present must
// be close to the measurements of every recording with a prediction.
func TestRecordings(t *testing.T) {
	if testing.Short() {
		t.Skip("it simulates what every recording predicts; TestNoFirstFixMakesItWorse has some of them")
	}
	t.Parallel()
	files, err := filepath.Glob("../../testdata/recordings/*.tar.zst")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	var table strings.Builder
	var outcomes []string
	same := "" // the last line, to tell a reason once
	for _, file := range files {
		d := diagnoseRecording(t, file)
		if d.Status != diagnose.Firing {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(file), ".tar.zst")
		for _, f := range d.Findings[0].Fixes {
			if f.Predicted == nil {
				continue
			}
			outcome := "predicted"
			if f.Predicted.Reason != "" {
				outcome = numbers.ReplaceAllString(f.Predicted.Reason, "N")
				outcome, _, _ = strings.Cut(outcome, " behaviour: ") // which quantity is the furthest off may change
			} else {
				checkPresent(t, name, f.Predicted)
			}
			outcomes = append(outcomes, fmt.Sprintf("%s: %s: %s\n", name, numbers.ReplaceAllString(f.Summary, "N"),
				outcome))
			if line := row(name, &f); line != same {
				table.WriteString(line)
				same = line
			}
		}
	}
	slices.Sort(outcomes) // which fix is surely worse, and so the last, may change
	got := strings.Join(outcomes, "")
	const golden = "testdata/recordings.golden"
	if *update {
		must.Succeed(t, os.WriteFile(golden, []byte(got), 0o644))
		writeTable(t, table.String())
	}
	want := must.ReadFile(t, golden)
	must.Equal(t, string(want), got)
}

// checkPresent checks that the simulated present is within the tolerances of docs/lab/predictions.md.
func checkPresent(t *testing.T, name string, p *catalog.Prediction) {
	t.Helper()
	for _, tol := range []struct {
		signal             *indicator.Signal
		relative, absolute float64
	}{
		{indicator.TTFTMean, 0.3, 0.05},
		{indicator.TTFTP95, 1, 0.1},
		{indicator.ITLMean, 0.2, 0.001},
		{indicator.E2EMean, 0.3, 0.1},
		{indicator.GenerationTokenRate, 0.15, 0},
		{indicator.Preemptions, 0.4, 5},
		{indicator.Running, 0.25, 1},
		{indicator.Waiting, 0.35, 2},
	} {
		e, ok := p.Effect(tol.signal)
		if !ok || !e.Measured.OK {
			continue
		}
		if off := math.Abs(e.Before.Value - e.Measured.V); off > max(tol.relative*min(e.Measured.V, e.Before.Value),
			tol.absolute) {
			t.Errorf("%s: %s: simulated %v, measured %v: a prediction rests on it", name, tol.signal.Name,
				e.Before.Value, e.Measured.V)
		}
	}
}

// row returns a fix's line of the table in docs/lab/predictions.md.
func row(name string, f *catalog.Fix) string {
	if f.Predicted.Reason != "" {
		summary := f.Summary
		if strings.Contains(f.Predicted.Reason, "cannot reproduce current behaviour") {
			summary = "any"
		}
		return fmt.Sprintf("| %s | %s | none: %s | | | |\n", name, summary, f.Predicted.Reason)
	}
	s := fmt.Sprintf("| %s | %s |", name, f.Summary)
	for _, sig := range []*indicator.Signal{indicator.TTFTP95, indicator.E2EMean, indicator.GenerationTokenRate,
		indicator.Preemptions} {
		e, _ := f.Predicted.Effect(sig)
		s += fmt.Sprintf(" %s / %s → %s |", indicator.Format(e.Measured, sig.Unit),
			indicator.FormatNumber(e.Before.Value, sig.Unit), indicator.FormatNumber(e.After.Value, sig.Unit))
	}
	return s + "\n"
}

// writeTable replaces the table between its marks.
func writeTable(t *testing.T, table string) {
	t.Helper()
	const page, begin, end = "../../docs/lab/predictions.md",
		"<!-- recordings: go test ./internal/planning -run TestRecordings -update -->\n", "<!-- end of recordings -->\n"
	text := must.ReadFile(t, page)
	before, rest, ok1 := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	table = "\n| recording | fix | TTFT P95 | E2E mean | tok/s | preemptions |\n|---|---|---|---|---|---|\n" + table + "\n"
	must.Succeed(t, os.WriteFile(page, []byte(before+begin+table+end+after), 0o644))
}
