package generate_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

func named(t *testing.T, ids ...string) []dialect.Dialect {
	t.Helper()
	var out []dialect.Dialect
	for _, id := range ids {
		d, err := dialect.Named(id)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d)
	}
	return out
}

func usual(t *testing.T, ids ...string) generate.RulesConfig {
	if len(ids) == 0 {
		ids = []string{"vllm-v1", "dcgm"}
	}
	return generate.RulesConfig{
		Deployment: generate.Deployment{
			Dialects: named(t, ids...), Instance: generate.UsualInstance, Model: generate.UsualModel, GPU: []string{"cluster"},
			Window: 5 * time.Minute, Short: time.Minute, Past: time.Hour,
		},
		Pathologies: pathologies.All(),
		Interval:    generate.UsualInterval, Past: generate.UsualPast, Ago: generate.UsualAgo,
		RunbookURL: "https://example.com/", RunbookSuffix: ".md",
	}
}

func TestDump(t *testing.T) {
	r, err := generate.NewRules(usual(t))
	if err != nil {
		t.Fatal(err)
	}
	out, err := generate.Encode(r.Groups, generate.Plain, "sixty", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	f := filepath.Join("/tmp", "rules.yaml")
	os.WriteFile(f, out, 0o644)
	t.Log(r.Warnings)
	o, err := exec.Command("promtool", "check", "rules", f).CombinedOutput()
	t.Logf("%s %v", o, err)
	return; fs, err := generate.RuleTests(usual(t), os.DirFS("../pathologies"), "/tmp/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fs {
		p := filepath.Join("/tmp", "t-"+f.Path)
		os.WriteFile(p, f.Content, 0o644)
		start := time.Now()
		o, err := exec.Command("promtool", "test", "rules", p).CombinedOutput()
		t.Logf("%s %d bytes %v %v\n%s", f.Path, len(f.Content), time.Since(start), err, o)
	}
}
