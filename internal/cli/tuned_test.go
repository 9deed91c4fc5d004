package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

// publicPoints is where the published measurements are.
const publicPoints = "../../research/modelaccuracy/points"

// A publicDeployment is a server with published throughput under a burst.
type publicDeployment struct {
	Name, Model, GPU, VLLM, Args string

	Load struct {
		Prompt, Output float64 // mean tokens
		Shape          string
		Lengths        [2]string // of the shape "drawn"
	}
	Measured struct {
		Tokens float64 `json:"output_tok_s"`
	}
}

// A publicTuning is the answer of tune for a public deployment, at a multiple of the measured request rate.
type publicTuning struct {
	Name   string             `json:"name"`
	Times  float64            `json:"times"`
	Rate   float64            `json:"rate"`
	Status string             `json:"status"`
	Values map[string]between `json:"predicted"`
}

// between is a predicted quantity with its 90 % interval.
type between struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// tuneArguments returns the arguments of tune at a request rate. A server that keeps up stays far below the target, and
// any other exceeds it.
func (p *publicDeployment) tuneArguments(rate float64) []string {
	length := func(which int, mean float64) string {
		switch p.Load.Shape {
		case "sharegpt":
			return fmt.Sprintf("lognormal:%.0f,1.3:4-1024", mean)
		case "drawn":
			return p.Load.Lengths[which]
		}
		return fmt.Sprintf("%.0f", mean)
	}
	model := p.Model // of those that sixty knows
	if !strings.Contains(model, "/") {
		model = filepath.Join(publicPoints, "models", model+".json")
	}
	n, _, _ := engine.ParseArgs(p.Args, p.Name).Number(engine.TensorParallelSize)
	gpus, args := fmt.Sprint(max(n, 1)), p.Args
	if n == 0 {
		args += " --tensor-parallel-size 1"
	}
	return []string{
		"tune", "--model-config", model, "-o", "json", "--gpu", p.GPU, "--max-gpus", gpus, "--vllm-version", p.VLLM, "--engine-args", args,
		"--rate", fmt.Sprint(rate), "--prompt-tokens", length(0, p.Load.Prompt), "--output-tokens", length(1, p.Load.Output), "--ttft-p95", "10s",
	}
}

func readPublic(t *testing.T, file string, to any) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(publicPoints, file))
	if err == nil {
		err = json.Unmarshal(content, to)
	}
	must.Succeed(t, err)
}

// round keeps so many decimals.
func round(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}

// fourDigits keeps four digits.
func fourDigits(v float64) float64 {
	if !(v > 0) {
		return v
	}
	return round(v, 3-int(math.Floor(math.Log10(v))))
}

// TestTuneOfPublicDeployments compares the answers of tune for public deployments with those in
// docs/lab/model-accuracy.md. To write them anew:
//
//	SIXTY_ACCURACY=update go test ./internal/cli -run TuneOfPublicDeployments
//
// Without SIXTY_ACCURACY it runs the first deployment alone; "full" runs all.
func TestTuneOfPublicDeployments(t *testing.T) {
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	var deployments []publicDeployment
	var want, got []publicTuning
	readPublic(t, "deployments.json", &deployments)
	readPublic(t, "tuned.json", &want)
	loads := []float64{2. / 3, 1.5} // of what was measured
	mode := os.Getenv("SIXTY_ACCURACY")
	if mode == "" {
		deployments = deployments[:1]
		want = want[:min(len(want), len(loads))]
	}
	for _, p := range deployments {
		for _, times := range loads {
			rate := round(times*p.Measured.Tokens/p.Load.Output, 3)
			out, _, err := sixty(t, p.tuneArguments(rate)...)
			if err != nil && !errors.Is(err, errFound) {
				t.Fatal(err)
			}
			var answer struct {
				Status string
				Result struct {
					Rows []struct {
						Predicted []struct {
							Name string
							between
						}
					}
				}
			}
			must.Succeed(t, json.Unmarshal([]byte(out), &answer))
			x := publicTuning{Name: p.Name, Times: round(times, 3), Rate: rate, Status: answer.Status, Values: map[string]between{}}
			for _, v := range answer.Result.Rows[0].Predicted {
				x.Values[v.Name] = between{Value: fourDigits(v.Value), Low: fourDigits(v.Low), High: fourDigits(v.High)}
			}
			got = append(got, x)
		}
	}
	if mode == "update" {
		b, err := json.MarshalIndent(got, "", " ")
		must.Succeed(t, err)
		must.Succeed(t, os.WriteFile(filepath.Join(publicPoints, "tuned.json"), append(b, '\n'), 0o644))
		return
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(2e-3, 0)); diff != "" {
		t.Errorf("tune says something else than docs/lab/model-accuracy.md: run make model-accuracy (-page +now):\n%s", diff)
	}
}
