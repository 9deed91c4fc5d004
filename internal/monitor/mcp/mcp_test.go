package mcp_test

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/monitor/mcp"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/serve/whatif"
)

// A client of the protocol calls every tool over HTTP, on a recorded incident.
func TestTools(t *testing.T) {
	s, err := source.Open(t.Context(), source.Spec{Recording: filepath.Join("..", "..", "..", "testdata",
		"incident.tar.zst")})
	must.Succeed(t, err)
	defer s.Close()
	judge := func(ctx context.Context, at time.Time, window time.Duration) (diagnose.Diagnosis, error) {
		if at.IsZero() {
			at = s.Span().Last
		}
		o, err := s.Options(ctx, at)
		if err != nil {
			return diagnose.Diagnosis{}, err
		}
		o.Pathologies, o.Window = pathologies.All(), window
		return s.Diagnose(ctx, o)
	}
	server := httptest.NewServer(mcp.Handler(mcp.Options{
		Within: time.Hour, Source: s, Explained: pathologies.All(), Diagnose: judge,
		Simulate: func(ctx context.Context, ask view.WhatIf) (view.WhatIfAnswer, error) {
			d, err := judge(ctx, time.Time{}, 0)
			if err != nil {
				return view.WhatIfAnswer{}, err
			}
			return whatif.Simulate(ctx, s, &d, ask)
		},
		Incidents: func() []view.Summary {
			return []view.Summary{{Pathology: "saturation", Severity: "ticket", Targets: []string{"r0"},
				Began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Phase: view.Degraded, Story: "it fills",
				Impact: &view.Impact{Text: "3 of 9 requests late"}, Summary: "all full",
				Notes: []view.Note{{By: "ann", Text: "seen"}}}}
		},
	}))
	defer server.Close()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	c, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: server.URL}, nil)
	must.Succeed(t, err)
	defer c.Close()
	list, err := c.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 5 {
		t.Fatalf("%d tools, %v", len(list.Tools), err)
	}
	for _, tool := range list.Tools {
		if tool.Annotations == nil || !tool.Annotations.ReadOnlyHint || tool.Description == "" {
			t.Errorf("%s does not say that it only reads, or what it does", tool.Name)
		}
	}
	called := map[string]bool{}
	for _, tt := range []struct {
		tool string
		args map[string]any
		want []string
		fail bool
	}{
		{"diagnose", nil, []string{"KV cache thrashing", "sixty explain kv-cache-thrashing", "Or: ", "> 2.5"}, false},
		{"diagnose", map[string]any{"full": true}, []string{"preemptions_some"}, false},
		{"diagnose", map[string]any{"at": "+20s"}, []string{"Not certain yet"}, false},
		{"diagnose", map[string]any{"window": "-5m"}, []string{`window: "-5m" is not a duration of up to 744h (try: `}, true},
		{"diagnose", map[string]any{"at": "sometime"}, []string{"sometime"}, true},
		{"signal", nil, []string{"ttft_p95: TTFT P95"}, false},
		{"signal", map[string]any{"name": "kv_cache_usage"}, []string{"KV", "%"}, false},
		{"signal", map[string]any{"name": "kv_cache_usage", "model": "tiny"}, []string{"Normal: ", "In the judged window: "}, false},
		{"simulate", map[string]any{"model": "none"}, []string{`no server has the model "none": there are tiny`}, true},
		{"diagnose", map[string]any{"at": "garbage"}, []string{`at: "garbage" is not a time`}, true},
		{"signal", map[string]any{"name": "kv_cache_usage", "model": "none"}, []string{`no server has the model "none": there are tiny`}, true},
		{"signal", map[string]any{"name": "kv_cache_usage", "over": "100000h"}, []string{`over: "100000h"`}, true},
		{"signal", map[string]any{"name": "kv_cache_usge"}, []string{"kv_cache_usage"}, true},
		{"explain", nil, []string{"engine-hung (page)"}, false},
		{"explain", map[string]any{"id": "engine-hung"}, []string{"# "}, false},
		{"explain", map[string]any{"id": "engine-hang"}, []string{"engine-hung"}, true},
		{"incidents", nil, []string{"saturation (ticket), degraded, since 2026-01-02T03:04:05Z, on r0: all full\n  how: it fills\n  impact: 3 of 9 requests late", "note of ann: seen"}, false},
		{"incidents", map[string]any{"limit": 1000}, []string{"limit: 1000"}, true},
		{"simulate", map[string]any{"replicas": 2}, []string{"TTFT P95", "with the change"}, false},
		{"simulate", map[string]any{"flags": map[string]any{"max-num-seqs": "4"}}, []string{"--max-num-seqs"}, true},
	} {
		called[tt.tool] = true
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tt.tool, Arguments: tt.args})
		if err != nil {
			t.Errorf("%s %v: %v", tt.tool, tt.args, err)
			continue
		}
		var text strings.Builder
		for _, part := range r.Content {
			if p, ok := part.(*sdk.TextContent); ok {
				text.WriteString(p.Text)
			}
		}
		if r.IsError != tt.fail {
			t.Errorf("%s %v: error %v: %s", tt.tool, tt.args, r.IsError, text.String())
		}
		if tt.fail && strings.HasPrefix(text.String(), "--") {
			t.Errorf("%s %v: a flag is named: %s", tt.tool, tt.args, text.String())
		}
		for _, want := range tt.want {
			if !strings.Contains(text.String(), want) {
				t.Errorf("%s %v: %q is not in\n%s", tt.tool, tt.args, want, text.String())
			}
		}
	}
	for _, tool := range list.Tools {
		if !called[tool.Name] {
			t.Errorf("%s was not called", tool.Name)
		}
	}
}

// TestTargetsOf: a model is named as the servers or the verdicts name it, and no other answers.
func TestTargetsOf(t *testing.T) {
	d := &diagnose.Diagnosis{Verdict: diagnose.Verdict{Targets: []string{"leading"}}}
	for name, of := range map[string][3]string{"a": {"", "prod", "Qwen/Q3"}, "b": {"", "test", "Qwen/Q3"},
		"c": {"", "prod", "llama"}} {
		d.Targets = append(d.Targets, diagnose.Target{Name: name, Dialect: vllm(t),
			Labels: map[string]string{"cluster": of[0], "namespace": of[1], "model_name": of[2]}})
	}
	for name, want := range map[string]string{
		"": "leading", "llama": "c", "prod/llama": "c", "prod/Qwen/Q3": "a", "test/Qwen/Q3": "b",
		"Q3": "several models", "Qwen/Q3": "several models",
		"lama": "there are prod/Qwen/Q3, prod/llama, test/Qwen/Q3",
	} {
		got, err := mcp.TargetsOf(d, name)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && !slices.Equal(got, []string{want}) {
			t.Errorf("%q: %q, %v, want %q", name, got, err, want)
		}
	}
}

func vllm(t *testing.T) dialect.Dialect {
	t.Helper()
	d, err := dialect.Named("vllm-v1")
	must.Succeed(t, err)
	return d
}
