package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	must.Succeed(t, err)
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// answer is a handler that gives one answer in JSON.
func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

const oneSample = `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up","job":"a"},"value":[1700000000.5,"1"]}]}`

var at = time.UnixMilli(1_700_000_000_500)

func TestQuery(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want model.Vector
	}{
		"a vector": {oneSample + "}", model.Vector{{Metric: model.Metric{"__name__": "up", "job": "a"}, Value: 1, Timestamp: 1_700_000_000_500}}},
		"a scalar": {`{"status":"success","data":{"resultType":"scalar","result":[1700000000.5,"2"]}}`, model.Vector{{Metric: model.Metric{}, Value: 2, Timestamp: 1_700_000_000_500}}},
		"nothing":  {`{"status":"success","data":{"resultType":"vector","result":[]}}`, model.Vector{}},
		// Annotations speak of the expression; infos are apart from warnings.
		"an annotation": {
			oneSample + `,"warnings":["PromQL warning: bucket label \"le\" is missing"],"infos":["PromQL info: metric might not be a counter"]}`,
			model.Vector{{Metric: model.Metric{"__name__": "up", "job": "a"}, Value: 1, Timestamp: 1_700_000_000_500}},
		},
		// VictoriaMetrics adds fields of its own.
		"more fields": {
			strings.Replace(oneSample, `"data"`, `"isPartial":false,"data"`, 1) + `,"stats":{"seriesFetched":"1"}}`,
			model.Vector{{Metric: model.Metric{"__name__": "up", "job": "a"}, Value: 1, Timestamp: 1_700_000_000_500}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newClient(t, Config{URL: serve(t, answer(200, tc.body))}).Query(t.Context(), "up", at)
			must.Succeed(t, err)
			must.Equal(t, tc.want, got)
		})
	}
}

func TestQueryRange(t *testing.T) {
	body := `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[1,"1"],[2,"NaN"]]}]}}`
	var form url.Values
	var path string
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		form, path = r.Form, r.URL.Path
		answer(200, body)(w, r)
	})
	r := metrics.Range{Start: time.Unix(1, 0), End: time.Unix(3, 0), Step: 500 * time.Millisecond}
	m, err := newClient(t, Config{URL: u + "/prometheus/"}).QueryRange(t.Context(), "up", r)
	if err != nil || len(m) != 1 || len(m[0].Values) != 2 || m[0].Values[0].Value != 1 {
		t.Fatalf("%v, %v", m, err)
	}
	want := url.Values{"query": {"up"}, "start": {"1"}, "end": {"3"}, "step": {"0.5"}}
	if diff := cmp.Diff(want, form); diff != "" || path != "/prometheus/api/v1/query_range" {
		t.Errorf("asked %s with (-want +got):\n%s", path, diff)
	}
	if _, err := newClient(t, Config{URL: u}).QueryRange(t.Context(), "up", metrics.Range{Start: r.Start, End: r.End}); err == nil {
		t.Error("a range without a step: no error")
	}
}

func TestCredentialsAreSent(t *testing.T) {
	var tenant, token string
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		tenant, token = r.Header.Get("X-Scope-OrgID"), r.Header.Get("Authorization")
		answer(200, oneSample+"}")(w, r)
	})
	h := config.DefaultHTTPClientConfig
	h.BearerToken = "token"
	h.HTTPHeaders = &config.Headers{Headers: map[string]config.Header{"X-Scope-OrgID": {Values: []string{"team"}}}}
	c := newClient(t, Config{URL: u, HTTP: h})
	if _, err := c.Query(t.Context(), "up", at); err != nil {
		t.Fatal(err)
	}
	if tenant != "team" || token != "Bearer token" {
		t.Errorf("tenant %q, token %q", tenant, token)
	}
}

func TestPartialAnswersAreErrorsWithTheirResult(t *testing.T) {
	for _, warning := range []string{
		"No StoreAPIs matched for this query",
		"fetch series for {cluster=\\\"eu\\\"} 10.0.0.1:10901: rpc error: code = Unavailable",
	} {
		c := newClient(t, Config{URL: serve(t, answer(200, oneSample+`,"warnings":["`+warning+`","PromQL warning: x"]}`))})
		v, err := c.Query(t.Context(), "up", at)
		var partial *PartialError
		if !errors.As(err, &partial) || len(partial.Warnings) != 1 || len(v) != 1 {
			t.Errorf("result %v, error %v", v, err)
		}
	}
}

func TestAServerThatTakesOnlyGetIsAskedSo(t *testing.T) {
	for _, status := range []int{http.StatusMethodNotAllowed, http.StatusForbidden} {
		u := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				http.Error(w, "no", status)
				return
			}
			answer(200, oneSample+"}")(w, r)
		})
		if v, err := newClient(t, Config{URL: u}).Query(t.Context(), "up", at); err != nil || len(v) != 1 {
			t.Errorf("after %d: %v, %v", status, v, err)
		}
	}
}

func TestAResetConnectionIsTriedOnceMore(t *testing.T) {
	for resets, ok := range map[int32]bool{1: true, 2: false} {
		var n atomic.Int32
		u := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1) <= resets {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				conn.(*net.TCPConn).SetLinger(0) // a reset, not an end
				conn.Close()
				return
			}
			answer(200, oneSample+"}")(w, r)
		})
		_, err := newClient(t, Config{URL: u}).Query(t.Context(), "up", at)
		if (err == nil) != ok || n.Load() != 2 {
			t.Errorf("%d resets: %d requests, error %v", resets, n.Load(), err)
		}
	}
}

func TestErrorsHaveAWayOut(t *testing.T) {
	page := func(status int, kind string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			io.WriteString(w, "<html>")
		}
	}
	for name, tc := range map[string]struct {
		handler     http.HandlerFunc
		path        string
		err, tryOut string
	}{
		"an HTML page":                  {page(200, "text/html; charset=utf-8"), "", "HTML", "/prometheus"},
		"an HTML page below a path":     {page(404, "text/html"), "/prometheus", "404", "path before /api/v1"},
		"Mimir without its prefix":      {page(404, "text/plain"), "", "404", "/prometheus"},
		"Mimir without a tenant":        {page(401, "text/plain"), "", "401", "X-Scope-OrgID"},
		"a proxy that wants a login":    {page(401, "text/html"), "", "401", "token"},
		"a login page":                  {page(403, "text/html"), "", "403", "token"},
		"too many requests":             {page(429, "text/plain"), "", "429", "less often"},
		"a proxy without a server":      {page(502, "text/html"), "", "502", "proxy"},
		"an expression it cannot parse": {answer(400, `{"status":"error","errorType":"bad_data","error":"parse error"}`), "", "parse error", "version"},
		"a tenant that is missing":      {answer(400, `{"status":"error","errorType":"bad_data","error":"no org id"}`), "", "no org id", "X-Scope-OrgID"},
		"a query that is too large":     {answer(422, `{"status":"error","errorType":"execution","error":"query processing would load too many samples"}`), "", "too many samples", "shorter window"},
		"a timeout of the server":       {answer(503, `{"status":"error","errorType":"timeout","error":"query timed out"}`), "", "timed out", "shorter window"},
		"an error of the server":        {answer(500, `{"status":"error","errorType":"internal","error":"oops"}`), "", "oops", "log"},
		"JSON of something else":        {answer(200, `{"hello":"world"}`), "", "", "address"},
		"something that is not JSON":    {page(200, "application/json"), "", "", "address"},
		"a matrix":                      {answer(200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`), "", "matrix", ""},
		"an endless answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for {
				if _, err := w.Write([]byte("                ")); err != nil {
					return
				}
			}
		}, "", "too large", "shorter window"},
		"no answer": {func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, "", "no answer within 300ms", "shorter --window"},
	} {
		t.Run(name, func(t *testing.T) {
			u := strings.Replace(serve(t, tc.handler), "http://", "http://user:secret@", 1) + tc.path
			c := newClient(t, Config{URL: u})
			c.http.Transport.(*transport).limit = 100_000
			if strings.Contains(tc.err, "300ms") {
				c.timeout = 300 * time.Millisecond
			}
			v, err := c.Query(t.Context(), "up", at)
			if err == nil {
				t.Fatalf("no error but %v", v)
			}
			if !strings.Contains(err.Error(), tc.err) || !strings.Contains(hint.Of(err), tc.tryOut) {
				t.Errorf("error %q with hint %q; want %q and %q", err, hint.Of(err), tc.err, tc.tryOut)
			}
			if strings.Contains(err.Error()+hint.Of(err), "secret") {
				t.Errorf("%q, hint %q, show a secret", err, hint.Of(err))
			}
		})
	}
}

func TestAConnectionThatCannotBeMadeHasAWayOut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	l.Close()
	for u, want := range map[string]string{
		"http://" + l.Addr().String():                                      "9090",
		strings.Replace(serve(t, http.NotFound), "http://", "https://", 1): "use http://",
	} {
		_, err := newClient(t, Config{URL: u}).Query(t.Context(), "up", at)
		if err == nil || !strings.Contains(hint.Of(err), want) {
			t.Errorf("%s: error %v with hint %q, want %q", u, err, hint.Of(err), want)
		}
	}
}

func TestAQueryEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	u := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	})
	if _, err := newClient(t, Config{URL: u}).Query(ctx, "up", at); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"localhost:9090":                            "http://localhost:9090",
		"http://p:9090/":                            "http://p:9090",
		"https://m/prometheus/":                     "https://m/prometheus",
		"http://p:9090/graph?g0.expr=up":            "http://p:9090",
		"http://p:9090/query":                       "http://p:9090",
		"http://p:9090/a/api/v1":                    "http://p:9090/a",
		"http://p:9090/api/v1/query_range?query=up": "http://p:9090",
		"http://vm:8481/select/0/prometheus":        "http://vm:8481/select/0/prometheus",
	} {
		if got := newClient(t, Config{URL: in}).baseURL.String(); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	bad := config.DefaultHTTPClientConfig
	bad.BearerToken, bad.BearerTokenFile = "a", "b"
	for name, cfg := range map[string]Config{
		"no address":                {},
		"a scheme of files":         {URL: "file:///etc/passwd"},
		"no host":                   {URL: "http://"},
		"contradicting credentials": {URL: "a:1", HTTP: bad},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func ExamplePartialError() {
	fmt.Println(&PartialError{Warnings: []string{"store eu-1 is not available"}})
	// Output: the server's answer is partial: store eu-1 is not available
}

func TestInfiniteAnswersAreDroppedAndTold(t *testing.T) {
	c := newClient(t, Config{URL: serve(t, answer(200, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[1,"1"],[2,"+Inf"],[3,"1e300"],[4,"-Inf"],[5,"NaN"]]}]}}`))})
	m, err := c.QueryRange(t.Context(), "up", metrics.Range{Start: time.Unix(1, 0), End: time.Unix(5, 0), Step: time.Second})
	if err != nil || len(m) != 1 || len(m[0].Values) != 2 {
		t.Errorf("%v, %v", m, err)
	}
	if got := strings.Join(c.Warnings(), ""); !strings.Contains(got, "Ignored 3") || !strings.Contains(got, "first in up") {
		t.Errorf("warnings %q", got)
	}
}

// FuzzResult: what is read here is what client_golang reads.
func FuzzResult(f *testing.F) {
	for _, result := range []string{
		`{"metric":{},"value":[1700000000.5,"1"]}`,
		`{"metric":{"a":"b \"c\" \u00e9 \\","d":"\\\""},"value":[1700000000,"NaN"]},{"metric":{"a":"b"},"value":[1.25,"+Inf"]}`,
		`{"metric":{"a":"b"},"values":[[1.123,"1e5"],[ 2 , "-2" ]]} , {"metric" : { "x" : "y" } , "values" : [ ] }`,
		`{"metric":{"a":"b"},"histogram":[1,{}]}`, `{"metric":{"a":"b"},"values":[[1,"1"]],"histograms":[[1,{}]]}`,
		"1700000000.5,\"2\"", "", "{}", `{"metric":{"a":"` + "\xff" + `"},"value":[1,"1"]}`, `{"metric":{"a":"b",},"value":[1,"1"]}`, `{"metric":{"a":"b"},"value":[1.5e3,"1"]},`,
	} {
		f.Add("vector", result)
		f.Add("matrix", result)
	}
	f.Add("0", `{"metric":{},"value":[1700000000.5,"1"]}`)
	f.Fuzz(func(t *testing.T, kind, text string) {
		body := `{"status":"success","data":{"resultType":"` + kind + `","result":[` + text + `]}}`
		var taken result
		rest := taken.cutResult([]byte(body))
		if len(taken.vector) == 0 && len(taken.matrix) == 0 {
			return
		}
		read := func(body string) (model.Value, error) {
			s := httptest.NewServer(answer(200, body))
			defer s.Close()
			raw, err := api.NewClient(api.Config{Address: s.URL})
			must.Succeed(t, err)
			v, _, _, err := v1.NewAPI(raw).Query(t.Context(), "up", at)
			return v, err
		}
		want, err := read(body)
		_, bad := read(string(rest))
		switch {
		case err != nil:
			t.Skip("what the library refuses as a whole, as a kind that it does not know, or commas too many")
		case bad != nil:
			t.Fatalf("%s: without its result %v", body, bad)
		}
		var got model.Value = taken.vector
		if len(taken.matrix) > 0 {
			got = taken.matrix
		}
		if got.Type() == want.Type() && got.String() != want.String() {
			t.Errorf("%s\nread here:  %s\nthe library: %s", body, got, want)
		}
	})
}
