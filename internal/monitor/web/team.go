package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/monitor/access"
)

// Routes of Prometheus' API that teams may use: their selectors can be restricted, or they reveal nothing about
// servers.
var (
	expressions = []string{"query", "query_range", "query_exemplars"}
	selectors   = regexp.MustCompile(`^(series|labels|label/[^/]+/values)$`)
	harmless    = []string{"format_query", "parse_query", "status/buildinfo"}
)

// restrictPrometheus restricts a team's queries of Prometheus' API to its view: it adds the matchers of the view to
// every selector.
func restrictPrometheus(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := access.Of(r.Context())
		if !p.Restricted() {
			next.ServeHTTP(w, r)
			return
		}
		asked := strings.TrimPrefix(r.URL.Path, "/api/v1/")
		matched := selectors.MatchString(asked)
		switch {
		case slices.Contains(harmless, asked):
			next.ServeHTTP(w, r)
			return
		case !matched && !slices.Contains(expressions, asked), r.Method != http.MethodGet &&
			r.Method != http.MethodPost:
			Fail(w, http.StatusForbidden, hint.With(fmt.Errorf("a view of a team has no %s", asked),
				"it has query, query_range, series, labels and label/…/values"))
			return
		}
		if err := restrictForm(r, matched, p.Match); err != nil {
			Fail(w, http.StatusBadRequest, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// restrictForm replaces the parameters of a request by restricted ones.
func restrictForm(r *http.Request, matched bool, match []*labels.Matcher) error {
	if err := r.ParseForm(); err != nil {
		return errors.New("the parameters cannot be read")
	}
	form, name := r.Form, "query"
	if matched {
		if name = "match[]"; len(form[name]) == 0 {
			form[name] = []string{access.Selector(match)}
		}
	}
	for i, expr := range form[name] {
		text, err := metrics.RestrictExpr(expr, match)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		form[name][i] = text
	}
	text := form.Encode()
	r.URL.RawQuery, r.Form, r.PostForm = "", nil, nil
	if r.Method == http.MethodGet {
		r.URL.RawQuery = text
		return nil
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	return nil
}
