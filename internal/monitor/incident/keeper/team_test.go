package keeper

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/monitor/access"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// A GPU exporter of another namespace is cut out of the diagnosis and the recording that a team gets.
func TestATeamSeesItsEvidence(t *testing.T) {
	k, err := Open(t.Context(), Config{Dir: t.TempDir(), Catalogue: pathologies.All(),
		Log: slog.New(slog.DiscardHandler)})
	must.Succeed(t, err)
	defer k.Close(t.Context())
	p := pathologies.All()[0]
	finding := func(targets ...string) diagnose.Finding {
		return diagnose.Finding{Pathology: p, Model: "m", Status: diagnose.Firing, Severity: p.Severity,
			Targets: targets, Summary: "of " + strings.Join(targets, " and ")}
	}
	must.Succeed(t, k.Observe(&diagnose.Diagnosis{
		At: time.Now(), Targets: []diagnose.Target{{Name: "own",
			Labels: map[string]string{"instance": "own:8000", "model_name": "m"}}},
		Findings: []diagnose.Finding{finding("own")},
	}, nil))
	id := k.List(Query{Model: "m"})[0].ID
	k.mu.Lock()
	r := k.byID[id]
	own, exporter := map[string]string{"instance": "own:8000", "namespace": "team-a"},
		map[string]string{"instance": "exporter:9400", "namespace": "gpu"}
	r.State.ServerLabels, r.HasRecording = map[string]map[string]string{"own:8000": own}, true
	r.State.RecordedLabels = map[string]map[string]string{"own:8000": own, "exporter:9400": exporter}
	k.mu.Unlock()
	verdict := diagnose.Verdict{ID: p.ID, Model: "m", Status: diagnose.Firing, Targets: []string{"own"}}
	must.Succeed(t, k.store.saveDiagnosis(id, diagnose.Diagnosis{
		At: time.Now(), Status: diagnose.Firing, Verdict: verdict, Verdicts: []diagnose.Verdict{verdict},
		Notes:    []string{"exporter is slow"},
		Targets:  []diagnose.Target{{Name: "own"}, {Name: "exporter"}},
		Findings: []diagnose.Finding{finding("own"), finding("own", "exporter")},
	}))
	team := &access.Principal{Role: access.Viewer, Match: []*labels.Matcher{
		labels.MustNewMatcher(labels.MatchEqual, "namespace", "team-a")}}
	i, err := k.Get(id, team)
	must.Succeed(t, err)
	if text := string(i.Diagnosis); !strings.Contains(text, `"of own"`) || strings.Contains(text, "exporter") ||
		!i.HasRecording {
		t.Errorf("a team sees %s, recording %t", text, i.HasRecording)
	}
	if i, err = k.Get(id, access.Everybody); err != nil || !strings.Contains(string(i.Diagnosis), "exporter") ||
		!i.HasRecording {
		t.Errorf("an administrator sees %s, recording %t, %v", i.Diagnosis, i.HasRecording, err)
	}
	for _, c := range []struct {
		namespace string
		want      []string
	}{{"team-a", []string{"own:8000"}}, {"gpu", []string{"exporter:9400"}}, {"team-b", nil}} {
		team := &access.Principal{Role: access.Viewer, Match: []*labels.Matcher{
			labels.MustNewMatcher(labels.MatchEqual, "namespace", c.namespace)}}
		if _, got, err := k.Recording(id, team); !slices.Equal(got, c.want) ||
			errors.Is(err, os.ErrNotExist) != (c.want == nil) {
			t.Errorf("%s gets %q, %v; want %q", c.namespace, got, err, c.want)
		}
	}
	if _, got, err := k.Recording(id, access.Everybody); got != nil || err != nil {
		t.Errorf("an administrator gets %q, %v; want all", got, err)
	}
}
