package dashboard_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/generate/burnrate"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

const recordings = "../../../testdata/recordings/"

// loaded is a real server under load, with a GPU exporter's page and the series
// that the rules of an objective record beside it.
func loaded(t *testing.T, name string) (*embedded.Store, metrics.Range) {
	t.Helper()
	rec, err := recording.Open(t.Context(), recordings+name+".tar.zst")
	must.Succeed(t, err)
	t.Cleanup(func() { rec.Close() })
	store := embeddedtest.New(t)
	first, last := rec.Times()
	if err := rec.Scrapes(func(sc recording.Scrape) error {
		target := embedded.Target{Instance: sc.Target, Job: "vllm", Labels: map[string]string{"cluster": "eu", "namespace": "chat"}}
		if len(sc.Body) == 0 {
			return store.AppendFailure(target, sc.At)
		}
		_, err := store.Append(target, sc.At, sc.Body, "", 15*time.Millisecond) // recordings do not say how long a scrape took
		return err
	}); err != nil {
		t.Fatal(err)
	}
	eu := map[string]string{"cluster": "eu"}
	exporters := map[string]embedded.Target{
		"dcgm": {Instance: "gpu-node-1:9400", Job: "dcgm", Labels: eu},
		"node": {Instance: "gpu-node-1:9100", Job: "node-exporter", Labels: eu},
		"kube": {Instance: "kube-state-metrics:8080", Job: "kube-state-metrics", Labels: eu},

		"gateway": {Instance: "gateway:8081", Job: "gateway", Labels: eu},
	}
	pages := map[string][]byte{}
	for name := range exporters {
		pages[name], err = os.ReadFile("testdata/" + name + ".prom")
		must.Succeed(t, err)
	}
	rules := embedded.Target{Instance: "rules", Labels: map[string]string{"cluster": "eu", "namespace": "chat", "model_name": "tiny", "slo": "chat-ttft"}}
	for at := first; !at.After(last); at = at.Add(5 * time.Second) {
		for name, target := range exporters {
			page := pages[name]
			if name == "gateway" {
				page = grown(page, at.Sub(first))
			}
			if _, err := store.Append(target, at, page, "", 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := store.Append(rules, at, recorded(t), "", 0); err != nil {
			t.Fatal(err)
		}
	}
	return store, metrics.Range{Start: first.Add(30 * time.Second), End: last, Step: 5 * time.Second}
}

// grown is a gateway's page after a while of the same load.
func grown(page []byte, after time.Duration) []byte {
	var out strings.Builder
	for line := range strings.Lines(string(page)) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			v, _ := strconv.ParseFloat(strings.TrimSpace(line[i+1:]), 64)
			line = fmt.Sprintf("%s %g\n", line[:i], v*(1+after.Seconds()))
		}
		out.WriteString(line)
	}
	return []byte(out.String())
}

// recorded is a page with the series that the rules of an objective record: a
// recording of two minutes is too short to evaluate them.
func recorded(t *testing.T) []byte {
	t.Helper()
	var page strings.Builder
	for _, g := range rules(t) {
		for _, r := range g.Rules {
			if r.Record != "" && !strings.Contains(page.String(), r.Record+" ") {
				fmt.Fprintf(&page, "%s 0.5\n", r.Record)
			}
		}
	}
	return []byte(page.String())
}

// rules are the recording rules of an objective.
func rules(t *testing.T) []rulefmt.RuleGroup {
	t.Helper()
	out, err := burnrate.Groups(burnrate.Config{
		Period:     slo.DefaultPeriod,
		Objectives: []slo.Objective{{Name: "chat", TTFTP95: 500 * time.Millisecond, Availability: 0.999}},
	})
	must.Succeed(t, err)
	return out.Groups
}

// coverage asks every query of every panel, as a dashboard with nothing chosen
// does, and returns the panels and queries that have no data.
func coverage(ctx context.Context, t *testing.T, q metrics.Querier, ds []dashboard.Dashboard, r metrics.Range) (empty, silent []string, count, queries int) {
	t.Helper()
	panels(ds, func(d dashboard.Dashboard, p dashboard.Panel) {
		count++
		some, usual := false, false
		for _, s := range p.Series {
			queries++
			if s.ByModel != "" {
				m, err := q.QueryRange(ctx, substituted("histogram_quantile(0.5, "+s.ByModel+")", "30s"), r)
				if err != nil || len(m) == 0 || m[0].Metric["model_name"] == "" {
					t.Errorf("%s, %s, by model: %v, %v", d.UID, p.Title, m, err)
				}
			}
			m, err := q.QueryRange(ctx, substituted(s.Expr, "30s"), r)
			if err != nil {
				t.Errorf("%s, %s, %s: %v", d.UID, p.Title, s.Legend, err)
			}
			usual = usual || !optional(s.Signal)
			if len(m) > 0 {
				some = true
			} else if !optional(s.Signal) {
				silent = append(silent, fmt.Sprintf("%s %d %s: %s", d.UID, p.ID, p.Title, s.Legend))
			}
		}
		if usual && !some {
			empty = append(empty, fmt.Sprintf("%s %d %s", d.UID, p.ID, p.Title))
		}
	})
	return empty, silent, count, queries
}

// optional reports whether a signal reads what a plain server does not show: its family needs an option, or stays at 0
// without one.
func optional(s *indicator.Signal) bool {
	return s == indicator.ModelFLOPs || s != nil && slices.ContainsFunc(indicator.Reads(s.Expr), func(name string) bool {
		f, known := dialect.Known(name)
		return known && f.Needs != ""
	})
}

func TestEveryPanelReturnsDataOfARealServerUnderLoad(t *testing.T) {
	store, r := loaded(t, "thrashing-deep")
	empty, silent, count, queries := coverage(t.Context(), t, store, build(t, config(t, "vllm-0.23.0", "dcgm")), r)
	t.Logf("%d of %d panels and %d of %d queries return data", count-len(empty), count, queries-len(silent), queries)
	for _, p := range empty {
		t.Errorf("no data: %s", p)
	}
	// What a 0.23 server on a plain machine does not export: a counter of 0.32,
	// the container's memory, and errors where there were none.
	for _, s := range silent {
		if !strings.Contains(s, "refused at admission") && !strings.Contains(s, "container") && !strings.Contains(s, "301") {
			t.Errorf("no data: %s", s)
		}
	}
}

// Fleets: several replicas, several data-parallel ranks, several API servers.
func TestEveryPanelReturnsDataOfFleets(t *testing.T) {
	for name, missing := range map[string][]string{
		"replica-imbalance": nil,
		"two-ranks-one-hung": {
			"215 ", "432 ", "433 ", // process_ and _created series, which several API servers do not export
			"214 ",
		},
		"thrashing-deep-v0.32": nil,
	} {
		t.Run(name, func(t *testing.T) {
			store, r := loaded(t, name)
			empty, _, count, _ := coverage(t.Context(), t, store, build(t, config(t, "vllm-v1", "dcgm")), r)
			t.Logf("%d of %d panels return data", count-len(empty), count)
			for _, p := range empty {
				if !slices.ContainsFunc(missing, func(m string) bool { return strings.Contains(p, m) }) {
					t.Errorf("no data: %s", p)
				}
			}
		})
	}
}

func TestTheAlertsOfErrorBudgetsAreMarked(t *testing.T) {
	var marked *regexp.Regexp
	for _, e := range build(t, config(t, "vllm-v1"))[0].Events {
		if e.Name == "Findings" {
			_, list, _ := strings.Cut(e.Expr, `alertname=~"`)
			list, _, _ = strings.Cut(list, `"`)
			marked = regexp.MustCompile("^(?:" + list + ")$")
		}
	}
	n := 0
	for _, g := range rules(t) {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			n++
			if !marked.MatchString(r.Alert) {
				t.Errorf("%s is not marked", r.Alert)
			}
		}
	}
	if n == 0 {
		t.Error("no alerts")
	}
}

// TestNoTimeIsNegative: a difference of two times must cover the same requests, or it may be negative.
func TestNoTimeIsNegative(t *testing.T) {
	for _, name := range []string{"thrashing-deep", "prefill-starvation-deep", "saturation-long-prompts", "mass-cancel", "queue-timeouts", "full-but-quiet", "engine-hung", "prefix-churn"} {
		store, first, last := embeddedtest.Open(t, recordings+name+".tar.zst", nil)
		panels(build(t, config(t, "vllm-0.23.0")), func(d dashboard.Dashboard, p dashboard.Panel) {
			for _, s := range p.Series {
				if s.Unit != indicator.Seconds && s.Unit != indicator.SecondsPerToken {
					continue
				}
				m, err := store.QueryRange(t.Context(), substituted(s.Expr, "15s"), metrics.Range{Start: first.Add(15 * time.Second), End: last, Step: time.Second})
				must.Succeed(t, err)
				for _, stream := range m {
					for _, v := range stream.Values {
						if v.Value < 0 {
							t.Fatalf("%s, %s, panel %q: %g s at %s", name, d.UID, p.Title, v.Value, v.Timestamp.Time())
						}
					}
				}
			}
		})
	}
}
