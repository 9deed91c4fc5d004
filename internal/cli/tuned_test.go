package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sixty-dev/sixty/internal/perfmodel/published"
)

// TestTuneOfPublicDeployments asks tune of the deployments whose owners published what they
// carry, and compares with what docs/model-accuracy.md says that it answers:
//
//	SIXTY_ACCURACY=update go test ./internal/cli -run TuneOfPublicDeployments
//
// Without SIXTY_ACCURACY it asks of the first alone; "full" asks of all.
func TestTuneOfPublicDeployments(t *testing.T) {
	deployments, err := published.Deployments()
	if err != nil {
		t.Fatal(err)
	}
	want, err := published.Tunings()
	if err != nil {
		t.Fatal(err)
	}
	mode := os.Getenv("SIXTY_ACCURACY")
	if mode == "" {
		deployments = deployments[:1]
		want = want[:min(len(want), len(published.TuningTimes))]
	}
	const points = "../perfmodel/published/points"
	var got []published.Tuning
	for _, p := range deployments {
		for _, times := range published.TuningTimes {
			args, rate := p.TuneArguments(times)
			out, _, err := runCLI(t, append([]string{"tune", "--model-config", filepath.Join(points, "models", p.Model+".json"), "-o", "json"}, args...)...)
			if err != nil && !errors.Is(err, errFound) {
				t.Fatal(err)
			}
			var answer struct {
				Status string
				Result struct {
					Predicted []struct {
						Name string
						published.Between
					}
				}
			}
			if err := json.Unmarshal([]byte(out), &answer); err != nil {
				t.Fatal(err)
			}
			x := published.Tuning{Name: p.Name, Times: published.Round(times), Rate: rate, Status: answer.Status, Values: map[string]published.Between{}}
			for _, v := range answer.Result.Predicted {
				x.Values[v.Name] = published.Between{Value: published.Digits(v.Value), Low: published.Digits(v.Low), High: published.Digits(v.High)}
			}
			got = append(got, x)
		}
	}
	if mode == "update" {
		b, err := json.MarshalIndent(got, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(points, "tuned.json"), append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(2e-3, 0)); diff != "" {
		t.Errorf("tune says something else than docs/model-accuracy.md: run make model-accuracy (-page +now):\n%s", diff)
	}
}
