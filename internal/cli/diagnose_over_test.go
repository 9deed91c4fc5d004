package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

func TestSinceTellsWhatChangedAndWhen(t *testing.T) {
	server := prometheus(t, thrashing)
	answer, asked := server.Config.Handler, atomic.Int64{}
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answer.ServeHTTP(w, r)
	})
	for _, args := range [][]string{
		{thrashing, "--since", "1h"},
		{"--prometheus", server.URL, "--since", "90s", "--at", "2026-11-21T04:52:55Z"},
	} {
		stdout, stderr, err := sixty(t, append([]string{"diagnose"}, args...)...)
		if !errors.Is(err, errFound) {
			t.Fatalf("%v: error %v\n%s%s", args, err, stdout, stderr)
		}
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "Healthy") || !strings.Contains(lines[1], "KV cache thrashing (page)") || !strings.Contains(lines[1], "since 04:51:") {
			t.Errorf("%v: got\n%s", args, stdout)
		}
	}
	if n := asked.Load(); n == 0 || n > 30 { // one diagnosis asks some two hundred times
		t.Errorf("%d requests: the samples are read once, for all moments", n)
	}
	stdout, _, err := sixty(t, "diagnose", thrashing, "--since", "1h", "-o", "json", "--fail-on", "page")
	if !errors.Is(err, errFound) {
		t.Error(err)
	}
	for line := range strings.Lines(stdout) {
		var c struct {
			At time.Time
			ID string
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil || c.At.IsZero() || c.ID == "" {
			t.Errorf("%v: %s", err, line)
		}
	}
	if _, _, err := sixty(t, "diagnose", "../../testdata/recordings/full-but-quiet.tar.zst", "--since", "1h"); err != nil {
		t.Errorf("error %v where nothing was wrong", err)
	}
	for at, want := range map[string]error{"+10s": nil, "+20s": command.ErrNotCertain} {
		if stdout, _, err := sixty(t, "diagnose", "../../testdata/incident.tar.zst", "--since", "15s", "--at", at); !errors.Is(err, want) || strings.Contains(stdout, "Not certain yet") != (want != nil) {
			t.Errorf("at %s: error %v, want %v\n%s", at, err, want, stdout)
		}
	}
}

func TestWhatDoesNotGoWithChanges(t *testing.T) {
	for args, want := range map[string]string{
		thrashing + " --watch":                  "not a recording",
		thrashing + " --since 1h --watch":       "exclude each other",
		"localhost:1 --since 1h":                "needs a past",
		thrashing + " --since x":                "is not a positive duration",
		thrashing + " --since -1h":              "is not a positive duration",
		thrashing + " --since 1h -o html":       "not html",
		thrashing + " --since 1h --out x.txt":   "standard output",
		"localhost:1 --watch --baseline 1h":     "needs a past",
		"prometheus=http://a --watch --at -10m": "--at",
	} {
		if _, _, err := sixty(t, append([]string{"diagnose"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", args, err, want)
		}
	}
}

// TestWatch watches a server that falls ill: the pages of a recording, from a little before
// its fault on, each asked once.
func TestWatch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	rec, err := recording.Open(t.Context(), "../../testdata/recordings/target-down.tar.zst")
	must.Succeed(t, err)
	defer rec.Close()
	var pages [][]byte
	if err := rec.Scrapes(func(s recording.Scrape) error {
		pages = append(pages, s.Body)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	pages = pages[len(pages)-45:] // 15 s of health, and 30 s of refusals
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.URL.Path != "/metrics":
			http.NotFound(w, r)
		case len(pages) == 0 || len(pages[0]) == 0:
			if len(pages) > 0 {
				pages = pages[1:]
			}
			w.WriteHeader(http.StatusBadGateway)
		default:
			_, _ = w.Write(pages[0])
			pages = pages[1:]
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var errOut bytes.Buffer
	out := until{text: "Target down (page)", seen: cancel}
	root := newRoot(&out, &errOut)
	root.SetArgs([]string{"diagnose", server.URL, "--watch"})
	if err := root.ExecuteContext(ctx); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), errOut.String())
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) < 2 || !strings.Contains(lines[len(lines)-1], "Target down (page)") {
		t.Errorf("got\n%s%s", out.String(), errOut.String())
	}
}

// until is what was written, and says when a text was.
type until struct {
	bytes.Buffer
	text string
	seen func()
}

func (u *until) Write(p []byte) (int, error) {
	defer func() {
		if strings.Contains(u.String(), u.text) {
			u.seen()
		}
	}()
	return u.Buffer.Write(p)
}
