package cli

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/outputtest"
	"github.com/sixty-dev/sixty/internal/base/polltest"
)

func TestServedServersAnswerUntilTheyAreInterrupted(t *testing.T) {
	var out outputtest.Buffer
	root := newRoot(&out, &out)
	root.SetArgs([]string{
		"simulate", "--serve", "127.0.0.1:0", "--replicas", "2", "--vllm-version", "0.33",
		"--fault", "idle", "--engine-args", "--max-num-seqs 8 --served-model-name qwen --api-key secret", "--accelerate", "100",
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- root.ExecuteContext(ctx) }()
	defer stop()
	url := regexp.MustCompile(`(replica 0|replica 1|GPU exporter) +(http://\S+)`)
	polltest.True(func() bool { return strings.Contains(out.String(), "nobody: The users have gone home") })
	found := url.FindAllStringSubmatch(out.String(), -1)
	if len(found) != 3 || !strings.Contains(out.String(), "does not support --api-key") || strings.Contains(out.String(), "secret") {
		t.Fatalf("the command said:\n%s", out.String())
	}
	for i, want := range []string{"vllm:admission_rejections_total", `"qwen"`, "DCGM_FI_DEV_SM_CLOCK"} {
		u := found[i][2] + []string{"/metrics", "/v1/models", ""}[i]
		resp, err := http.Get(u)
		must.Succeed(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s does not say %s: %v", u, want, err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAnInterruptedDemoEnds(t *testing.T) {
	var out outputtest.Buffer
	root := newRoot(&out, &out)
	root.SetArgs([]string{"demo", "--fault", "idle"})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error)
	go func() { ended <- root.ExecuteContext(ctx) }()
	polltest.True(func() bool { return out.String() != "" })
	stop()
	if err := <-ended; err == nil || err.Error() != "interrupted" {
		t.Errorf("error %v\n%s", err, out.String())
	}
}
