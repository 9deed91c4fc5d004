// Package preview draws the dashboards as one document, whose page needs nothing
// beside it, with the answers that a metrics backend gave: for those who have no
// Grafana at hand, or want to see what a recording holds.
//
// Fetch asks the Querier that it is handed, Document says what came back; the
// package reads no clock and opens nothing itself. Nothing is chosen in the
// dashboards' variables: the page shows all servers.
package preview

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// Options say what is asked for.
type Options struct {
	From, To time.Time

	// Beginning says that nothing was recorded before From: the page begins when
	// the first rate is complete.
	Beginning bool

	// Interval is the scrape interval, 15 s when 0. Rates cover four of them or,
	// where points are further apart than that, the time between two points and
	// one interval, as Grafana's $__rate_interval does.
	Interval time.Duration

	// Source is what the page says it shows: a recording's name, a server's URL.
	Source string

	// Verdicts are what a diagnosis of the end says, the worst first.
	Verdicts []Verdict
}

// points is how many points a line has at most.
const points = 240

// workers is how many queries are asked at a time, as in a diagnosis.
const workers = 8

// A Preview is dashboards with their data.
type Preview struct {
	Options    Options
	Step, Rate time.Duration
	Dashboards []Board
}

// A Board is a dashboard with its data.
type Board struct {
	dashboard.Dashboard
	answers map[*dashboard.Series]model.Matrix
	events  []mark
}

// A mark is a moment at which an event began.
type mark struct {
	at   time.Time
	name string
}

// Fetch asks every query of the dashboards.
func Fetch(ctx context.Context, q metrics.Querier, ds []dashboard.Dashboard, o Options) (*Preview, error) {
	if !o.To.After(o.From) {
		return nil, fmt.Errorf("preview: the range %s to %s is empty", o.From.UTC().Format(time.RFC3339), o.To.UTC().Format(time.RFC3339))
	}
	if o.Interval <= 0 {
		o.Interval = 15 * time.Second
	}
	step := max(o.To.Sub(o.From)/points, o.Interval, time.Second).Truncate(time.Second)
	p := &Preview{Options: o, Step: step, Rate: max(step+o.Interval, 4*o.Interval), Dashboards: make([]Board, len(ds))}
	// A rate over some scrapes of a second each shows nothing but noise.
	p.Rate = max(p.Rate, 15*time.Second)
	if begin := o.From.Add(p.Rate + o.Interval); o.Beginning && o.To.After(begin) {
		o.From = begin
		p.Options.From = begin
	}
	r := metrics.Range{Start: o.From, End: o.To, Step: step}

	f := fetcher{q: q, r: r, rate: model.Duration(p.Rate).String(), shown: model.Duration(o.To.Sub(o.From).Round(time.Second)).String()}
	asked, ctx := errgroup.WithContext(ctx) // the first error ends the others
	asked.SetLimit(workers)
	for i, d := range ds {
		b := &p.Dashboards[i]
		*b = Board{Dashboard: d, answers: map[*dashboard.Series]model.Matrix{}}
		b.Rows = slices.Clone(d.Rows)
		for k := range b.Rows {
			row := &b.Rows[k]
			row.Panels = slices.Clone(row.Panels)
			for j := range row.Panels {
				panel := &row.Panels[j]
				if panel.Kind == dashboard.Heatmap {
					*panel = panel.Percentiles()
				}
				for i := range panel.Series {
					s := &panel.Series[i]
					asked.Go(func() error { return f.queryRange(ctx, s.Expr, func(m model.Matrix) { b.answers[s] = m }) })
				}
			}
		}
		for _, e := range d.Events {
			asked.Go(func() error { return f.queryRange(ctx, e.Expr, func(m model.Matrix) { b.addEvents(e, m, step) }) })
		}
	}
	if err := asked.Wait(); err != nil {
		return nil, fmt.Errorf("preview: %w", err)
	}
	return p, nil
}

// A fetcher asks queries.
type fetcher struct {
	q    metrics.Querier
	r    metrics.Range
	rate string
	// shown is the time that is shown.
	shown string

	mu sync.Mutex // of what is kept
}

func (f *fetcher) queryRange(ctx context.Context, expr string, keep func(model.Matrix)) error {
	m, err := f.q.QueryRange(ctx, substitute(expr, f.rate, f.shown), f.r)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	keep(m)
	return nil
}

var variable = regexp.MustCompile(`\$\w+`)

// substitute replaces the dashboards' variables: everything is chosen.
func substitute(expr, rate, shown string) string {
	expr = strings.NewReplacer(dashboard.RateInterval, rate, dashboard.Range, shown).Replace(expr)
	return variable.ReplaceAllString(expr, ".*")
}

// addEvents keeps the beginnings of an event.
func (b *Board) addEvents(e dashboard.Event, m model.Matrix, step time.Duration) {
	for _, s := range m {
		var last model.Time
		for i, v := range s.Values {
			if i == 0 || v.Timestamp.Sub(last) > step+step/2 {
				b.events = append(b.events, mark{at: v.Timestamp.Time(), name: name(e.Title, s.Metric)})
			}
			last = v.Timestamp
		}
	}
}

var placeholder = regexp.MustCompile(`\{\{(\w+)\}\}`)

// name fills the labels into a legend.
func name(legend string, m model.Metric) string {
	text := placeholder.ReplaceAllStringFunc(legend, func(p string) string {
		return string(m[model.LabelName(strings.Trim(p, "{}"))])
	})
	return strings.Join(strings.Fields(text), " ")
}
