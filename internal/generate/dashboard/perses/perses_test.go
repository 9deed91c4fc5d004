package perses_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/generate/dashboard/perses"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

func files(t testing.TB) []generate.File {
	t.Helper()
	d, err := dialect.Named("vllm-v1")
	must.Succeed(t, err)
	out, err := perses.Files(dashboard.Config{Pathologies: pathologies.All(), Period: slo.DefaultPeriod, Deployment: dialect.Deployment{Dialects: []dialect.Dialect{d}}})
	must.Succeed(t, err)
	return out
}

// model is what the tests read of a dashboard.
type model struct {
	Metadata struct{ Name string }
	Spec     struct {
		Panels map[string]struct {
			Spec struct {
				Display struct{ Name, Description string }
				Plugin  struct {
					Kind string
					Spec struct {
						YAxis      struct{ Format struct{ Unit string } }
						Thresholds struct{ Steps []struct{ Value float64 } }
					}
				}
				Queries []struct {
					Spec struct {
						Plugin struct {
							Spec struct{ Query, Datasource string }
						}
					}
				}
			}
		}
		Layouts []struct {
			Spec struct {
				Items []struct {
					X, Y, Width, Height int
					Content             struct {
						Ref string `json:"$ref"`
					}
				}
			}
		}
	}
}

func models(t testing.TB) map[string]model {
	t.Helper()
	out := map[string]model{}
	for _, f := range files(t) {
		var m model
		if err := json.Unmarshal(f.Content, &m); err != nil {
			t.Fatalf("%s: %v", f.Path, err)
		}
		out[m.Metadata.Name] = m
	}
	return out
}

func TestTheSameInputGivesTheSameBytes(t *testing.T) {
	a, b := files(t), files(t)
	for i := range a {
		if !bytes.Equal(a[i].Content, b[i].Content) {
			t.Errorf("%s differs", a[i].Path)
		}
	}
}

func TestEveryPanelStandsInItsPlace(t *testing.T) {
	for name, m := range models(t) {
		placed := map[string]bool{}
		for _, l := range m.Spec.Layouts {
			taken := map[[2]int]bool{}
			for _, i := range l.Spec.Items {
				key := strings.TrimPrefix(i.Content.Ref, "#/spec/panels/")
				if _, ok := m.Spec.Panels[key]; !ok || placed[key] {
					t.Errorf("%s: %s is placed twice or does not exist", name, i.Content.Ref)
				}
				placed[key] = true
				for x := i.X; x < i.X+i.Width; x++ {
					for y := i.Y; y < i.Y+i.Height; y++ {
						if taken[[2]int{x, y}] || x >= 24 {
							t.Fatalf("%s: %s covers another, or leaves the grid", name, key)
						}
						taken[[2]int{x, y}] = true
					}
				}
			}
		}
		if len(placed) != len(m.Spec.Panels) {
			t.Errorf("%s: %d of %d panels are placed", name, len(placed), len(m.Spec.Panels))
		}
	}
}

// Perses has one axis to a chart.
func TestAPanelWithTwoUnitsBecomesTwo(t *testing.T) {
	type part struct {
		Name, Unit     string
		Queries, Steps int
	}
	got := map[string]part{}
	for key, p := range models(t)["sixty-incident"].Spec.Panels {
		if strings.HasPrefix(key, "p321") || strings.HasPrefix(key, "p302") {
			got[key] = part{p.Spec.Display.Name, p.Spec.Plugin.Spec.YAxis.Format.Unit, len(p.Spec.Queries), len(p.Spec.Plugin.Spec.Thresholds.Steps)}
		}
	}
	want := map[string]part{
		"p302":   {"2. Time to first token", "seconds", 2, 1},
		"p302-2": {"2. Time to first token: requests", "requests/sec", 1, 0},
		"p321":   {"6. Queue time and waiting requests", "seconds", 2, 1},
		"p321-2": {"6. Queue time and waiting requests: waiting", "decimal", 1, 0},
	}
	must.Equal(t, want, got)
}

func TestQueriesAskTheSourceThatTheReaderChose(t *testing.T) {
	for name, m := range models(t) {
		for key, p := range m.Spec.Panels {
			if len(p.Spec.Queries) == 0 || !strings.Contains(p.Spec.Display.Description, "No data because ") {
				t.Errorf("%s: %s has no query, or does not say why it may be empty", name, key)
			}
			for _, q := range p.Spec.Queries {
				if q.Spec.Plugin.Spec.Datasource != "$datasource" {
					t.Errorf("%s: %s asks %q", name, key, q.Spec.Plugin.Spec.Datasource)
				}
			}
		}
	}
}

// Perses' heatmap draws nothing of classic histograms.
func TestDistributionsArePercentilesByModel(t *testing.T) {
	p := models(t)["sixty-incident"].Spec.Panels["p311"].Spec
	if p.Plugin.Kind != "TimeSeriesChart" || len(p.Queries) != 4 {
		t.Fatalf("%s with %d queries", p.Plugin.Kind, len(p.Queries))
	}
	const want = "histogram_quantile(0.99, sum by (le, cluster, namespace, model_name) (increase(vllm:request_prompt_tokens_bucket{"
	if got := p.Queries[3].Spec.Plugin.Spec.Query; !strings.HasPrefix(got, want) {
		t.Errorf("%s", got)
	}
}
