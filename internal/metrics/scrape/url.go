package scrape

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// defaultPath is the path of the metrics page if the address has none, as Prometheus' metrics_path.
const defaultPath = "/metrics"

// URL completes a target's address as a user types it to the URL address of its metrics page: host:port, :port and
// host get the scheme http, and an empty path becomes /metrics.
func URL(target string) (string, error) {
	u, err := parseURL(target)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

// Instance returns the label "instance" of a target: host and port of its
// address, as in Prometheus. An address without a port is left without one.
func Instance(target string) string {
	u, err := parseURL(target)
	if err != nil {
		return target
	}
	return u.Host
}

// Complete makes a URL of an address as a user types it: host:port, :port and host get the scheme http.
func Complete(address string) string {
	if strings.HasPrefix(address, ":") {
		address = "localhost" + address
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return address
}

func parseURL(target string) (*url.URL, error) {
	const wayOut = "write it as http://HOST:PORT/metrics or HOST:PORT"
	s := strings.TrimSpace(target)
	if s == "" {
		return nil, hint.With(fmt.Errorf("target address is empty"), wayOut)
	}
	u, err := url.Parse(Complete(s))
	if err != nil {
		// The parser's error repeats the whole address, which may carry a password.
		return nil, hint.With(fmt.Errorf("target address is not a URL"), wayOut)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, hint.With(fmt.Errorf("target %s: scheme %q is neither http nor https", redactURL(u), u.Scheme),
			wayOut)
	}
	if u.Hostname() == "" {
		return nil, hint.With(fmt.Errorf("target %s: no host", redactURL(u)), wayOut)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = defaultPath
	}
	u.Fragment = ""
	return u, nil
}

// redactURL returns a URL as it may be shown: without user, password and query, which may be secrets.
func redactURL(u *url.URL) string {
	s := *u
	s.User = nil
	if s.RawQuery != "" {
		s.RawQuery = "…"
	}
	return s.String()
}
