package cli

import (
	"context"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
)

// TestBadInputIsNamed runs the commands of testdata/refusals.yaml: each names what is wrong, and the way out.
func TestBadInputIsNamed(t *testing.T) {
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	content := must.ReadFile(t, "testdata/refusals.yaml")
	var refused []struct {
		Args  string `json:"args"`
		Error string `json:"error"` // in the error
		Try   string `json:"try"`   // in the error or its hint
	}
	must.Succeed(t, yaml.UnmarshalStrict(content, &refused))
	nobody := httptest.NewServer(nil)
	nobody.Close()
	files := strings.NewReplacer(
		"PROMETHEUS", prometheus(t, thrashing).URL, "NOBODY", nobody.URL,
		"RULES", write(t, "alerts.yaml", brokenRule), "INCIDENT", "../../testdata/incident.tar.zst", "THRASHING", thrashing,
		"STEADY", "../../testdata/recordings/higher-rate.tar.zst", "MODEL", "../modelconfig/testdata/llama-3.1-8b.json",
	)
	for _, tt := range refused {
		t.Run(tt.Args, func(t *testing.T) {
			root := newRoot(io.Discard, io.Discard)
			root.SetArgs(strings.Fields(files.Replace(tt.Args)))
			ctx, stop := context.WithTimeout(t.Context(), time.Minute) // of what would be served instead
			defer stop()
			err := root.ExecuteContext(ctx)
			if err == nil || tt.Error+tt.Try == "" || !strings.Contains(err.Error(), tt.Error) ||
				!strings.Contains(err.Error()+" "+hint.Of(err), tt.Try) {
				t.Errorf("error %v (try: %s), want %q and %q", err, hint.Of(err), tt.Error, tt.Try)
			}
		})
	}
}
