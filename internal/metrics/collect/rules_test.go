package collect

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
)

// TestARuleOfAFileIsItsOwn: who loads a rule of the catalogue from a file hears of it, although
// the catalogue's own notify nobody.
func TestARuleOfAFileIsItsOwn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	text := "groups:\n- name: mine\n  rules:\n  - alert: Down\n    expr: 'up   == 0'\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &memoryRules{logger: slog.New(slog.DiscardHandler)}
	m.set([]rulefmt.RuleGroup{{Name: "catalogue", Rules: []rulefmt.Rule{{Alert: "Down", Expr: "up == 0"}, {Alert: "Other", Expr: "up > 1"}}}})
	m.forgetFileRules()
	if !m.alone("Down", "up == 0") || m.alone("Mine", "up == 2") {
		t.Error("without a file the rules of the catalogue are known, and no others")
	}
	if _, errs := m.Load(file, false, model.UTF8Validation); len(errs) > 0 {
		t.Fatal(errs)
	}
	if m.alone("Down", "up == 0") || !m.alone("Other", "up > 1") {
		t.Error("a rule of the file is taken for the catalogue's")
	}
	if m.forgetFileRules(); !m.alone("Down", "up == 0") {
		t.Error("a file that is no longer read is remembered")
	}
}
