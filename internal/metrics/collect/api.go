package collect

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/route"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/features"
	"github.com/prometheus/prometheus/util/httputil"
	"github.com/prometheus/prometheus/util/notifications"
	apiv1 "github.com/prometheus/prometheus/web/api/v1"

	"github.com/sixty-dev/sixty/internal/base/listen"
	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
)

// stale is the staleness marker, which ends a series.
var stale = math.Float64frombits(value.StaleNaN)

// QueryLimits bound the queries over HTTP. A zero field stands for its value in DefaultQueryLimits. The monitor's
// evaluation has an engine of its own and never waits for these queries.
type QueryLimits struct {
	Samples     int           // in memory at a time, of one query
	Concurrency int           // queries at a time
	Timeout     time.Duration // for one query, from its arrival on
	// User, which may be nil, returns the user of a request: see listen.NewTurns.
	User func(*http.Request) string
	// First, which may be nil, returns a channel that is closed when more urgent work has ended; queries begin after
	// that. It returns nil while there is no such work.
	First func() <-chan struct{}
}

// DefaultQueryLimits fit into 2 GiB beside the evaluation: a sample takes about 60 bytes until its JSON is
// written.
var DefaultQueryLimits = QueryLimits{Samples: 5_000_000, Concurrency: 4, Timeout: 30 * time.Second}

// readFrame is the size of one frame of remote read, as in Prometheus.
const readFrame = 1 << 20

// API serves Prometheus' own HTTP API, under /api/v1. Endpoints that write or delete are switched off. Address is the
// HOST:PORT that serves it.
func (c *Collector) API(address string, limits QueryLimits) http.Handler {
	limits.Samples = cmp.Or(limits.Samples, DefaultQueryLimits.Samples)
	limits.Concurrency = cmp.Or(limits.Concurrency, DefaultQueryLimits.Concurrency)
	limits.Timeout = cmp.Or(limits.Timeout, DefaultQueryLimits.Timeout)
	promQL := parser.NewParser(parser.Options{EnableExperimentalFunctions: true}) // the page uses histogram_quantiles
	engine := promql.NewEngine(promql.EngineOpts{
		Logger: c.opts.Logger, MaxSamples: limits.Samples, Timeout: limits.Timeout, LookbackDelta: embedded.Lookback,
		EnableAtModifier: true, EnableNegativeOffset: true,
		NoStepSubqueryIntervalFn: func(int64) int64 {
			return time.Duration(c.Config().GlobalConfig.EvaluationInterval).Milliseconds()
		},
		Parser: promQL,
	})
	a := apiv1.NewAPI(
		engine, c.fanout, nil, c.DB(),
		func(context.Context) apiv1.ScrapePoolsRetriever { return c.scrape },
		func(context.Context) apiv1.TargetRetriever { return c.scrape },
		func(context.Context) apiv1.AlertmanagerRetriever { return c.notify },
		func() config.Config { return *c.Config() },
		map[string]string{},
		apiv1.GlobalURLOptions{
			ListenAddress: address, Host: c.opts.ExternalURL.Host, Scheme: c.opts.ExternalURL.Scheme,
		},
		func(h http.HandlerFunc) http.HandlerFunc { return h },
		adminless{c.DB()}, c.opts.Dir, false, false, 0, c.opts.Logger,
		func(context.Context) apiv1.RulesRetriever { return c.rules },
		limits.Samples, limits.Concurrency, readFrame, false, regexp.MustCompile("^$"), c.runtimeInfo,
		&apiv1.PrometheusVersion{Version: version.Get().Version, GoVersion: runtime.Version()},
		func() []notifications.Notification { return nil },
		func() (<-chan notifications.Notification, func(), bool) { return nil, nil, false },
		c.opts.Registry, c.opts.Registry, nil, false, nil, false, false, false,
		embedded.Lookback, false, false, nil, features.NewRegistry(),
		apiv1.OpenAPIOptions{ExternalURL: c.opts.ExternalURL.String()}, promQL, false, limits.Timeout,
	)
	r := route.New()
	a.Register(r)
	return http.StripPrefix("/api/v1", httputil.CompressionHandler{Handler: limits.limitQueries(r)})
}

// limitQueries passes requests on in turn. A request whose turn does not come in time is answered 503, as Prometheus
// answers a query that timed out in its queue. Answers are not compressed inside, so that their size is known; the
// handler around this one compresses them.
func (l QueryLimits) limitQueries(next http.Handler) http.Handler {
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, `{"status":"error","errorType":"timeout","error":"%d queries ran for the %s that `+
			`this one waited; ask for less, or start sixty serve with a larger --query-concurrency"}`,
			l.Concurrency, l.Timeout)
	}
	turns := listen.NewTurns(l.Concurrency, l.Timeout, l.User, refuse)
	return turns.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.waitForFirst(r.Context())
		r.Header.Del("Accept-Encoding")
		next.ServeHTTP(w, r)
	}))
}

// waitForFirst waits once for more urgent work. Queries proceed after it even if more such work begins.
func (l *QueryLimits) waitForFirst(ctx context.Context) {
	if l.First == nil {
		return
	}
	if first := l.First(); first != nil {
		ctx, done := context.WithTimeout(ctx, l.Timeout)
		defer done()
		select {
		case <-first:
		case <-ctx.Done():
		}
	}
}

// adminless shows the storage to the API, without the functions that change it.
type adminless struct{ *tsdb.DB }

// BlockMetas implements apiv1.TSDBAdminStats.
func (d adminless) BlockMetas() ([]tsdb.BlockMeta, error) { return d.DB.BlockMetas(), nil }

// Stats implements apiv1.TSDBAdminStats.
func (d adminless) Stats(label string, limit int) (*tsdb.Stats, error) {
	return d.Head().Stats(label, limit), nil
}

// WALReplayStatus implements apiv1.TSDBAdminStats.
func (d adminless) WALReplayStatus() (tsdb.WALReplayStatus, error) {
	return tsdb.WALReplayStatus{}, nil
}

func (c *Collector) runtimeInfo() (apiv1.RuntimeInfo, error) {
	host, err := os.Hostname()
	if err != nil {
		return apiv1.RuntimeInfo{}, err
	}
	return apiv1.RuntimeInfo{
		StartTime: c.birth, ServerTime: time.Now().UTC(), Hostname: host, GoroutineCount: runtime.NumGoroutine(),
		GOMAXPROCS: runtime.GOMAXPROCS(0),
		GOMEMLIMIT: debug.SetMemoryLimit(-1), GOGC: strconv.Itoa(c.Config().Runtime.GoGC),
		StorageRetention: c.opts.Retention.String(), ReloadConfigSuccess: true,
	}, nil
}
