package page_test

import (
	"compress/gzip"
	"io"
	"net/http"
	neturl "net/url"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/monitor/web/page"
)

// ask gets a path of the page, compressed or not.
func ask(t *testing.T, method, url string, packed bool) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	must.Succeed(t, err)
	accept := "identity"
	if packed {
		accept = "br, gzip"
	}
	r.Header.Set("Accept-Encoding", accept)
	resp, err := http.DefaultTransport.RoundTrip(r)
	must.Succeed(t, err)
	defer resp.Body.Close()
	body := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		body, err = gzip.NewReader(body)
		must.Succeed(t, err)
	}
	raw, err := io.ReadAll(body)
	must.Succeed(t, err)
	return resp, string(raw)
}

func TestTheShellHoldsTheVerdictBeforeAnyScriptRuns(t *testing.T) {
	m, url := start(t)
	resp, body := ask(t, http.MethodGet, url+"/", false)
	for _, want := range []string{`<a href="/incident/` + m.incident.ID + `">KV cache thrashing on tiny</a>`,
		"The KV cache cannot hold the running requests", "qwen3-32b in prod on eu-west-1 is healthy",
		`<h2 class="label">Now</h2>`, "<td>KV cache usage</td>"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if got := resp.Header.Get("Content-Security-Policy"); !strings.Contains(got,
		"default-src 'none'; script-src 'self';") || strings.Contains(got, "unsafe") {
		t.Errorf("policy %q", got)
	}
	if resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a page with the verdict may be kept: %v", resp.Header)
	}
	_, body = ask(t, http.MethodGet, url+"/incident/"+m.incident.ID, true)
	if !strings.Contains(body, "<h1>KV cache thrashing: requests come faster</h1>") ||
		!strings.Contains(body, "127.0.0.1:8100") {
		t.Errorf("the incident does not read without a script:\n%s", body)
	}
}

func TestTheShellCallsNothingHealthyThatIsNotKnownToBe(t *testing.T) {
	m, url := start(t)
	for state, want := range map[view.State]string{
		view.Partial: "Some data could not be read", view.Stale: "The last evaluation is out of date",
		view.Starting: "No evaluation yet", "new": "is unknown",
	} {
		m.set(func() { m.state, m.problems = state, []string{"store-7 is away"} })
		_, body := ask(t, http.MethodGet, url+"/", false)
		body, _, _ = strings.Cut(body, `<script type="application/json"`)
		if !strings.Contains(body, want) || !strings.Contains(body, "store-7 is away") {
			t.Errorf("%s: no %q in\n%s", state, want, body)
		}
		for _, never := range []string{`"healthy"`, ">healthy<", "is healthy"} {
			if strings.Contains(body, never) {
				t.Errorf("%s: %q in the page", state, never)
			}
		}
	}
}

func TestTheShellCallsWhatIsNotCertainByItsName(t *testing.T) {
	m, url := start(t)
	m.set(func() { m.healthy, m.uncertain, m.replicas = true, true, 0 })
	_, body := ask(t, http.MethodGet, url+"/", false)
	for _, want := range []string{`<span class="uncertain">uncertain</span>`,
		"<h1>Not certain yet whether tiny is healthy</h1>",
		`<p class="lead">14 requests wait, and nobody got a first token for 20 s on 127.0.0.1:8100.</p>`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
}

func TestThePagesPathsAndMethods(t *testing.T) {
	m, url := start(t)
	for path, status := range map[string]int{
		"/runbooks/other": 404,
		"/":               200, "/incidents": 200, "/explore?from=-24h&instance=a%22b": 200, "/fleet": 200,
		"/whatif": 200, "/audit": 200, "/runbooks": 200, "/runbooks/saturation": 200, "/settings": 200,
		"/incident/" + m.incident.ID: 200, "/incident/other": 404, "/incident/": 404, "/incident/a/b": 404,
		"/nowhere": 404, "/assets/main-of-yesterday.js": 404, "/../page.go": 404, "/assets/../manifest.json": 404,
	} {
		if resp, body := ask(t, http.MethodGet, url+path, true); resp.StatusCode != status {
			t.Errorf("%s: status %d, want %d: %.200s", path, resp.StatusCode, status, body)
		}
	}
	if resp, _ := ask(t, http.MethodPost, url+"/", false); resp.StatusCode != http.StatusMethodNotAllowed ||
		resp.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", resp.StatusCode, resp.Header)
	}
	if resp, body := ask(t, http.MethodHead, url+"/", false); resp.StatusCode != 200 || body != "" ||
		resp.ContentLength < 1000 {
		t.Errorf("HEAD: %d, %d bytes announced, %q", resp.StatusCode, resp.ContentLength, body)
	}
}

// script is how much of the bundle a browser loads at most, compressed.
const script = 150_000

func TestTheBundleIsSmallAndKept(t *testing.T) {
	built(t)
	_, url := start(t)
	_, body := ask(t, http.MethodGet, url+"/", false)
	total := 0
	assets := 0
	for _, part := range strings.Split(body, `"`) {
		if !strings.HasPrefix(part, "/assets/") {
			continue
		}
		assets++
		resp, got := ask(t, http.MethodGet, url+part, true)
		if resp.StatusCode != 200 || resp.Header.Get("Content-Encoding") != "gzip" ||
			!strings.Contains(resp.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: status %d, %v", part, resp.StatusCode, resp.Header)
		}
		if kind := resp.Header.Get("Content-Type"); kind != "text/javascript; charset=utf-8" &&
			kind != "text/css; charset=utf-8" {
			t.Errorf("%s is %s", part, kind)
		}
		if _, plain := ask(t, http.MethodGet, url+part, false); plain != got {
			t.Errorf("%s differs compressed", part)
		}
		if strings.HasSuffix(part, ".js") {
			total += len(compressed(t, url+part))
		}
	}
	t.Logf("scripts: %d bytes compressed", total)
	if assets != 4 || total > script {
		t.Errorf("%d assets, %d bytes of script compressed, want 4 and at most %d", assets, total, script)
	}
}

// compressed is what a browser loads of a file.
func compressed(t *testing.T, url string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must.Succeed(t, err)
	r.Header.Set("Accept-Encoding", "gzip")
	resp, err := http.DefaultTransport.RoundTrip(r)
	must.Succeed(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	must.Succeed(t, err)
	return raw
}

func TestHostileNamesAreTextInTheShell(t *testing.T) {
	m, url := start(t)
	m.set(func() { m.other = hostile })
	m.incident.Model, m.incident.Summary.Summary, m.incident.Affected = hostile, hostile, []string{hostile}
	for path, scripts := range map[string]int{"/": 4, "/incident/" + m.incident.ID: 4,
		"/incident/" + neturl.PathEscape(hostile): 3} {
		if !page.Built() { // the page's own is missing
			scripts--
		}
		_, body := ask(t, http.MethodGet, url+path, false)
		if strings.Contains(body, "<img") || strings.Count(body, "<script") != scripts ||
			strings.Count(body, "</script") != scripts {
			t.Errorf("%s: a name became markup:\n%s", path, body)
		}
		if !strings.Contains(body, "&lt;img src=x") {
			t.Errorf("%s: the name is not in the page", path)
		}
	}
}

func TestTheShellSaysThatAnIncidentIsQuiet(t *testing.T) {
	m, url := start(t)
	m.set(func() {
		m.healthy = true
		m.incident.Phase, m.incident.QuietSince, m.incident.ClosesAt = view.Quiet, ptr(m.end),
			ptr(m.end.Add(10*time.Minute))
	})
	for path, wants := range map[string][]string{
		"/": {`<span class="uncertain">quiet</span>`,
			"tiny is quiet, and its incident is not closed yet"},
		"/incident/" + m.incident.ID: {"quiet</span> since <time", ", closes at <time"},
	} {
		_, body := ask(t, http.MethodGet, url+path, false)
		body, _, _ = strings.Cut(body, `<script type="application/json"`)
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %q in\n%.3000s", path, want, body)
			}
		}
		if strings.Contains(body, "tiny is healthy") {
			t.Errorf("%s: quiet and healthy at once:\n%.3000s", path, body)
		}
	}
}

// TestEveryViewReadsWithoutAScript: the overview and an incident say what to do, other views where else it is had.
func TestEveryViewReadsWithoutAScript(t *testing.T) {
	m, url := start(t)
	for path, wants := range map[string][]string{
		"/explore":   {"<code>sixty top URL</code>", `href="/api/v1/panels"`},
		"/fleet":     {"<code>sixty top URL</code>", `href="/api/v1/overview"`},
		"/whatif":    {"<code>sixty simulate URL --replicas 4</code>"},
		"/audit":     {"<code>sixty audit URL</code>", `href="/api/v1/audit"`},
		"/incidents": {"sixty report", `href="/api/v1/incidents"`},
		"/runbooks":  {"<code>sixty explain</code>", `href="/api/v1/runbooks"`},
		"/runbooks/engine-hung": {"<h1>Engine hung</h1>", "<code>sixty explain engine-hung</code>",
			`href="/api/v1/runbooks/engine-hung"`},
		"/settings": {`href="/api/v1/settings"`, `aria-current="page">Settings`},
		"/incident/" + m.incident.ID: {`<span class="failing">failing</span> · page`, `<h2 class="label">Now</h2>`,
			`<h2 class="label">Then</h2>`, "--max-num-seqs", "Confirm:", "<td>KV cache usage</td>", "/postmortem",
			"sixty explain kv-cache-thrashing"},
	} {
		_, body := ask(t, http.MethodGet, url+path, false)
		body, _, _ = strings.Cut(body, `<script type="application/json"`)
		for _, want := range append(wants, `<a href="/settings"`) {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %q in\n%.3000s", path, want, body)
			}
		}
	}
}
