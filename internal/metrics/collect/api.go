package collect

import (
	"context"
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
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/features"
	"github.com/prometheus/prometheus/util/notifications"
	apiv1 "github.com/prometheus/prometheus/web/api/v1"

	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
)

// stale is the value that ends a series.
var stale = math.Float64frombits(value.StaleNaN)

// Limits of remote read, Prometheus' defaults.
const (
	readSamples = 50_000_000
	readFrame   = 1 << 20
	readers     = 10
)

// API serves Prometheus' own HTTP API, under /api/v1. What writes or deletes is switched
// off.
func (c *Collector) API() http.Handler {
	a := apiv1.NewAPI(
		c.Engine(), c.fanout, nil, nil, c.DB(),
		func(context.Context) apiv1.ScrapePoolsRetriever { return c.scrape },
		func(context.Context) apiv1.TargetRetriever { return c.scrape },
		func(context.Context) apiv1.AlertmanagerRetriever { return c.notify },
		func() config.Config { return *c.Config() },
		map[string]string{},
		apiv1.GlobalURLOptions{Host: c.opts.ExternalURL.Host, Scheme: c.opts.ExternalURL.Scheme},
		func(h http.HandlerFunc) http.HandlerFunc { return h },
		adminless{c.DB()}, c.opts.Dir, false, false, 0, c.opts.Logger,
		func(context.Context) apiv1.RulesRetriever { return c.rules },
		readSamples, readers, readFrame, false, regexp.MustCompile("^$"), c.runtime,
		&apiv1.PrometheusVersion{Version: version.Get().Version, GoVersion: runtime.Version()},
		func() []notifications.Notification { return nil },
		func() (<-chan notifications.Notification, func(), bool) { return nil, nil, false },
		c.opts.Registry, c.opts.Registry, nil, false, nil, false, false, false, false,
		embedded.Lookback, false, false, nil, features.NewRegistry(),
		apiv1.OpenAPIOptions{ExternalURL: c.opts.ExternalURL.String()}, parser.NewParser(parser.Options{}),
	)
	r := route.New()
	a.Register(r)
	return http.StripPrefix("/api/v1", r)
}

// adminless is the storage as the API shows it.
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

func (c *Collector) runtime() (apiv1.RuntimeInfo, error) {
	host, err := os.Hostname()
	if err != nil {
		return apiv1.RuntimeInfo{}, err
	}
	return apiv1.RuntimeInfo{
		StartTime: c.birth, ServerTime: time.Now().UTC(), Hostname: host, GoroutineCount: runtime.NumGoroutine(), GOMAXPROCS: runtime.GOMAXPROCS(0),
		GOMEMLIMIT: debug.SetMemoryLimit(-1), GOGC: strconv.Itoa(c.Config().Runtime.GoGC), StorageRetention: c.opts.Retention.String(), ReloadConfigSuccess: true,
	}, nil
}
