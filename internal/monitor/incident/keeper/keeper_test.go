package keeper

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/monitor/access"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

var noon = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

var quiet = slog.New(slog.DiscardHandler)

// sick returns a diagnosis of five models in which a pathology fires on the named ones.
func sick(at time.Time, p *catalog.Pathology, models ...string) *diagnose.Diagnosis {
	d := &diagnose.Diagnosis{At: at, Status: diagnose.OK}
	for i := range 5 {
		m := fmt.Sprintf("m%d", i)
		name := "10.0.0." + m + ":8000"
		d.Targets = append(d.Targets, diagnose.Target{Name: name,
			Labels: map[string]string{"instance": name, "model_name": m}})
		v := diagnose.Verdict{ID: diagnose.Healthy, Status: diagnose.OK, Model: m, Targets: []string{name},
			Summary: "Nothing is wrong"}
		if slices.Contains(models, m) {
			f := diagnose.Finding{Pathology: p, Model: m, Status: diagnose.Firing, Severity: p.Severity,
				Targets: []string{name}, Since: at, Summary: p.Title, Confidence: 0.9}
			d.Findings = append(d.Findings, f)
			v = diagnose.Verdict{ID: p.ID, Status: diagnose.Firing, Severity: p.Severity, Model: m, Targets: f.Targets,
				Since: at, Summary: p.Title, Confidence: 0.9}
			d.Status = diagnose.Firing
		}
		d.Verdicts = append(d.Verdicts, v)
	}
	d.Verdict = d.Verdicts[0]
	return d
}

func open(t *testing.T, dir string) *Keeper {
	t.Helper()
	k, err := Open(t.Context(), Config{Dir: dir, Catalogue: pathologies.All(), Log: quiet})
	must.Succeed(t, err)
	t.Cleanup(func() { k.Close(t.Context()) })
	return k
}

func pathology(t testing.TB, id string) *catalog.Pathology {
	t.Helper()
	all := pathologies.All()
	i := slices.IndexFunc(all, func(p *catalog.Pathology) bool { return p.ID == id })
	if i < 0 {
		t.Fatalf("no pathology %s", id)
	}
	return all[i]
}

func observe(t *testing.T, k *Keeper, d *diagnose.Diagnosis) {
	t.Helper()
	must.Succeed(t, k.Observe(d, nil))
}

func TestARestartLosesNothing(t *testing.T) {
	dir := t.TempDir()
	k := open(t, dir)
	p := pathology(t, "kv-cache-thrashing")
	for i := range 8 {
		observe(t, k, sick(noon.Add(time.Duration(i)*15*time.Second), p, "m0", "m1"))
	}
	for i := range 20 {
		observe(t, k, sick(noon.Add(2*time.Minute+time.Duration(i)*15*time.Second), p, "m1"))
	}
	id := k.List(Query{Model: "m1"})[0].ID
	if _, err := k.Acknowledge(id, "ann", noon); err != nil {
		t.Fatal(err)
	}
	if _, err := k.AddNote(id, "bob", "four replicas helped", noon.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	want := k.List(Query{})
	if len(want) != 2 || (want[0].Ended == nil) == (want[1].Ended == nil) {
		t.Fatalf("got %+v", want)
	}
	must.Succeed(t, k.Close(t.Context()))
	again := open(t, dir)
	if diff := cmp.Diff(want, again.List(Query{})); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	observe(t, again, sick(noon.Add(8*time.Minute), p, "m1"))
	if got := again.List(Query{Model: "m1"})[0].ID; got != id {
		t.Errorf("ongoing as %q, want %q", got, id)
	}
}

func TestListFilters(t *testing.T) {
	k := open(t, t.TempDir())
	p := pathology(t, "kv-cache-thrashing")
	observe(t, k, sick(noon, p, "m0"))
	for i := range 20 {
		observe(t, k, sick(noon.Add(time.Minute+time.Duration(i)*15*time.Second), p, "m1", "m2"))
	}
	for _, tc := range []struct {
		q    Query
		want []string
	}{
		{Query{}, []string{"m1", "m2", "m0"}},
		{Query{State: "open"}, []string{"m1", "m2"}},
		{Query{State: "closed"}, []string{"m0"}},
		{Query{Model: "m2"}, []string{"m2"}},
		{Query{Limit: 1}, []string{"m1"}},
		{Query{Model: "m7"}, nil},
	} {
		var got []string
		for _, s := range k.List(tc.q) {
			got = append(got, s.Model)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%+v: (-want +got)\n%s", tc.q, diff)
		}
	}
}

func TestACorruptRecordIsSetAside(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"cut off":       func(p string) error { return os.Truncate(p, 40) },
		"empty":         func(p string) error { return os.Truncate(p, 0) },
		"garbage":       func(p string) error { return os.WriteFile(p, []byte("\x00\xff{"), 0o644) },
		"another one's": func(p string) error { return os.WriteFile(p, []byte(`{"id":"x"}`), 0o644) },
		"missing":       os.Remove,
		"a directory":   func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o755)) },
		"something missing": func(p string) error {
			return os.WriteFile(p, []byte(`{"id":"`+filepath.Base(filepath.Dir(p))+`"}`), 0o644)
		},
		"far too large": func(p string) error { return os.Truncate(p, maxRecord+1) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			k := open(t, dir)
			p := pathology(t, "kv-cache-thrashing")
			observe(t, k, sick(noon, p, "m0", "m1", "m2"))
			bad := k.List(Query{Model: "m1"})[0].ID
			must.Succeed(t, k.Close(t.Context()))
			// What else of it there is must be kept too.
			must.Succeed(t, os.WriteFile(filepath.Join(dir, bad, diagnosisFile), []byte("{}"), 0o644))
			must.Succeed(t, harm(filepath.Join(dir, bad, recordFile)))
			_, _, w, err := openStore(dir)
			if err != nil || len(w) != 1 || !strings.Contains(w[0], bad) || !strings.Contains(w[0], asideDir) {
				t.Errorf("warnings %q, %v", w, err)
			}
			again := open(t, dir)
			if got := again.List(Query{}); len(got) != 2 {
				t.Errorf("%d incidents, want the two others", len(got))
			}
			if _, err := os.Stat(filepath.Join(dir, asideDir, bad, diagnosisFile)); err != nil {
				t.Errorf("it is lost: %v", err)
			}
			observe(t, again, sick(noon.Add(time.Hour), p, "m1"))
			if _, _, w, err := openStore(dir); len(w) != 0 || err != nil {
				t.Errorf("warned again: %q, %v", w, err)
			}
		})
	}
}

func TestOtherDirectoriesAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"lost+found", "wal", "2026-notes"} {
		must.Succeed(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	if _, _, w, err := openStore(dir); len(w) != 0 || err != nil {
		t.Errorf("warnings %q, %v", w, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestAFullDisk(t *testing.T) {
	dir := t.TempDir()
	k := open(t, dir)
	p := pathology(t, "kv-cache-thrashing")
	full := errors.New("no space left on device")
	write := k.store.write
	k.store.write = func(string, func(io.Writer) error) error { return full }
	for i := range 3 {
		if err := k.Observe(sick(noon.Add(time.Duration(i)*15*time.Second), p, "m0"), nil); !errors.Is(err, full) {
			t.Fatalf("error %v", err)
		}
	}
	id := k.List(Query{Model: "m0"})[0].ID
	if id == "" || len(k.List(Query{State: "open"})) != 1 {
		t.Errorf("of %q, %v", id, k.List(Query{}))
	}
	if _, err := k.Acknowledge(id, "ann", noon); !errors.Is(err, full) {
		t.Errorf("acknowledged with %v: it would be lost", err)
	}
	if s := k.List(Query{}); s[0].Acknowledged != nil {
		t.Error("said to be acknowledged")
	}
	k.store.write = write
	observe(t, k, sick(noon.Add(time.Minute), p, "m0"))
	if got := open(t, dir).List(Query{}); len(got) != 1 || got[0].ID != id {
		t.Errorf("kept %v", got)
	}
}

func TestPruneBoundsNumberAgeAndSize(t *testing.T) {
	dir := t.TempDir()
	k, err := Open(t.Context(), Config{Dir: dir, Catalogue: pathologies.All(), MaxIncidents: 3,
		Retention: 24 * time.Hour, MaxEvidence: 2500, Log: quiet})
	must.Succeed(t, err)
	defer k.Close(t.Context())
	p := pathology(t, "kv-cache-thrashing")
	at := noon
	for range 10 {
		for range 3 {
			observe(t, k, sick(at, p, "m0"))
			at = at.Add(15 * time.Second)
		}
		must.Succeed(t, os.WriteFile(k.store.filePath(k.List(Query{Model: "m0"})[0].ID, evidenceFile),
			make([]byte, 1000), 0o644))
		for range 100 {
			observe(t, k, sick(at, p))
			at = at.Add(time.Minute)
		}
	}
	if got := k.List(Query{}); len(got) != 3 {
		t.Errorf("%d incidents are kept, want 3", len(got))
	}
	recordings := 0
	for _, s := range k.List(Query{}) {
		if k.store.hasFile(s.ID, evidenceFile) {
			recordings++
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 3 || recordings != 2 {
		t.Errorf("%d on the disk with %d recordings, want 3 with 2", len(entries), recordings)
	}
	for range 30 * 12 {
		observe(t, k, sick(at, p, "m1"))
		at = at.Add(5 * time.Minute)
	}
	if got := k.List(Query{}); len(got) != 1 || got[0].Model != "m1" {
		t.Errorf("after a day %v are kept, want the open one", got)
	}
}

// child is the environment variable with the directory of the process that is killed.
const child = "SIXTY_KEEPER_CHILD"

// prefixed writes each line with the prefix "warning".
type prefixed struct{ io.Writer }

func (w prefixed) Write(line []byte) (int, error) {
	_, err := fmt.Fprintf(w.Writer, "warning %s", line)
	return len(line), err
}

// TestChild is the process that TestAKilledProcessLosesNothing kills. It makes incidents and notes as fast as it can,
// and prints what was written.
func TestChild(t *testing.T) {
	dir := os.Getenv(child)
	if dir == "" {
		t.Skip("is the process that TestAKilledProcessLosesNothing kills")
	}
	k, err := Open(t.Context(), Config{Dir: dir, Catalogue: pathologies.All(),
		Log: slog.New(slog.NewTextHandler(prefixed{os.Stdout}, nil))})
	must.Succeed(t, err)
	fmt.Println("opened", len(k.List(Query{})))
	p := pathology(t, "kv-cache-thrashing")
	at := time.Now()
	for n := 0; ; n++ {
		at = at.Add(15 * time.Second)
		d := sick(at, p)
		if n%60 < 20 {
			d = sick(at, p, "m0", fmt.Sprintf("m%d", n/60%4+1))
		}
		must.Succeed(t, k.Observe(d, nil))
		for _, s := range k.List(Query{State: "open"}) {
			fmt.Println("open", s.ID)
			if len(s.Notes) < 50 {
				note := fmt.Sprint("note ", n)
				if _, err := k.AddNote(s.ID, "child", note, at); err != nil {
					t.Fatal(err)
				}
				fmt.Println("noted", s.ID, note)
			}
		}
	}
}

// The process is killed twenty times. What it printed must be stored, and no file may be damaged.
func TestAKilledProcessLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir := t.TempDir()
	notes := map[string][]string{} // by incident, as far as they were said to be written
	for range 20 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
		cmd.Env = append(os.Environ(), child+"="+dir)
		out, err := cmd.StdoutPipe()
		must.Succeed(t, err)
		must.Succeed(t, cmd.Start())
		opened, left := false, 1+rand.IntN(400) // lines until it is killed
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if opened {
				if left--; left == 0 {
					_ = cmd.Process.Kill()
				}
			}
			word, rest, _ := strings.Cut(lines.Text(), " ")
			switch word {
			case "opened":
				opened = true
			case "warning":
				t.Error(rest)
			case "open":
				if notes[rest] == nil {
					notes[rest] = []string{}
				}
			case "noted":
				id, note, _ := strings.Cut(rest, " ")
				notes[id] = append(notes[id], note)
			}
		}
		_ = cmd.Wait() // it was killed
		if !opened {
			t.Fatal("the process did not come up")
		}
	}
	if _, _, w, err := openStore(dir); len(w) > 0 || err != nil {
		t.Errorf("warnings: %q, %v", w, err)
	}
	k := open(t, dir)
	total := 0
	for id, want := range notes {
		i, err := k.Get(id, access.Everybody)
		if err != nil {
			t.Errorf("lost: %v", err)
			continue
		}
		// The last one before it was killed may have been written without being told of.
		left := want
		for _, n := range i.Notes {
			if len(left) > 0 && n.Text == left[0] {
				left = left[1:]
			}
		}
		if len(left) > 0 || len(i.Notes) > len(want)+20 {
			t.Errorf("%s: %d notes, want %d; %q is not there", id, len(i.Notes), len(want), left)
		}
		total += len(want)
	}
	t.Logf("%d incidents and %d notes survived", len(notes), total)
	if len(notes) < 5 || total < 100 {
		t.Errorf("only %d incidents and %d notes: nothing was tried", len(notes), total)
	}
}

// A real incident is played: its stored recording must give the same verdict, and the post-mortem must show it.
func TestTheRecordingRepeatsTheVerdict(t *testing.T) {
	store, first, last := embeddedtest.Open(t, "../../../../testdata/recordings/thrashing-deep.tar.zst", nil)
	dir := t.TempDir()
	var mu sync.Mutex // Listen is called from several goroutines
	var events []string
	var asked []time.Time
	predict := func(_ context.Context, _ metrics.Querier, r diagnose.Request, s *diagnose.Snapshot,
		d *diagnose.Diagnosis) {
		if f := &d.Findings[0]; len(r.Targets) == len(s.Targets) && f.Pathology.ID == "kv-cache-thrashing" {
			f.Fixes[0].Predicted = &catalog.Prediction{Reason: "this was predicted"}
			if asked = append(asked, d.At); d.At.Sub(asked[0]) < 12*time.Second {
				f.Fixes[0].Predicted = &catalog.Prediction{Reason: "it is too early"}
			}
		}
	}
	k, err := Open(t.Context(), Config{Dir: dir, Catalogue: pathologies.All(),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Predict: predict, Listen: func(s view.Summary) {
			mu.Lock()
			defer mu.Unlock()
			if s.Ended == nil {
				events = append(events, "open")
			} else {
				events = append(events, "ended")
			}
		}})
	must.Succeed(t, err)
	defer k.Close(t.Context())
	var d diagnose.Diagnosis
	for at := first.Add(20 * time.Second); !at.After(last); at = at.Add(5 * time.Second) {
		d, err = diagnose.Run(t.Context(), store, diagnose.Options{
			At: at, First: first, Interval: time.Second, Every: true, Pathologies: pathologies.All()})
		must.Succeed(t, err)
		must.Succeed(t, k.Observe(&d, store))
		must.Succeed(t, k.WaitForEvidence(t.Context()))
	}
	all := k.List(Query{})
	if len(all) != 1 || all[0].Pathology != "kv-cache-thrashing" || !all[0].HasRecording {
		t.Fatalf("got %+v, events %v", all, events)
	}
	id := all[0].ID
	if _, err := k.AddNote(id, "ann", "four replicas helped <b>", last); err != nil {
		t.Fatal(err)
	}
	path, _, err := k.Recording(id, access.Everybody)
	must.Succeed(t, err)
	kept, err := k.Get(id, access.Everybody)
	must.Succeed(t, err)
	var was struct {
		At      time.Time
		Verdict struct{ ID, Summary string }
		Plots   []any
	}
	must.Succeed(t, json.Unmarshal(kept.Diagnosis, &was))
	if was.Verdict.ID != "kv-cache-thrashing" || len(was.Plots) < 4 {
		t.Errorf("kept %s with %d plots", was.Verdict.ID, len(was.Plots))
	}
	if !strings.Contains(string(kept.Diagnosis), "this was predicted") || d.Findings[0].Fixes[0].Predicted != nil {
		t.Errorf("the prediction is not in the stored diagnosis, or is in the shared one: %v",
			d.Findings[0].Fixes[0].Predicted)
	}
	if len(asked) < 2 || asked[1].Sub(asked[0]) != time.Minute || len(asked) > 4 {
		t.Errorf("predicted at %v, want the first kept diagnosis and the later ones, a minute apart", asked)
	}
	s, err := source.Open(t.Context(), source.Spec{Recording: path})
	must.Succeed(t, err)
	defer s.Close()
	if end := s.Span().Last; end.After(was.At) || was.At.Sub(end) > 2*time.Second {
		t.Errorf("the recording ends at %s, the diagnosis is of %s", end, was.At)
	}
	o, err := s.Options(t.Context(), s.Span().Last)
	must.Succeed(t, err)
	o.Pathologies = pathologies.All()
	again, err := s.Diagnose(t.Context(), o)
	must.Succeed(t, err)
	if again.Verdict.ID != was.Verdict.ID || again.Verdict.Summary != was.Verdict.Summary {
		t.Errorf("the recording says %s: %s, want %s: %s", again.Verdict.ID, again.Verdict.Summary, was.Verdict.ID,
			was.Verdict.Summary)
	}
	// It is over.
	for i := range 12 {
		h := d
		h.At = last.Add(time.Duration(i) * 15 * time.Second)
		h.Status, h.Findings = diagnose.OK, nil
		h.Verdict = diagnose.Verdict{ID: diagnose.Healthy, Status: diagnose.OK, Targets: d.Verdict.Targets,
			Summary: "Nothing is wrong"}
		h.Verdicts = []diagnose.Verdict{h.Verdict}
		must.Succeed(t, k.Observe(&h, store))
	}
	must.Succeed(t, k.WaitForEvidence(t.Context()))
	if !slices.Contains(events, "open") || !slices.Contains(events, "ended") {
		t.Errorf("events %v", events)
	}
	text, err := k.PostMortem(id, access.Everybody)
	must.Succeed(t, err)
	for _, want := range []string{"# Post-mortem: ", "## Timeline", "**: Closed", "four replicas helped &lt;b&gt;",
		"## Evidence", "| KV cache usage", "## Advice", "## To be filled in"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the post-mortem lacks %q", want)
		}
	}
}

// In the first two minutes each evaluation measures, so that a notification has the impact.
func TestImpactIsMeasuredInEachEarlyEvaluation(t *testing.T) {
	var asked []time.Duration
	k, err := Open(t.Context(), Config{
		Dir: t.TempDir(), Catalogue: pathologies.All(), Log: quiet,
		Impact: func(_ context.Context, _ metrics.Querier, of view.Summary, to time.Time, _ time.Duration) (
			*view.Impact, error) {
			if asked = append(asked, to.Sub(of.Began)); len(asked) < 3 {
				return nil, nil
			}
			return &view.Impact{Late: 5, Of: 10}, nil
		},
	})
	must.Succeed(t, err)
	t.Cleanup(func() { k.Close(t.Context()) })
	p := pathology(t, "kv-cache-thrashing")
	store := embeddedtest.New(t)
	for i := range 8 {
		must.Succeed(t, k.Observe(sick(noon.Add(time.Duration(i)*15*time.Second), p, "m0"), store))
		if hurt := k.List(Query{})[0].Impact != nil; hurt != (i >= 2) {
			t.Errorf("after %d evaluations: somebody is hurt: %t", i+1, hurt)
		}
		must.Succeed(t, k.WaitForEvidence(t.Context()))
	}
	must.Equal(t, []time.Duration{0, 15 * time.Second, 30 * time.Second, 90 * time.Second}, asked)
}

// An impact that decreases is not taken.
func TestImpactIsMeasuredEachMinuteAndAtTheEnd(t *testing.T) {
	var asked []time.Duration
	late := []float64{5, 9, 3}
	k, err := Open(t.Context(), Config{
		Dir: t.TempDir(), Catalogue: pathologies.All(), Log: quiet,
		Impact: func(_ context.Context, _ metrics.Querier, of view.Summary, to time.Time, _ time.Duration) (
			*view.Impact, error) {
			asked = append(asked, to.Sub(of.Began))
			return &view.Impact{Late: late[min(len(asked), len(late))-1], Of: 10}, nil
		},
	})
	must.Succeed(t, err)
	t.Cleanup(func() { k.Close(t.Context()) })
	p := pathology(t, "kv-cache-thrashing")
	store := embeddedtest.New(t)
	for i := range 20 {
		at := noon.Add(time.Duration(i) * 15 * time.Second)
		d := sick(at, p, "m0")
		if i >= 6 {
			d = sick(at, p)
		}
		must.Succeed(t, k.Observe(d, store))
		must.Succeed(t, k.WaitForEvidence(t.Context()))
	}
	list := k.List(Query{})
	if len(list) != 1 || list[0].Ended == nil || list[0].Impact == nil || list[0].Impact.Late != 9 {
		t.Fatalf("%+v", list)
	}
	if want := list[0].Ended.Sub(list[0].Began); len(asked) < 3 || asked[0] != 0 || asked[1] != time.Minute ||
		asked[len(asked)-1] != want {
		t.Errorf("measured after %s, want the last after %s", asked, want)
	}
}
