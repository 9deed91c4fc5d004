package generate_test

import (
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/generate"
)

// Grafana evaluates each alert, and Prometheus records what they read. An alert fires on whatever its expression selects,
// a zero too, and no template of it needs what Grafana's lack.
func TestGrafanaEvaluatesEveryAlert(t *testing.T) {
	r := rulesOf(t, usual(t))
	files, err := generate.Objects(r.Sets, generate.Grafana, "sixty", "", nil)
	must.Succeed(t, err)
	if len(files) != 2 || strings.Contains(string(files[0].Content), "alert:") {
		t.Fatalf("%d files, and the first one has alerts", len(files))
	}
	var managed struct {
		Groups []struct {
			Interval string
			Rules    []struct {
				UID, Title, Condition, NoDataState string
				Data                               []struct {
					RefID         string `yaml:"refId"`
					DatasourceUID string `yaml:"datasourceUid"`
					Model         struct{ Expr, Expression string }
				}
				Annotations map[string]string
			}
		}
	}
	must.Succeed(t, yaml.Unmarshal(files[1].Content, &managed))
	alerts := 0
	for _, g := range r.Groups() {
		for i := range g.Rules {
			if g.Rules[i].Alert != "" {
				alerts++
			}
		}
	}
	seen := map[string]bool{}
	for _, g := range managed.Groups {
		for _, a := range g.Rules {
			if seen[a.UID] || seen[a.Title] {
				t.Errorf("a second %s (%s)", a.Title, a.UID)
			}
			seen[a.UID], seen[a.Title] = true, true
			alerts--
			if len(a.Data) != 2 || a.Data[1].RefID != a.Condition || a.Data[1].Model.Expression != "is_number($A)" || a.Data[0].DatasourceUID != "$"+generate.GrafanaDataSource {
				t.Fatalf("%s: %+v", a.Title, a.Data)
			}
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(a.Data[0].Model.Expr); err != nil {
				t.Errorf("%s: %v", a.Title, err)
			}
			for name, text := range a.Annotations {
				if strings.Contains(text, "query }}") || strings.Contains(text, "$value ") {
					t.Errorf("%s: annotation %s: %s", a.Title, name, text)
				}
			}
		}
	}
	if alerts != 0 {
		t.Errorf("%d alerts are missing", alerts)
	}
}
