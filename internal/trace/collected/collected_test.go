package collected_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/config"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/goleak"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/trace/collected"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const id = "01000000000000000000000000000000"

// answering is a server that answers one path with a body.
func answering(t *testing.T, path, kind string, status int, body []byte) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			http.NotFound(w, r)
			return
		}
		if got := r.Header.Get("Accept"); got != "application/protobuf" { // Tempo compares the whole header
			t.Errorf("Accept: %s", got)
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestFetch(t *testing.T) {
	all := ptrace.NewTraces()
	s := all.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{2})
	s.SetStartTimestamp(1)
	s.SetEndTimestamp(2)
	tempo, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(all)
	must.Succeed(t, err)
	jaeger := []byte(`{"data":[{"processes":{"p":{"serviceName":"x"}},"spans":[{"traceID":"` + id + `","spanID":"2","processID":"p","startTime":1,"duration":1}]}]}`)
	for name, base := range map[string]string{
		"Tempo":           answering(t, "/api/traces/"+id, "application/protobuf", 200, tempo),
		"Tempo at a path": answering(t, "/tempo/api/traces/"+id, "application/protobuf", 200, tempo) + "/tempo/",
		"Jaeger":          answering(t, "/api/traces/"+id, "application/json", 200, jaeger),
	} {
		if spans, report, err := collected.Fetch(t.Context(), base, id, config.DefaultHTTPClientConfig); err != nil ||
			report != nil || len(spans) != 1 || spans[0].Trace != id {
			t.Errorf("%s: %+v, %v, %v", name, spans, report, err)
		}
	}
	own := answering(t, "/api/v1/traces/"+id, "application/json", 200, []byte(`{"schema":"sixty.trace/v1","trace_id":"`+id+`","rows":[]}`))
	if spans, report, err := collected.Fetch(t.Context(), own, id, config.DefaultHTTPClientConfig); err != nil ||
		spans != nil || report == nil || report.ID != id {
		t.Errorf("sixty serve: %+v, %+v, %v", spans, report, err)
	}
	for name, tc := range map[string]struct{ base, want, way string }{
		"unknown":    {answering(t, "/", "text/html", 200, nil), "has no trace", "Tempo (port 3200)"},
		"Jaeger's":   {answering(t, "/api/v1/traces/"+id, "text/html; charset=utf-8", 200, []byte("<html>")), "has no trace", "all 32 digits"},
		"forbidden":  {answering(t, "/api/traces/"+id, "text/plain", 401, nil), "status 401", "--bearer-token-file"},
		"broken":     {answering(t, "/api/traces/"+id, "text/plain", 500, nil), "status 500", ""},
		"a page":     {answering(t, "/api/traces/"+id, "text/html", 200, []byte("<html>")), "no JSON object", ""},
		"huge":       {answering(t, "/api/traces/"+id, "application/protobuf", 200, make([]byte, 9<<20)), "more than", ""},
		"no address": {"http://", "not a URL", ""},
	} {
		_, _, err := collected.Fetch(t.Context(), tc.base, id, config.DefaultHTTPClientConfig)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(hint.Of(err), tc.way) {
			t.Errorf("%s: %v (%s)", name, err, hint.Of(err))
		}
	}
}

func TestReadsFilesOfTheCollector(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	must.Succeed(t, os.WriteFile(empty, nil, 0o600))
	if _, err := collected.Files([]string{empty}); err == nil || !strings.Contains(err.Error(), empty) ||
		hint.Of(err) == "" {
		t.Errorf("an empty file: %v", err)
	}
	if spans, err := collected.Files([]string{"../../../testdata/traces/slow.otlp"}); err != nil || len(spans) < 100 {
		t.Errorf("%d spans, %v", len(spans), err)
	}
}
