package source

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/diagnose"
)

// Servers are scraped on while they are diagnosed again and again, as a monitor does.
func TestLiveServersAreDiagnosedWhileTheyAreScraped(t *testing.T) {
	var scrapes atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			fmt.Fprintf(w, "vllm:num_requests_running{model_name=\"m\"} 0\n"+
				"vllm:generation_tokens_total{model_name=\"m\"} %d\n", scrapes.Add(1))
		case "/version":
			fmt.Fprint(w, `{"version":"0.23.0"}`)
		case "/health":
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	s, err := Open(t.Context(), Spec{URLs: []string{server.URL}, Interval: 100 * time.Millisecond})
	must.Succeed(t, err)
	defer s.Close()
	o, err := s.Options(t.Context(), time.Time{})
	must.Succeed(t, err)
	if _, err := s.Diagnose(t.Context(), o); err == nil || hint.Of(err) == "" {
		t.Errorf("before the first scrape: error %v, hint %q", err, hint.Of(err))
	}
	o.Memory = &diagnose.Memory{}
	ctx, stop := context.WithCancel(t.Context())
	var scraping sync.WaitGroup
	defer scraping.Wait()
	defer stop()
	scraping.Go(func() { s.Live.Run(ctx) })
	s.Live.FetchFacts(ctx)
	var last time.Time
	for n := range 3 {
		polltest.Until(t, "a further scrape", func() bool { return s.Span().Last.After(last) })
		d, err := s.Diagnose(t.Context(), o)
		must.Succeed(t, err)
		if !d.At.After(last) || len(d.Targets) != 1 || d.Targets[0].Version != "0.23.0" {
			t.Errorf("diagnosis %d: at %s, targets %+v", n, d.At, d.Targets)
		}
		last = d.At
	}
	if p, err := s.Pace(t.Context(), last); err != nil || p.Interval != 100*time.Millisecond || p.First.IsZero() {
		t.Errorf("pace %+v, %v", p, err)
	}
}

// What is opened wrongly says what to do, and what is secret is not shown.
// What a recording's meta.json says of a server is known of it, as --engine-args is, and goes after it.
func TestNotesOfARecordingReachTheDiagnosis(t *testing.T) {
	dir := t.TempDir()
	write := func(name, body string) {
		t.Helper()
		name = filepath.Join(dir, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must.Succeed(t, os.WriteFile(name, []byte(body), 0o600))
	}
	for i := range 12 {
		for _, server := range []string{"10.0.0.1:8000", "10.0.0.2:8000"} {
			write(fmt.Sprintf("%s/%d.prom", server, 1_700_000_000_000+1000*i), "vllm:num_requests_running{model_name=\"m\"} 0\nvllm:generation_tokens_total{model_name=\"m\"} 1\n")
		}
	}
	write("meta.json", `{"targets":[{"url":"http://10.0.0.1:8000/metrics","version":"0.32.1","models":[{"id":"m","max_model_len":4096}]}]}`)
	s, err := Open(t.Context(), Spec{Recording: dir})
	must.Succeed(t, err)
	defer s.Close()
	var o diagnose.Options
	must.Succeed(t, s.Complete(t.Context(), &o, "", ""))
	d, err := s.Diagnose(t.Context(), o)
	must.Succeed(t, err)
	var got []string
	for _, target := range d.Targets {
		got = append(got, fmt.Sprint(target.Name, " ", target.Version, " ", target.Config[engine.MaxModelLen].Value))
	}
	if diff := cmp.Diff([]string{"10.0.0.1:8000 0.32.1 4096", "10.0.0.2:8000 " + d.Targets[1].Dialect.Version + " "}, got); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		spec Spec
		err  string
	}{
		"nothing":            {Spec{}, "no source of samples"},
		"no such recording":  {Spec{Recording: "missing.tar"}, "no such file"},
		"no URL of a server": {Spec{URLs: []string{"ftp://user:secret@host"}}, "neither http nor https"},
	} {
		s, err := Open(t.Context(), tt.spec)
		if err == nil {
			s.Close()
			t.Errorf("%s: it was opened", name)
			continue
		}
		if !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v, want %s", name, err, tt.err)
		}
	}
}
