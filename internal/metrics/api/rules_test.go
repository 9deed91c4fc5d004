package api

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestRules(t *testing.T) {
	status, body := http.StatusOK, `{"status":"success","data":{"groups":[
		{"name":"g","file":"/etc/a.yaml","rules":[
			{"type":"alerting","name":"Full","query":"up == 0","duration":90,"annotations":{"runbook_url":"https://example.com"},"health":"ok","alerts":[]},
			{"type":"recording","name":"a:b","query":"sum(up)","health":"ok"}]},
		{"name":"empty","file":"/etc/b.yaml","rules":[]}]}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/rules" {
			t.Errorf("asked %s", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	c, err := New(Config{URL: server.URL})
	must.Succeed(t, err)
	defer c.Close()
	got, err := c.Rules(t.Context())
	want := []Rule{
		{File: "/etc/a.yaml", Group: "g", Alert: "Full", Expr: "up == 0", For: 90 * time.Second, Annotations: map[string]string{"runbook_url": "https://example.com"}},
		{File: "/etc/a.yaml", Group: "g", Record: "a:b", Expr: "sum(up)"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}

	status, body = http.StatusNotFound, `{"status":"error","errorType":"not_found","error":"no rules here"}`
	if _, err := c.Rules(t.Context()); !errors.Is(err, ErrNoRules) {
		t.Errorf("a server without rules: %v", err)
	}
}
