package generate_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
)

// BenchmarkRulesOf100Replicas evaluates the usual rules once over an hour of 100 servers
// that are scraped every 30 s. The processor's time, not the clock's, is what it costs.
func BenchmarkRulesOf100Replicas(b *testing.B) {
	const replicas, interval = 100, 30 * time.Second
	cfg := usual(b)
	cfg.Interval, cfg.Absences = interval, generate.Absences()
	cfg.Deployment.Window, cfg.Deployment.Short = generate.Windows(interval)
	made, err := generate.NewRules(cfg)
	must.Succeed(b, err)
	c, err := history.Parse(nil, "every 30s for 3600s\nlike healthy\n")
	must.Succeed(b, err)
	store := embeddedtest.New(b)
	series := c.Series()[history.UsualInstance]
	for i := range c.Scrapes {
		page := pageOf(series, i)
		for r := range replicas {
			target := embedded.Target{Instance: fmt.Sprintf("vllm-%d:8000", r), Job: "vllm", Labels: map[string]string{"namespace": "prod"}}
			if _, err := store.Append(target, history.Start.Add(time.Duration(i)*interval), page, "", time.Millisecond); err != nil {
				b.Fatal(err)
			}
		}
	}
	rules, err := store.Rules(made.Groups())
	must.Succeed(b, err)
	at := history.Start.Add(time.Duration(c.Scrapes-1) * interval)
	begin := processor(b)
	for b.Loop() {
		at = at.Add(time.Millisecond)
		must.Succeed(b, rules.Eval(b.Context(), at))
	}
	b.ReportMetric(float64((processor(b)-begin).Milliseconds())/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(len(series)), "series/replica")
}

// processor is the processor's time that this process took.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must.Succeed(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
