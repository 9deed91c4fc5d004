package source_test

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestIllReplicasAreLeftOut measures replicas of which one is ill, or only gets more than its
// share: what compares replicas makes none of them ill.
func TestIllReplicasAreLeftOut(t *testing.T) {
	for name, want := range map[string]string{"one-replica-down": "Target down", "replica-imbalance": ""} {
		s, err := source.Open(t.Context(), source.Spec{Recording: "../../../testdata/recordings/" + name + ".tar.zst"})
		must.Succeed(t, err)
		defer s.Close()
		ranks := func(ps []*catalog.Pathology) (n int, leftOut []string) {
			m, err := s.Observe(t.Context(), "", s.Span().Last, 0, ps)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return len(m.Ranks), m.LeftOut
		}
		all, none := ranks(nil)
		healthy, leftOut := ranks(pathologies.All())
		if len(none) > 0 || all-healthy != len(leftOut) || healthy == 0 || (want == "") != (len(leftOut) == 0) || !strings.Contains(strings.Join(leftOut, ""), want) {
			t.Errorf("%s: %d of %d replicas, left out %q", name, healthy, all, leftOut)
		}
	}
}
