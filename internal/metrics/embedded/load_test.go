package embedded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/metrics/metricstest"
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

// TestLoadRealRecordings checks what a recording of vLLM must show whatever was
// done to the server: no warnings, one server that was up, and counters that
// began when the process did.
func TestLoadRealRecordings(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(metricstest.Shared(t, "recordings"), "*.tar.zst"))
	if err != nil || len(files) == 0 {
		t.Skip("no recordings")
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			s := openStore(t, Config{})
			rec := open(t, path)
			must.Succeed(t, s.Load(t.Context(), rec, nil))
			if w := s.Warnings(); len(w) > 0 {
				t.Errorf("warnings %q", w)
			}
			first, last, ok := s.Times()
			if f, l := rec.Times(); !ok || !first.Equal(f) || !last.Equal(l) {
				t.Errorf("times %s to %s, the recording's are %s to %s", first, last, f, l)
			}
			start, ok := s.FirstCreated(s.Targets()[0])
			if !ok || first.Sub(start) > time.Hour || !start.Before(first) {
				t.Fatalf("created at %s, first page at %s", start, first)
			}
			wantAsk(t, s, last, `count(sum_over_time(vllm:prompt_tokens_total[2h]) > bool 0)`, "{} 1")
			v, err := s.Query(t.Context(), "increase(vllm:prompt_tokens_total[2h]) / last_over_time(vllm:prompt_tokens_total[1m])", last)
			if err != nil || len(v) != 1 {
				t.Fatal(v, err)
			}
			// All that was ever counted is inside the range; extrapolation adds little.
			if r := float64(v[0].Value); r < 0.999 || r > 1.05 {
				t.Errorf("the increase over the life of the process is %v of the counter", r)
			}
		})
	}
}

func TestRealDumps(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(metricstest.Shared(t, "data", "dumps"), "*.txt"))
	if err != nil || len(files) == 0 {
		t.Skip("no dumps")
	}
	s := openStore(t, Config{})
	for _, path := range files {
		page, err := os.ReadFile(path)
		must.Succeed(t, err)
		target := Target{Instance: filepath.Base(path)}
		if _, err := s.Append(target, time.Unix(1_795_000_000, 0), page, "", 0); err != nil {
			t.Error(err)
		}
		v, err := s.Query(t.Context(), `count({__name__=~"vllm:.+",instance="`+target.Instance+`"})`, time.Unix(1_795_000_000, 0))
		if err != nil || len(v) != 1 || v[0].Value < 15 {
			t.Errorf("%s: %v, %v", target.Instance, v, err)
		}
	}
	for _, w := range s.Warnings() {
		if !strings.Contains(w, "malformed lines") || !strings.Contains(w, "inside-a-page") {
			t.Errorf("warning %q", w)
		}
	}
}
