package pathologies_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
)

// TestAMonitorSaysWhatADiagnosisSays plays more than an hour of servers that restart, fail to answer, are late, come
// and go. A monitor, whose Memory and storage hold earlier answers, must give the same diagnosis as one made anew with
// a fresh storage.
func TestAMonitorSaysWhatADiagnosisSays(t *testing.T) {
	const interval, scrapes = 15 * time.Second, 290
	c, err := history.Parse(os.DirFS("."), fmt.Sprintf("every %s for %s\nlike healthy\n", interval, 80*time.Minute))
	must.Succeed(t, err)
	pages := newExposition(c.Series()[history.UsualInstance])
	rnd := rand.New(rand.NewPCG(5, 6))
	var all []page
	take := func(p *played, s page) { must.Succeed(t, p.take(s.target, s.at, s.body, time.Millisecond)) }
	monitored := &played{store: embeddedtest.New(t)}
	var memory diagnose.Memory
	diagnosis := func(p *played, at time.Time, m *diagnose.Memory) diagnose.Diagnosis {
		return run(t, p.store, diagnose.Options{At: at, First: history.Start, Interval: interval, Every: true,
			Memory: m})
	}
	age := map[string]int{}
	compared := 0
	for i := range scrapes {
		began := history.Start.Add(time.Duration(i) * interval)
		for r, name := range []string{"a:8000", "b:8000", "c:8000", "d:8000"} {
			s := page{embedded.Target{Instance: name, Job: "vllm"}, began.Add(time.Duration(r) * 2 * time.Second),
				pages.at(age[name])}
			age[name]++
			switch {
			case name == "b:8000" && i%70 > 60, name == "d:8000" && (i < 100 || i > 240): // it is gone
				continue
			case name == "c:8000" && i%90 > 86, rnd.IntN(80) == 0:
				s.body = nil
			case rnd.IntN(60) == 0:
				s.at = s.at.Add(-interval - time.Second) // late: dropped
			case rnd.IntN(120) == 0:
				age[name] = 0 // a restart
			}
			all = append(all, s)
			take(monitored, s)
		}
		if i < 12 {
			continue
		}
		at := began.Add(interval - time.Second)
		with := diagnosis(monitored, at, &memory)
		if i%35 != 0 && i != scrapes-1 {
			continue
		}
		plain := &played{store: embeddedtest.New(t)}
		for _, s := range all {
			take(plain, s)
		}
		without := diagnosis(plain, at, nil)
		compared++
		same := cmp.Options{
			cmpopts.EquateApprox(1e-9, 1e-12), cmpopts.EquateNaNs(), cmpopts.EquateEmpty(),
			cmpopts.IgnoreUnexported(diagnose.Finding{}, segments.Span{}, segments.Segment{}),
			cmp.Comparer(func(a, b *catalog.Pathology) bool { return a == b }),
			cmp.Comparer(func(a, b *indicator.Signal) bool { return a == b }),
			cmpopts.IgnoreFields(diagnose.Finding{}, "Fixes"),
		}
		for _, part := range []struct {
			name string
			a, b any
		}{
			{"verdicts", without.Verdicts, with.Verdicts}, {"findings", without.Findings, with.Findings},
			{"spans", without.Spans, with.Spans},
		} {
			if diff := cmp.Diff(part.a, part.b, same); diff != "" {
				t.Errorf("%s at %s (-diagnosis +monitor):\n%s", part.name, at, diff)
			}
		}
	}
	if compared < 8 {
		t.Errorf("%d moments were compared", compared)
	}
}
