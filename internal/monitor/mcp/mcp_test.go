package mcp_test

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/monitor/mcp"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// A client of the protocol calls every tool over HTTP, on a recorded incident.
func TestTools(t *testing.T) {
	s, err := source.Open(t.Context(), source.Spec{Recording: filepath.Join("..", "..", "..", "testdata", "incident.tar.zst")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	server := httptest.NewServer(mcp.Handler(mcp.Options{
		Source: s, Explained: pathologies.All(), Past: 20 * time.Second,
		Diagnose: func(ctx context.Context, at time.Time, window time.Duration) (diagnose.Diagnosis, error) {
			if at.IsZero() {
				at = s.Span().Last
			}
			o, err := s.Options(ctx, at)
			if err != nil {
				return diagnose.Diagnosis{}, err
			}
			o.Pathologies, o.Window = pathologies.All(), window
			return s.Diagnose(ctx, o)
		},
	}))
	defer server.Close()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	c, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
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
		{"diagnose", nil, []string{"kv-cache-thrashing", "max-num-seqs"}, false},
		{"diagnose", map[string]any{"at": "+20s"}, []string{"healthy"}, false},
		{"diagnose", map[string]any{"at": "sometime"}, []string{"sometime"}, true},
		{"normal", nil, []string{"TTFT P95", "| now | normal |"}, false},
		{"normal", map[string]any{"model": "none"}, []string{"no such server"}, true},
		{"signal", nil, []string{"ttft_p95: TTFT P95"}, false},
		{"signal", map[string]any{"name": "kv_cache_usage"}, []string{"KV", "%"}, false},
		{"signal", map[string]any{"name": "kv_cache_usge"}, []string{"kv_cache_usage"}, true},
		{"explain", nil, []string{"engine-hung (page)"}, false},
		{"explain", map[string]any{"id": "engine-hung"}, []string{"# "}, false},
		{"explain", map[string]any{"id": "engine-hang"}, []string{"engine-hung"}, true},
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
