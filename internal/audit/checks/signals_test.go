package checks

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// TestNoAlarmOnTheProjectsOwnSignals holds the linter against every signal as
// it is asked of each dialect: what sixty asks itself is right.
func TestNoAlarmOnTheProjectsOwnSignals(t *testing.T) {
	for _, id := range []string{"vllm-v1", "vllm-v0", "vllm-v1-ray", "vllm-v1-kserve", "vllm-0.10", "sglang", "dcgm"} {
		d, err := dialect.Named(id)
		must.Succeed(t, err)
		type rule struct {
			Record string `json:"record"`
			Expr   string `json:"expr"`
		}
		var rules []rule
		for _, s := range indicator.All() {
			if (s.Scope == indicator.GPU) != (d.Engine == dialect.DCGM) || len(d.Missing(s)) > 0 {
				continue
			}
			rules = append(rules, rule{"signal:" + s.Name, d.Rewriting().Compile(d.Expr(s), s.Scope).String()})
		}
		data, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "g", "rules": rules}}})
		must.Succeed(t, err)
		surface, err := SurfaceOf(id)
		must.Succeed(t, err)
		found, errs := lint([]File{{Name: id, Data: data}}, surface)
		if len(errs) > 0 {
			t.Error(errs)
		}
		for _, f := range found {
			t.Errorf("%s: %s: %s: %s: %s", id, f.Where, f.Check, f.Fragment, f.Why)
		}
	}
}

// TestNoAlarmOnTheMixin holds the project's own rules and dashboards against its linter.
func TestNoAlarmOnTheMixin(t *testing.T) {
	var all []File
	for _, pattern := range []string{"rules/rules.yaml", "dashboards/*/*.json", "dashboards/*/*.yaml"} {
		names, err := filepath.Glob(filepath.Join("..", "..", "..", "mixin", pattern))
		must.Succeed(t, err)
		for _, name := range names {
			data := must.ReadFile(t, name)
			all = append(all, File{Name: name, Data: data})
		}
	}
	if len(all) < 3 {
		t.Fatalf("%d files", len(all))
	}
	s, err := SurfaceOf()
	must.Succeed(t, err)
	found, errs := lint(all, s)
	for _, f := range found {
		t.Errorf("%s:%d: %s: %s (%s)", f.File, f.Line, f.Check, f.Why, f.Fragment)
	}
	if len(errs) > 0 {
		t.Error(errs)
	}
}
