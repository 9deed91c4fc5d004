package serve_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/serve"
)

// TestDiscoveryFails: while a discovery fails or finds nothing the page says so, what is known
// of other servers is not called healthy, and a metric says it; afterwards all is well.
func TestDiscoveryFails(t *testing.T) {
	fl, err := fleet.Start(fleet.Config{Addr: "127.0.0.1:0", Replicas: 1, Warm: 2 * time.Minute})
	must.Succeed(t, err)
	defer fl.Close()
	target := strings.TrimPrefix(fl.URLs()[0], "http://")
	list := fmt.Sprintf(`[{"targets": [%q], "labels": {"by": "%%s"}}]`, target)

	var broken atomic.Bool
	broken.Store(true)
	sd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, list, "http")
	}))
	defer sd.Close()
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	write("torn.json", `[{"targets": [`)
	write("sixty.yaml", fmt.Sprintf(`scrape_configs:
- job_name: static
  static_configs: [{targets: [%q]}]
- job_name: by-http
  http_sd_configs: [{url: %q, refresh_interval: 1s}]
- job_name: by-file
  file_sd_configs: [{files: ["torn.json"], refresh_interval: 1s}]
- job_name: by-no-file
  file_sd_configs: [{files: ["none/*.json"], refresh_interval: 1s}]
- job_name: by-dns
  dns_sd_configs: [{names: ["no-such-name.invalid"], type: A, port: 8000, refresh_interval: 1s}]
`, target, sd.URL))
	r := start(t, func(c *serve.Config) { c.File = filepath.Join(dir, "sixty.yaml") })
	said := func(job, what string) func() bool {
		return func() bool {
			o := r.overview()
			for _, p := range o.Problems {
				if strings.Contains(p, "job "+job+" ") && strings.Contains(p, what) {
					return o.State == view.Partial
				}
			}
			return false
		}
	}
	metric := func(job, value string) bool {
		_, body := r.get("/metrics")
		for line := range strings.Lines(body) {
			if strings.HasPrefix(line, "sixty_discovery_failing{") && strings.Contains(line, `config="`+job+`"`) {
				return strings.HasSuffix(strings.TrimSpace(line), "} "+value)
			}
		}
		return false
	}
	r.until("the URL that answers with an error", said("by-http", "500"))
	r.until("the file that is torn", said("by-file", "unexpected end"))
	r.until("the files that are not there", said("by-no-file", "none/"))
	if _, err := net.DefaultResolver.LookupHost(t.Context(), "no-such-name.invalid"); err != nil {
		r.until("the name that nobody knows", said("by-dns", ""))
	}
	t.Logf("%q", r.overview().Problems)
	for _, job := range []string{"by-http", "by-file", "by-no-file"} {
		if !metric(job, "1") {
			t.Errorf("sixty_discovery_failing of %s is not 1", job)
		}
	}
	r.until("a verdict", func() bool { return len(r.overview().Models) == 1 })
	if _, body := r.get("/"); !strings.Contains(body, "servers may be missing") ||
		strings.Contains(body, "banner good") {
		t.Errorf("the page does not say it, or calls something healthy: %s", body)
	}

	broken.Store(false)
	write("torn.json", fmt.Sprintf(list, "file"))
	r.until("the URL is well again", func() bool { return !said("by-http", "")() && metric("by-http", "0") })
	r.until("the file is well again", func() bool { return !said("by-file", "")() && metric("by-file", "0") })
	write("sixty.yaml", fmt.Sprintf("scrape_configs:\n- job_name: static\n  static_configs: [{targets: [%q]}]\n",
		target))
	resp, err := http.Post(r.url+"/-/reload", "", nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	r.until("all is well", func() bool { return r.overview().State == view.OK })
}
