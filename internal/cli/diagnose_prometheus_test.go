package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
)

// prometheus serves a recording with Prometheus' HTTP API, as if it had been
// scraped; every answer carries the warnings.
func prometheus(t *testing.T, path string, warnings ...string) *httptest.Server {
	t.Helper()
	store, _, _ := embeddedtest.Open(t, path, func(name string) embedded.Target {
		return embedded.Target{Instance: name + ":8000", Job: "vllm", Labels: map[string]string{"namespace": "prod"}}
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := func(name string) time.Time {
			s, _ := strconv.ParseFloat(r.FormValue(name), 64)
			return time.UnixMilli(int64(s * 1000))
		}
		var result any
		var err error
		kind := "vector"
		if strings.HasSuffix(r.URL.Path, "query_range") {
			kind = "matrix"
			step, _ := strconv.ParseFloat(r.FormValue("step"), 64)
			result, err = store.QueryRange(r.Context(), r.FormValue("query"), metrics.Range{Start: at("start"), End: at("end"), Step: time.Duration(step * float64(time.Second))})
		} else if e, _ := parser.NewParser(parser.Options{}).ParseExpr(r.FormValue("query")); e != nil && e.Type() == parser.ValueTypeMatrix {
			kind = "matrix"
			samples := e.(*parser.MatrixSelector)
			result, err = store.Samples(r.Context(), samples.VectorSelector.String(), at("time"), samples.Range)
		} else {
			var v model.Vector
			if v, err = store.Query(r.Context(), r.FormValue("query"), at("time")); v == nil {
				v = model.Vector{}
			}
			result = v
		}
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"status":"error","errorType":"bad_data","error":%q}`, err)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "warnings": warnings, "data": map[string]any{"resultType": kind, "result": result}})
	}))
	t.Cleanup(server.Close)
	return server
}

// sixty runs the command line.
func sixty(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	root := newRoot(&out, &errOut)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), errOut.String(), err
}

const thrashing = "../../testdata/recordings/thrashing-deep.tar.zst"

func TestDiagnoseFromPrometheusAgreesWithTheRecording(t *testing.T) {
	server := prometheus(t, thrashing)
	stdout, _, err := sixty(t, "diagnose", "--prometheus", server.URL, "--match", "namespace=prod", "--match", `{job=~"vl.*"}`, "--at", "2026-11-21T04:52:55Z")
	if !errors.Is(err, errFound) || !strings.HasPrefix(stdout, "KV cache thrashing") {
		t.Errorf("error %v, output:\n%s", err, stdout)
	}
	stdout, _, err = sixty(t, "diagnose", "--prometheus", server.URL, "--at", "2026-11-21T04:51:40Z")
	if err != nil || !strings.HasPrefix(stdout, "Healthy") {
		t.Errorf("healthy phase: error %v, output:\n%s", err, stdout)
	}
}

// signs passes on what an access key of AWS has signed, as Amazon Managed Service for Prometheus does, and refuses
// what it has not.
func signs(t *testing.T, to *httptest.Server, key, secret string) *httptest.Server {
	t.Helper()
	base, err := url.Parse(to.URL)
	must.Succeed(t, err)
	proxy := httputil.NewSingleHostReverseProxy(base)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		at, wrong := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		again, refused := http.NewRequestWithContext(r.Context(), r.Method, "http://"+r.Host+r.URL.RequestURI(), bytes.NewReader(body))
		if err = errors.Join(err, wrong, refused); err == nil {
			_, names, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
			names, _, _ = strings.Cut(names, ",")
			for name := range strings.SplitSeq(names, ";") {
				if name != "host" && name != "content-length" {
					again.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
				}
			}
			err = signer.NewSigner().SignHTTP(r.Context(), aws.Credentials{AccessKeyID: key, SecretAccessKey: secret}, again,
				fmt.Sprintf("%x", sha256.Sum256(body)), "aps", "eu-central-1", at)
		}
		if err != nil || again.Header.Get("Authorization") != r.Header.Get("Authorization") {
			http.Error(w, `{"message": "The security token included in the request is invalid."}`, http.StatusForbidden)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server
}

// TestDiagnoseAManagedPrometheus: its requests are signed, and where they are not the answer says so.
func TestDiagnoseAManagedPrometheus(t *testing.T) {
	server := signs(t, prometheus(t, thrashing), "AKIA", "open-sesame")
	ask := func(config string) (string, error) {
		file := filepath.Join(t.TempDir(), "http.yaml")
		must.Succeed(t, os.WriteFile(file, []byte(config), 0o600))
		stdout, _, err := sixty(t, "diagnose", "--prometheus", server.URL, "--http-config", file, "--at", "2026-11-21T04:52:55Z")
		return stdout, err
	}
	stdout, err := ask("sigv4: {region: eu-central-1, access_key: AKIA, secret_key: open-sesame}\ntls_config: {insecure_skip_verify: false}\n")
	if !errors.Is(err, errFound) || !strings.HasPrefix(stdout, "KV cache thrashing") {
		t.Errorf("error %v, output:\n%s", err, stdout)
	}
	for config, want := range map[string]string{
		"sigv4: {region: eu-central-1, access_key: AKIA, secret_key: wrong}": "403",
		"follow_redirects: true":                                 "403",
		"sigv4: {region: eu-central-1, key: AKIA}":               "field key not found",
		"sigv4: {region: eu-central-1, access_key: AKIA}":        "Secret Key",
		"google_iam: {}\nazuread: {oauth: {client_id: x}}":       "Azure OAuth client_secret",
		"sigv4: {region: r, access_key: a, secret_key: b}\nx: y": "field x not found",
	} {
		if _, err := ask(config); err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, errFound) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "http.yaml")
	must.Succeed(t, os.WriteFile(file, []byte("sigv4: {region: r, access_key: a, secret_key: b}"), 0o600))
	for _, args := range [][]string{{"diagnose", "localhost:1"}, {"record", "localhost:1", "--out", file + ".tar"}} {
		if _, _, err := sixty(t, append(args, "--http-config", file)...); err == nil || !strings.Contains(err.Error(), "sign what --prometheus asks") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestDiagnoseSaysThatAnAnswerIsPartial(t *testing.T) {
	server := prometheus(t, thrashing, "store-7 unavailable")
	_, stderr, err := sixty(t, "diagnose", "--prometheus", server.URL, "--at", "2026-11-21T04:52:55Z")
	if !errors.Is(err, errFound) {
		t.Errorf("error %v, want the verdict all the same", err)
	}
	if n := strings.Count(stderr, "store-7 unavailable"); n != 1 {
		t.Errorf("the note is there %d times, want once:\n%s", n, stderr)
	}
}
