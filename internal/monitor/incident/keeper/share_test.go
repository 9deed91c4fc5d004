package keeper_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/monitor/access"
	"github.com/sixty-dev/sixty/internal/monitor/incident/keeper"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// newMonitor returns a Keeper that found the same fault at a time, and the ID of its incident on model m.
func newMonitor(t *testing.T, at time.Time) (*keeper.Keeper, string) {
	k, err := keeper.Open(t.Context(), keeper.Config{Dir: t.TempDir(), Catalogue: pathologies.All(),
		Log: slog.New(slog.DiscardHandler)})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = k.Close(t.Context()) })
	p := pathologies.All()[0]
	for _, model := range []string{"other", "m"} {
		if err := k.Observe(&diagnose.Diagnosis{
			At: at, Targets: []diagnose.Target{{Name: "a",
				Labels: map[string]string{"instance": "a:8000", "model_name": model}}},
			Findings: []diagnose.Finding{{Pathology: p, Model: model, Status: diagnose.Firing, Severity: p.Severity,
				Targets: []string{"a"}, Summary: p.Title}},
		}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return k, k.List(keeper.Query{Model: "m"})[0].ID
}

// Messages may come in any order and more than once. A monitor that joins later gets all actions at once.
func TestMonitorsShareWhatPeopleDo(t *testing.T) {
	at := time.Now().UTC().Truncate(time.Minute)
	here, id := newMonitor(t, at)
	there, other := newMonitor(t, at.Add(75*time.Second)) // it found the fault later, so that the ID differs
	if id == other {
		t.Fatalf("both name it %s", id)
	}
	var said [][]byte
	here.SetBroadcast(func(text []byte) { said = append(said, text) })
	there.SetBroadcast(func([]byte) { t.Error("a merged action is broadcast again") })
	note := func(k *keeper.Keeper, id, text string, after time.Duration) {
		t.Helper()
		if _, err := k.AddNote(id, "ann", text, at.Add(after)); err != nil {
			t.Fatal(err)
		}
	}
	note(here, id, "first", time.Minute)
	note(here, id, "second", 2*time.Minute)
	if _, err := here.Acknowledge(id, "ann", at.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{2, 1, 0, 1} {
		must.Succeed(t, there.Merge(said[i]))
	}
	agree := func(k *keeper.Keeper, id string, by string, texts ...string) {
		t.Helper()
		i, err := k.Get(id, access.Everybody)
		must.Succeed(t, err)
		if i.Acknowledged == nil || i.Acknowledged.By != by || len(i.Notes) != len(texts) {
			t.Fatalf("%+v", i.Summary)
		}
		for n, text := range texts {
			if i.Notes[n].Text != text {
				t.Errorf("note %d: %+v", n, i.Notes[n])
			}
		}
	}
	agree(there, other, "ann", "first", "second")

	// People act on each monitor while the two are not connected.
	here.SetBroadcast(nil)
	there.SetBroadcast(nil)
	note(there, other, "third", 3*time.Minute)
	if _, err := there.Acknowledge(other, "bob", at.Add(4*time.Minute)); err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]*keeper.Keeper{{here, there}, {there, here}} {
		text, err := pair[0].MarshalBinary()
		if err == nil {
			err = pair[1].Merge(text)
		}
		must.Succeed(t, err)
	}
	agree(here, id, "bob", "first", "second", "third")
	agree(there, other, "bob", "first", "second", "third")
	for _, s := range here.List(keeper.Query{Model: "other"}) {
		if s.Acknowledged != nil || len(s.Notes) > 0 {
			t.Errorf("another incident has them too: %+v", s)
		}
	}
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte(`[{"model":"m","members":["kv-cache-thrashing"],"began":"2026-01-01T00:00:00Z","acknowledged":{"by":"","at":"2026-01-01T00:00:00Z"},"notes":[{"by":"a","text":"b"}]}]`))
	f.Add([]byte(`null`))
	k, err := keeper.Open(f.Context(), keeper.Config{Dir: f.TempDir(), Catalogue: pathologies.All(),
		Log: slog.New(slog.DiscardHandler)})
	must.Succeed(f, err)
	p := pathologies.All()[0]
	if err := k.Observe(&diagnose.Diagnosis{
		At:      time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Targets: []diagnose.Target{{Name: "a", Labels: map[string]string{"instance": "a", "model_name": "m"}}},
		Findings: []diagnose.Finding{{Pathology: p, Model: "m", Status: diagnose.Firing, Severity: p.Severity,
			Targets: []string{"a"}}},
	}, nil); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_ = k.Merge(text) // merged notes must be valid, whatever the text
		for _, s := range k.List(keeper.Query{}) {
			for _, n := range s.Notes {
				if n.By == "" || n.Text == "" || len(n.By) > 1000 {
					t.Errorf("%+v", n)
				}
			}
		}
	})
}
