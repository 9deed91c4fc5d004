package page_test

import (
	"compress/gzip"
	"io"
	"net/http"
	neturl "net/url"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/monitor/web/page"
)

// ask gets a path of the page, compressed or not.
func ask(t *testing.T, method, url string, packed bool) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	accept := "identity"
	if packed {
		accept = "br, gzip"
	}
	r.Header.Set("Accept-Encoding", accept)
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(raw)
}

func TestTheShellHoldsTheVerdictBeforeAnyScriptRuns(t *testing.T) {
	m, url := start(t)
	resp, body := ask(t, http.MethodGet, url+"/", false)
	for _, want := range []string{`<a href="/incident/` + m.incident.ID + `">KV cache thrashing on tiny</a>`, "The KV cache cannot hold the running requests", "qwen3-32b in prod on eu-west-1 is healthy", "It does not answer", "Do this first", "--max-num-seqs"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if got := resp.Header.Get("Content-Security-Policy"); !strings.Contains(got, "default-src 'none'; script-src 'self';") || strings.Contains(got, "unsafe") {
		t.Errorf("policy %q", got)
	}
	if resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a page with the verdict may be kept: %v", resp.Header)
	}
	_, body = ask(t, http.MethodGet, url+"/incident/"+m.incident.ID, true)
	if !strings.Contains(body, "<h1>KV cache thrashing on tiny</h1>") || !strings.Contains(body, "127.0.0.1:8100") {
		t.Errorf("the incident does not read without a script:\n%s", body)
	}
}

func TestTheShellCallsNothingHealthyThatIsNotKnownToBe(t *testing.T) {
	m, url := start(t)
	for state, want := range map[view.State]string{
		view.Partial: "Some data could not be read", view.Stale: "The last evaluation is out of date", view.Starting: "No evaluation yet", "new": "is unknown",
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

func TestThePagesPathsAndMethods(t *testing.T) {
	m, url := start(t)
	for path, status := range map[string]int{
		"/": 200, "/incidents": 200, "/explore?from=-24h&instance=a%22b": 200, "/fleet": 200, "/whatif": 200, "/audit": 200, "/runbooks": 200, "/runbooks/saturation": 200, "/settings": 200,
		"/incident/" + m.incident.ID: 200, "/incident/other": 404, "/incident/": 404, "/incident/a/b": 404, "/nowhere": 404, "/assets/main-of-yesterday.js": 404, "/../page.go": 404, "/assets/../manifest.json": 404,
	} {
		if resp, body := ask(t, http.MethodGet, url+path, true); resp.StatusCode != status {
			t.Errorf("%s: status %d, want %d: %.200s", path, resp.StatusCode, status, body)
		}
	}
	if resp, _ := ask(t, http.MethodPost, url+"/", false); resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", resp.StatusCode, resp.Header)
	}
	if resp, body := ask(t, http.MethodHead, url+"/", false); resp.StatusCode != 200 || body != "" || resp.ContentLength < 1000 {
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
		if resp.StatusCode != 200 || resp.Header.Get("Content-Encoding") != "gzip" || !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: status %d, %v", part, resp.StatusCode, resp.Header)
		}
		if kind := resp.Header.Get("Content-Type"); kind != "text/javascript; charset=utf-8" && kind != "text/css; charset=utf-8" {
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
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip")
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestHostileNamesAreTextInTheShell(t *testing.T) {
	m, url := start(t)
	m.set(func() { m.hostile = true })
	m.incident.Model, m.incident.Summary.Summary, m.incident.Targets = hostile, hostile, []string{hostile}
	for path, scripts := range map[string]int{"/": 3, "/incident/" + m.incident.ID: 3, "/incident/" + neturl.PathEscape(hostile): 2} {
		if !page.Built() { // the page's own is missing
			scripts--
		}
		_, body := ask(t, http.MethodGet, url+path, false)
		if strings.Contains(body, "<img") || strings.Count(body, "<script") != scripts || strings.Count(body, "</script") != scripts {
			t.Errorf("%s: a name became markup:\n%s", path, body)
		}
		if !strings.Contains(body, "&lt;img src=x") {
			t.Errorf("%s: the name is not in the page", path)
		}
	}
}

// TestThePathOfRequestsReadsWithoutAScript: what the picture shows is a list, on the overview and on the incident.
func TestThePathOfRequestsReadsWithoutAScript(t *testing.T) {
	m, url := start(t)
	m.apart()
	for _, path := range []string{"/", "/incident/" + m.incident.ID} {
		_, body := ask(t, http.MethodGet, url+path, false)
		body, _, _ = strings.Cut(body, `<script type="application/json"`)
		for _, want := range []string{
			`<h2 class="head">Request path</h2>`, `<li><b>router</b> <span class="soft">1 server, 20 ms held</span></li>`, "<li><b>requests from router to prefill</b></li>",
			`<li><b>prefill</b> <span class="soft">1 of 2 lost, 3 waiting, 420 ms to first token</span></li>`,
			`<li class="bad"><b>KV cache from prefill to decode</b> <span class="soft">300 ms, 25 % fail</span> <b class="failing">KV transfers failing</b></li>`,
			`<b class="failing">KV cache thrashing</b>`,
		} {
			if !strings.Contains(strings.ReplaceAll(body, "\u00a0", " "), want) {
				t.Errorf("%s: no %q in\n%.4000s", path, want, body)
			}
		}
	}
}

// Each view says what it can without a script.
func TestEveryViewReadsWithoutAScript(t *testing.T) {
	m, url := start(t)
	for path, wants := range map[string][]string{
		"/explore":                   {"TTFT P95", m.last.Targets[0].Name, "2.35 s", "1120 tok/s"},
		"/fleet":                     {"10.0.0.1:8000", "KV cache"},
		"/whatif":                    {"sixty simulate", "2.35 s"},
		"/audit":                     {"sixty audit"},
		"/incidents":                 {`<a href="/incident/` + m.incident.ID + `"><b>KV cache thrashing</b></a> on tiny`},
		"/runbooks":                  {`<a href="/runbooks/engine-hung"><b>Engine hung</b></a>`},
		"/runbooks/engine-hung":      {"<h2>", "What you see"},
		"/settings":                  {"ttft_objective", "job_name: vllm", "retention_s"},
		"/incident/" + m.incident.ID: {"Do this first", "--max-num-seqs", "Confirm:"},
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
