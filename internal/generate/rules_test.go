package generate_test

import (
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
