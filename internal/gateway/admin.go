package gateway

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Admin returns the handler of the admin listener: /metrics, /requests, /health and /ready.
func (g *Gateway) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(g.metrics.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /requests", g.serveRequests)
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if g.draining.Load() || !slices.ContainsFunc(g.upstreams, func(u *upstream) bool { return !u.down.Load() }) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	return mux
}

// Requests is the answer to GET /requests.
type Requests struct {
	Schema   string        `json:"schema"` // "sixty.gateway.requests/v1"
	Time     time.Time     `json:"time"`
	Open     int           `json:"open"`
	Leaks    int           `json:"suspected_leaks"`
	Requests []OpenRequest `json:"requests"` // the oldest first, a thousand at most
}

// OpenRequest is an open request. Times are seconds.
type OpenRequest struct {
	ID       string  `json:"id"`
	Age      float64 `json:"age_seconds"`
	State    string  `json:"state"`
	Idle     float64 `json:"idle_seconds"` // since a byte moved
	Route    string  `json:"route"`
	Model    string  `json:"model,omitempty"`
	Upstream string  `json:"upstream,omitempty"`
	Tokens   int64   `json:"output_tokens"`
	Leak     bool    `json:"suspected_leak,omitempty"`
}

const maxListed = 1000

// isLeak reports whether a request is open for longer than LeakAge: its end may have been lost.
func (g *Gateway) isLeak(x *exchange, now int64) bool {
	return g.cfg.LeakAge > 0 && now-x.arrived > int64(g.cfg.LeakAge)
}

// serveRequests answers with the open requests that are at least min_age old, the oldest first.
func (g *Gateway) serveRequests(w http.ResponseWriter, r *http.Request) {
	atLeast, err := time.ParseDuration(cmp.Or(r.URL.Query().Get("min_age"), "0s"))
	if err != nil {
		http.Error(w, "min_age: want a duration such as 30s: "+err.Error(), http.StatusBadRequest)
		return
	}
	now := g.now()
	seconds := func(since int64) float64 { return time.Duration(now - since).Seconds() }
	out := Requests{
		Schema: "sixty.gateway.requests/v1", Time: time.Now(), Requests: []OpenRequest{},
	}
	g.eachOpen(func(x *exchange) {
		out.Open++
		leak := g.isLeak(x, now)
		if leak {
			out.Leaks++
		}
		if now-x.arrived < int64(atLeast) {
			return
		}
		o := OpenRequest{
			ID: x.id, Age: seconds(x.arrived), State: state(x.state.Load()).String(),
			Idle:  max(seconds(x.last.Load()), 0),
			Route: x.route, Tokens: x.tokens.Load(), Leak: leak,
		}
		if m := x.shownModel.Load(); m != nil {
			o.Model = *m
		}
		if u := x.up.Load(); u != nil {
			o.Upstream = u.name
		}
		out.Requests = append(out.Requests, o)
	})
	slices.SortFunc(out.Requests, func(a, b OpenRequest) int { return cmp.Compare(b.Age, a.Age) })
	out.Requests = out.Requests[:min(len(out.Requests), maxListed)]
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(out)
}
