package report

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog"
)

func TestReasonsToDoubtAPredictionAreToldOnce(t *testing.T) {
	got := predictionShort(&catalog.Prediction{Caveats: []string{
		"extrapolated: batches of up to 40 requests", "extrapolated: up to 9000 context tokens in a step", "near saturation: TTFT P95 may be anything",
	}})
	if strings.Count(got, "extrapolated") != 1 || !strings.Contains(got, "extrapolated; near saturation.") {
		t.Errorf("got %q", got)
	}
}
