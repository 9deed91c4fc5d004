package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// errStranger is wrapped by the error for a page of another program. Scraping again does not change that.
var errStranger = errors.New("no metric of an inference server")

// onlyStrangersError returns the error for a recording that holds only pages of other programs.
func (s *Source) onlyStrangersError(ctx context.Context) error {
	span := s.Span()
	v, err := s.Query(ctx, `group by (__name__) ({__name__=~".+", __name__!~"up|scrape_.+"})`, span.Last)
	if err != nil || len(v) == 0 {
		return err
	}
	var names []string
	for _, sample := range v {
		names = append(names, string(sample.Metric[labels.MetricName]))
	}
	if _, ok := dialect.Detect(names); ok {
		return nil
	}
	past := model.Duration(span.Last.Sub(span.First).Truncate(time.Second) + time.Second)
	if v, err = s.Query(ctx, fmt.Sprintf(`group(last_over_time({__name__=~%q}[%s]))`, dialect.Selector, past),
		span.Last); err != nil || len(v) > 0 {
		return err
	}
	return notInferenceError(s.Name, names)
}

// notInferenceError returns the error for a page without any metric of an inference server.
func notInferenceError(name string, names []string) error {
	what, try := dialect.DescribeStranger(names)
	return hint.With(fmt.Errorf("%s exposes %w: it %s", name, errStranger, what), try)
}

// Kind identifies the program of a page, and describes a page that belongs to no inference server, GPU exporter or
// gateway. Without a page it returns zero values.
func (p *Scrape) Kind(name string) (engine.ID, error) {
	if p.Err != nil {
		return "", nil
	}
	names := map[string]bool{}
	if _, err := scrape.Parse(p.Body.Raw, p.Body.ContentType, func(l labels.Labels, _ int64, _ float64) {
		names[l.Get(labels.MetricName)] = true
	}); err != nil {
		return "", nil
	}
	list := slices.Sorted(maps.Keys(names))
	if d, ok := dialect.Detect(list); ok {
		return d.Engine, nil
	}
	return "", notInferenceError(name, list)
}

// isPermanent reports whether another request would fail too: the address belongs to another program, or requires
// credentials.
func isPermanent(err error) bool {
	return errors.Is(err, errStranger) || errors.Is(err, scrape.ErrNotExposition) ||
		errors.Is(err, scrape.ErrNotMetrics)
}
