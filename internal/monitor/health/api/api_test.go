package api

import (
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

func TestMeasure(t *testing.T) {
	s, err := source.Open(t.Context(), source.Spec{Recording: "../../../../testdata/recordings/thrashing-deep.tar.zst"})
	must.Succeed(t, err)
	defer s.Close()
	r, err := Measure(t.Context(), s, Options{At: s.Span().Last, Since: 24 * time.Hour, Pathologies: pathologies.All()})
	must.Succeed(t, err)
	if r.Status != view.HealthFailing || r.Models[0].Verdict != "kv-cache-thrashing" || !r.From.Equal(s.Span().First) || r.IncidentsKnown || r.Compared != nil {
		t.Errorf("got %+v", r)
	}
}
