package serve_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/serve"
	"github.com/sixty-dev/sixty/internal/trace"
)

// export is a request as vLLM exports it.
func export(t *testing.T) []byte {
	t.Helper()
	all := ptrace.NewTraces()
	s := all.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{2})
	s.SetName("llm_request")
	s.SetStartTimestamp(1e9)
	s.SetEndTimestamp(3e9)
	s.Attributes().PutDouble("gen_ai.latency.time_in_queue", 1.5)
	s.Attributes().PutStr("gen_ai.prompt", "the patient's name")
	out, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(all)
	must.Succeed(t, err)
	return out
}

func (r *running) export(kind, encoding string, body []byte) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+"/v1/traces", bytes.NewReader(body))
	must.Succeed(r.t, err)
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Content-Encoding", encoding)
	resp, err := http.DefaultClient.Do(req)
	must.Succeed(r.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must.Succeed(r.t, err)
	return resp.StatusCode, string(text)
}

func gzipped(t *testing.T, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(body); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, z.Close())
	return b.Bytes()
}

func TestTracesAreReceived(t *testing.T) {
	r := start(t, func(c *serve.Config) { c.Targets, c.TraceBytes = []string{"127.0.0.1:1"}, 1<<20 })
	for name, tc := range map[string]struct {
		kind, encoding string
		body           []byte
		code           int
		want           string
	}{
		"protobuf":  {"application/x-protobuf", "", export(t), 200, ""},
		"gzip":      {"application/x-protobuf", "gzip", gzipped(t, export(t)), 200, ""},
		"JSON":      {"application/json", "", []byte(`{"resourceSpans":[]}`), 200, "{}"},
		"text":      {"text/plain", "", []byte("x"), 415, "must be OTLP"},
		"nonsense":  {"application/x-protobuf", "", []byte{0xff, 0xff}, 400, "not OTLP in protobuf"},
		"a bomb":    {"application/x-protobuf", "gzip", gzipped(t, make([]byte, 16<<20)), 413, "send_batch_max_size"},
		"too large": {"application/x-protobuf", "", make([]byte, 2<<20), 413, "too large"},
		"not gzip":  {"application/x-protobuf", "gzip", []byte("x"), 413, "unpack"},
	} {
		if code, text := r.export(tc.kind, tc.encoding, tc.body); code != tc.code || !strings.Contains(text, tc.want) {
			t.Errorf("%s: status %d, %s, want %d, %s", name, code, text, tc.code, tc.want)
		}
	}
	code, text := r.get("/api/v1/traces/01000000000000000000000000000000")
	var report trace.Report
	if err := json.Unmarshal([]byte(text), &report); err != nil || code != 200 || report.Schema != trace.Schema ||
		report.Blame.Phase != trace.Queue {
		t.Errorf("status %d, %v, %+v", code, err, report)
	}
	if strings.Contains(text, "patient") {
		t.Errorf("a prompt was kept: %s", text)
	}
	if code, text := r.get("/api/v1/traces/zz"); code != 404 || !strings.Contains(text, "no trace") {
		t.Errorf("status %d, %s", code, text)
	}
	if code, text := r.get("/api/v1/traces"); code != 200 || strings.TrimSpace(text) != "[]" {
		t.Errorf("status %d, %s, want no slow request: one says nothing of what is normal", code, text)
	}
}

func TestWithoutABufferTracesAreRefused(t *testing.T) {
	off := start(t, func(c *serve.Config) { c.Targets = []string{"127.0.0.1:1"} })
	if code, text := off.export("application/x-protobuf", "", export(t)); code != 404 ||
		!strings.Contains(text, "--trace-buffer") {
		t.Errorf("status %d, %s", code, text)
	}
}
