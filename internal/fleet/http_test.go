package fleet_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// started returns a fleet that is accelerated a hundred times, and a client that keeps no connections.
func started(t *testing.T, cfg fleet.Config) (*fleet.Fleet, *http.Client) {
	t.Helper()
	if cfg.Accelerate == 0 {
		cfg.Accelerate = 100
	}
	f, err := fleet.Start(cfg)
	must.Succeed(t, err)
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
	})
	return f, &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

func post(t *testing.T, c *http.Client, url, body string) (int, string) {
	t.Helper()
	resp, err := c.Post(url, "application/json", strings.NewReader(body))
	must.Succeed(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must.Succeed(t, err)
	return resp.StatusCode, string(b)
}

func get(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	resp, err := c.Get(url)
	must.Succeed(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must.Succeed(t, err)
	return resp.StatusCode, string(b)
}

// events are the data of server-sent events.
func events(body string) []string {
	var out []string
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			out = append(out, strings.TrimSpace(data))
		}
	}
	return out
}

type chunk struct {
	Object  string
	Choices []struct {
		Text    string
		Delta   struct{ Role, Content string }
		Message struct{ Role, Content string }
		Reason  string `json:"finish_reason"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	}
}

func TestAStreamedChatCompletion(t *testing.T) {
	f, c := started(t, fleet.Config{})
	status, body := post(t, c, f.URL(0)+"/v1/chat/completions",
		`{"model":"llama-8b","messages":[{"role":"user","content":"tell me something"}],"max_tokens":7,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`)
	list := events(body)
	if status != 200 || len(list) != 10 || list[9] != "[DONE]" { // role, 7 tokens, usage, the end
		t.Fatalf("%d: %d events\n%s", status, len(list), body)
	}
	for i, text := range list[:9] {
		var ch chunk
		if err := json.Unmarshal([]byte(text), &ch); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		switch {
		case ch.Object != "chat.completion.chunk" || ch.Usage == nil || ch.Usage.Completion != min(i, 7) ||
			ch.Usage.Total != ch.Usage.Prompt+min(i, 7):
			t.Errorf("event %d: %s", i, text)
		case i == 0 && (ch.Choices[0].Delta.Role != "assistant" || ch.Choices[0].Delta.Content != ""):
			t.Errorf("the first event has no role: %s", text)
		case i == 7 && ch.Choices[0].Reason != "length":
			t.Errorf("the last token has no reason: %s", text)
		case i == 8 && len(ch.Choices) != 0:
			t.Errorf("the usage has choices: %s", text)
		}
	}
}

func TestACompletionAtOnce(t *testing.T) {
	f, c := started(t, fleet.Config{})
	for _, tt := range []struct {
		name, path, body   string
		prompt, completion int
	}{
		{"text", "/v1/completions", `{"model":"llama-8b","prompt":"one two three","max_tokens":5,"ignore_eos":true}`, 3, 5},
		{"token ids", "/v1/completions", `{"prompt":[1,2,3,4],"max_tokens":5,"ignore_eos":true}`, 4, 5},
		{"a list with one text", "/v1/completions", `{"prompt":["one two"],"max_tokens":2,"ignore_eos":true}`, 2, 2},
		{"vLLM's default limit", "/v1/completions", `{"prompt":"one","ignore_eos":true}`, 1, 16},
		{"at least min_tokens", "/v1/completions", `{"prompt":"one","max_tokens":900,"min_tokens":900}`, 1, 900},
		{"chat with parts", "/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"text","text":"one two"}]}],"max_completion_tokens":3,"ignore_eos":true}`, 8, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body := post(t, c, f.URL(0)+tt.path, tt.body)
			var ch chunk
			if err := json.Unmarshal([]byte(body), &ch); err != nil || status != 200 || ch.Usage == nil {
				t.Fatalf("%d %s: %v", status, body, err)
			}
			if ch.Usage.Prompt != tt.prompt || ch.Usage.Completion != tt.completion {
				t.Errorf("usage %+v, want %d and %d", *ch.Usage, tt.prompt, tt.completion)
			}
			if got := strings.Count(ch.Choices[0].Text+ch.Choices[0].Message.Content, " word"); got != tt.completion {
				t.Errorf("the answer has %d words", got)
			}
		})
	}
}

func TestRequestsThatVLLMRefuses(t *testing.T) {
	f, c := started(t, fleet.Config{})
	long := strings.Repeat(" word", 9000)
	for _, tt := range []struct {
		name, body string
		status     int
	}{
		{"no JSON", `{"prompt":`, 400},
		{"a list", `[]`, 400},
		{"an unknown model", `{"model":"gpt-9","prompt":"one"}`, 404},
		{"an empty prompt", `{"prompt":""}`, 400},
		{"no prompt", `{}`, 400},
		{"a negative limit", `{"prompt":"one","max_tokens":-1}`, 400},
		{"a limit above the context", `{"prompt":"one","max_tokens":8192}`, 400},
		{"a prompt above the context", `{"prompt":"` + long + `","max_tokens":5}`, 400},
		{"several prompts", `{"prompt":["one","two"],"max_tokens":5}`, 400},
		{"n of two", `{"prompt":"one","n":2}`, 400},
		{"a picture", `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := "/v1/completions"
			if strings.Contains(tt.body, "messages") {
				path = "/v1/chat/completions"
			}
			status, body := post(t, c, f.URL(0)+path, tt.body)
			var e struct {
				Error struct {
					Message string
					Code    int
				}
			}
			if err := json.Unmarshal([]byte(body), &e); err != nil || status != tt.status ||
				e.Error.Code != tt.status || e.Error.Message == "" {
				t.Errorf("%d %s (%v), want %d", status, body, err, tt.status)
			}
		})
	}
	_, page := get(t, c, f.URL(0)+"/metrics")
	for _, line := range []string{
		`http_requests_total{handler="/v1/completions",method="POST",status="4xx"} 8`,
		`http_requests_total{handler="/v1/completions",method="POST",status="5xx"} 2`, // the two without a prompt
		`vllm:request_success_total{engine="0",model_name="llama-8b",finished_reason="length"} 0`,
	} {
		if !strings.Contains(page, line) {
			t.Errorf("the page lacks %s", line)
		}
	}
}

func TestAClientThatLeavesIsAborted(t *testing.T) {
	f, c := started(t, fleet.Config{Accelerate: 1})
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL(0)+"/v1/completions",
		strings.NewReader(`{"prompt":"one","max_tokens":5000,"ignore_eos":true,"stream":true}`))
	must.Succeed(t, err)
	resp, err := c.Do(req)
	must.Succeed(t, err)
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	leave()
	resp.Body.Close()
	await(t, c, f.URL(0)+"/metrics", "vllm:num_requests_running{engine=\"0\",model_name=\"llama-8b\"} 0\n")
	_, page := get(t, c, f.URL(0)+"/metrics")
	for _, line := range []string{
		`vllm:time_to_first_token_seconds_count{engine="0",model_name="llama-8b"} 1`,
		`vllm:e2e_request_latency_seconds_count{engine="0",model_name="llama-8b"} 0`,
		`vllm:request_success_total{engine="0",model_name="llama-8b",finished_reason="abort"} 0`,
		`http_requests_total{handler="/v1/completions",method="POST",status="2xx"} 1`,
	} {
		if !strings.Contains(page, line) {
			t.Errorf("the page lacks %s", line)
		}
	}
}

// await repeats a request until the answer contains a text.
func await(t *testing.T, c *http.Client, url, want string) {
	t.Helper()
	var body string
	says := func() bool {
		_, body = get(t, c, url)
		return strings.Contains(body, want)
	}
	if !polltest.True(says) {
		t.Fatalf("%s never says %q; at last:\n%s", url, want, body)
	}
}

func TestTheOtherEndpoints(t *testing.T) {
	f, c := started(t, fleet.Config{Replicas: 2, Exporter: ":0"})
	for _, tt := range []struct{ url, want string }{
		{f.URL(0) + "/health", ""},
		{f.URL(1) + "/ping", ""},
		{f.URL(0) + "/version", `{"version":"0.23.0"}`},
		{f.URL(1) + "/v1/models", `"max_model_len":8192`},
		{f.ExporterURL() + "/metrics", `DCGM_FI_DEV_SM_CLOCK{gpu="1",`},
	} {
		if status, body := get(t, c, tt.url); status != 200 || !strings.Contains(body, tt.want) {
			t.Errorf("%s: %d %s", tt.url, status, body)
		}
	}
	if status, body := post(t, c, f.URL(0)+"/tokenize", `{"prompt":"one two three"}`); status != 200 ||
		!strings.Contains(body, `"count":3`) {
		t.Errorf("/tokenize: %d %s", status, body)
	}
	if status, _ := get(t, c, f.URL(0)+"/other"); status != 404 {
		t.Errorf("an unknown path gives %d", status)
	}
}

func TestAFullQueueGives503(t *testing.T) {
	r, err := fleet.ParseRelease("0.33")
	must.Succeed(t, err)
	full := fleet.WithoutTraffic()
	full.Settings.MaxQueuedRequests = 1
	f, c := started(t, fleet.Config{Release: r, Scenario: full, Accelerate: 1})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL(0)+"/v1/completions",
		strings.NewReader(`{"prompt":"one","max_tokens":8000,"ignore_eos":true,"stream":true}`))
	must.Succeed(t, err)
	resp, err := c.Do(req)
	must.Succeed(t, err)
	defer resp.Body.Close()
	if status, body := post(t, c, f.URL(0)+"/v1/completions", `{"prompt":"one"}`); status != 503 {
		t.Errorf("%d %s", status, body)
	}
	if _, page := get(t, c, f.URL(0)+"/metrics"); !strings.Contains(page,
		`vllm:admission_rejections_total{model_name="llama-8b",reason="max_num_queued_reqs"} 1`) {
		t.Error("the rejection is not counted")
	}
}

func TestAServerGoesDownAndComesBackWhereItWas(t *testing.T) {
	sc, err := fleet.FindScenario(pathologies.All(), "engine-restart")
	must.Succeed(t, err)
	sc.Phases[0].For = 20 * time.Second
	f, c := started(t, fleet.Config{Scenario: sc, Accelerate: 20})
	if status, _ := get(t, c, f.URL(0)+"/health"); status != 200 {
		t.Fatalf("healthy, and /health gives %d", status)
	}
	must.Succeed(t, f.Wait(t.Context(), 1))
	answers := func() bool {
		resp, err := c.Get(f.URL(0) + "/health")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	}
	polltest.Until(t, "a server that is down does not answer", func() bool { return !answers() })
	must.Succeed(t, f.Wait(t.Context(), 2))
	if !polltest.True(answers) {
		t.Errorf("it never came back: %v", f.Err())
	}
}

func TestConfigurationsThatCannotBeServed(t *testing.T) {
	imbalance, err := fleet.FindScenario(pathologies.All(), "replica-imbalance")
	must.Succeed(t, err)
	tiny := fleet.WithoutTraffic()
	tiny.Settings.NumBlocks = 10
	full := fleet.WithoutTraffic()
	full.Settings.MaxQueuedRequests = 5
	for name, cfg := range map[string]fleet.Config{
		"too many replicas":           {Replicas: fleet.MaxReplicas + 1},
		"fewer than the scenario has": {Replicas: 1, Scenario: imbalance},
		"a negative acceleration":     {Accelerate: -1},
		"an address without a port":   {Addr: "localhost"},
		"a queue limit before 0.29":   {Scenario: full},
		"a cache for no sequence":     {Scenario: tiny},
		"an address that is taken":    {Addr: "256.0.0.1:80"},
	} {
		if f, err := fleet.Start(cfg); err == nil {
			f.Close()
			t.Errorf("%s was accepted", name)
		}
	}
}

// FuzzRequest sends bodies to the handlers. Every answer is one that vLLM could give, and the fleet keeps serving.
func FuzzRequest(f *testing.F) {
	fl, err := fleet.Start(fleet.Config{Accelerate: 1000})
	must.Succeed(f, err)
	f.Cleanup(func() { fl.Close() })
	for _, s := range []string{
		`{"prompt":"one","max_tokens":3}`, `{"messages":[{"role":"user","content":"x"}],"stream":true,"max_tokens":2}`,
		`{"prompt":[1,2],"stream":true,"stream_options":{"include_usage":true}}`,
		`{"prompt":[[1]],"n":1,"priority":-5}`, `{"prompt":[["a"]]}`, `{}`, `[`, `{"max_tokens":1e9,"prompt":"a"}`,
		`{"prompt":"` + "\xff" + `  a","min_tokens":4,"max_tokens":4}`,
	} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, chat bool) {
		if len(body) > 1<<14 {
			return
		}
		path := "/v1/completions"
		if chat {
			path = "/v1/chat/completions"
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // a long answer is left
		defer cancel()
		w := httptest.NewRecorder()
		fl.Handler(0).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body)))
		switch w.Code {
		case 200, 400, 404:
		default:
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if w.Code != 200 && !json.Valid(w.Body.Bytes()) {
			t.Errorf("an error that is no JSON: %s", fmt.Sprintf("%q", w.Body))
		}
	})
}
