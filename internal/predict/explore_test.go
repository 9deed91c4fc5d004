package predict

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/report"
)

func show(name string, d diagnose.Diagnosis) {
	fmt.Printf("=== %s: %s %v window %v version %s\n", name, d.Verdict.ID, d.Status, d.Window.Length(), d.Targets[0].Version)
	if d.Status == diagnose.Firing {
		report.Text(os.Stdout, d, report.Options{})
	}
}

func TestExploreFleet(t *testing.T) {
	for _, sc := range fleet.Scenarios() {
		switch sc.Name {
		case "kv-cache-thrashing", "saturation", "concurrency-limit", "prefill-starvation", "prefix-cache-misses":
		default:
			continue
		}
		start := time.Now()
		show(sc.Name, fleetDiagnosis(t, sc, fleet.DefaultRelease, 0, ""))
		fmt.Println(time.Since(start))
		sc.Phases[len(sc.Phases)-1].For = 90 * time.Second
		show(sc.Name+" sick only", fleetDiagnosis(t, sc, fleet.DefaultRelease, 90*time.Second, ""))
	}
}

func TestExploreRecordings(t *testing.T) {
	a, _ := filepath.Glob("../../testdata/recordings/*.tar.zst")
	b, _ := filepath.Glob("/work/shared/recordings/*.tar.zst")
	for _, f := range append(a, b...) {
		d := diagnosed(t, f)
		if d.Status == diagnose.Firing {
			show(filepath.Base(f), d)
		}
	}
}
