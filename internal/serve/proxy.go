package serve

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/prometheus/common/config"

	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
)

// proxiedPaths are the paths of Prometheus' API that a monitor proxies to its Prometheus server. All of them only read,
// with POST too.
var proxiedPaths = []string{"query", "query_range", "query_exemplars", "series", "labels", "label/", "metadata",
	"rules",
	"alerts", "format_query", "parse_query", "status/buildinfo"}

// maxProxied bounds the concurrent requests to the Prometheus server.
const maxProxied = 20

// proxy returns a reverse proxy to a Prometheus server. It sends the credentials of spec, and drops those of the
// request.
func proxy(spec source.Spec) (http.Handler, error) {
	base, err := url.Parse(spec.Prometheus)
	if err != nil {
		return nil, err
	}
	transport, err := config.NewRoundTripperFromConfig(spec.HTTP, "sixty")
	if err == nil {
		transport, err = spec.Signing.Wrap(transport)
	}
	if err != nil {
		return nil, err
	}
	p := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			for _, name := range []string{"Authorization", "Cookie", "Origin", "Referer"} {
				r.Out.Header.Del(name)
			}
			r.Out.Header.Set("User-Agent", version.This().String())
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/api/v1/")
		for _, known := range proxiedPaths {
			if path == known || strings.HasSuffix(known, "/") && strings.HasPrefix(path, known) {
				p.ServeHTTP(w, r)
				return
			}
		}
		http.NotFound(w, r)
	}), nil
}
