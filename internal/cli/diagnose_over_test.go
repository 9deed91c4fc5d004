package cli

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/cli/command"
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
		if len(lines) != 2 || !strings.HasPrefix(lines[0], "2026-11-21 04:51:") ||
			!strings.Contains(lines[0], "KV cache thrashing") || !strings.Contains(lines[1], " KV cache thrashing: ") {
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
			Began     time.Time
			Pathology string
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil || c.Began.IsZero() || c.Pathology == "" {
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
