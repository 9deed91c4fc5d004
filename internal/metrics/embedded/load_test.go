package embedded

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

// record writes a recording of one target, a page a second from sec(0) on.
func record(t *testing.T, pages ...string) *recording.Recording {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rec.tar")
	w, err := recording.Create(path)
	must.Succeed(t, err)
	for i, page := range pages {
		must.Succeed(t, w.Add("r0", sec(float64(i)), []byte(page), 0))
	}
	must.Succeed(t, w.Close())
	return open(t, path)
}

func open(t *testing.T, path string) *recording.Recording {
	t.Helper()
	rec, err := recording.Open(t.Context(), path)
	must.Succeed(t, err)
	t.Cleanup(func() { rec.Close() })
	return rec
}

func TestLoad(t *testing.T) {
	s := openStore(t, Config{})
	rec := record(t, "a_b 1\n", "", "a_b 3\n", "<html>", "a_b 5\n")
	must.Succeed(t, s.Load(t.Context(), rec, func(name string) Target { return Target{Instance: name, Job: "vllm"} }))
	wantSamples(t, s, `up{instance="r0",job="vllm"}`, "1@0", "0@1", "1@2", "0@3", "1@4")
	wantSamples(t, s, `a_b{instance="r0",job="vllm"}`, "1@0", "3@2", "5@4")
	wantAsk(t, s, sec(3), "a_b")
	wantSamples(t, s, "scrape_duration_seconds") // a recording does not tell

	plain := openStore(t, Config{})
	must.Succeed(t, plain.Load(t.Context(), record(t, "a_b 1\n"), nil))
	wantAsk(t, plain, sec(0), "a_b", `a_b{instance="r0"} 1`)
}

func TestLoadRefusesARecordingWithoutAPage(t *testing.T) {
	for name, rec := range map[string]*recording.Recording{
		"all scrapes failed":  record(t, "", ""),
		"no page is readable": record(t, "<html>", ""),
	} {
		err := openStore(t, Config{}).Load(t.Context(), rec, nil)
		if err == nil || hint.Of(err) == "" {
			t.Errorf("%s: error %v with hint %q", name, err, hint.Of(err))
		}
	}
}

func TestLoadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := openStore(t, Config{}).Load(ctx, record(t, "a_b 1\n"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
