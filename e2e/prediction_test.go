//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// The thrashing server and its load are those of the scenario thrashing-deep.
var (
	thrashingArgs = "--max-model-len 1024 --block-size 16 --max-num-seqs 16 --num-gpu-blocks-override 160"
	thrashingLoad = clients(14, uniform(100, 140), uniform(350, 450))
)

const (
	settleLoad  = 20.0 // seconds, before anything is measured
	measureLoad = 60.0
)

// A trial is a fix that is applied to the thrashing server, or what has the same effect on one machine.
type trial struct {
	name  string
	fix   string // begins the fix's summary
	apply func(changes []change) (args string, load Traffic)
}

type change struct{ Flag, To string }

var trials = []trial{
	{"one of four replicas: its share of the clients", "If this traffic is here to stay, add 3 replicas", func([]change) (string, Traffic) {
		t := thrashingLoad
		t.Clients = 4
		return thrashingArgs, t
	}},
	{"as recommended: another --max-num-seqs", "Lower --max-num-seqs", func(cs []change) (string, Traffic) {
		args := thrashingArgs // if a flag is repeated, vLLM takes the last
		for _, c := range cs {
			args += " " + c.Flag + " " + c.To
		}
		return args, thrashingLoad
	}},
	{"a KV cache of twice the tokens: twice the blocks in place of half the bits", "Use an FP8 KV cache", func([]change) (string, Traffic) {
		return thrashingArgs + " --num-gpu-blocks-override 319", thrashingLoad
	}},
}

// A page has the fields of a diagnosis that the comparison needs.
type predictedPage struct {
	Verdict  struct{ ID string }
	Window   struct{ From, To time.Time }
	Findings []struct {
		Fixes []struct {
			Summary   string
			Changes   []change
			Predicted *predictedFix
		}
	}
}

// predictedFix is a fix's prediction in docs/json-findings.md.
type predictedFix struct {
	Reason  *string
	Caveats []string
	Effects []struct {
		Signal        string
		Measured      *float64
		Before, After struct{ Value, Low, High float64 }
	}
}

// TestFixIsWorthItsPrediction lets a real server thrash, asks the product for a fix and its prediction, applies the
// fix, drives the same load again, and compares the measurement with the prediction. SIXTY_BIN names the binary,
// SIXTY_RUNS the number of runs (1 by default).
func TestFixIsWorthItsPrediction(t *testing.T) {
	bin := product(t)
	runs := 1
	if n, err := strconv.Atoi(os.Getenv("SIXTY_RUNS")); err == nil && n > 0 {
		runs = n
	}
	fl := newFleet(t)
	for run := range runs {
		var page predictedPage
		now := driven(t, fl, thrashingArgs, thrashingLoad, uint64(run), func(ctx context.Context, s *Server) {
			page = diagnosed(ctx, t, bin, s)
		})
		if page.Verdict.ID != "kv-cache-thrashing" {
			t.Fatalf("verdict %q, want kv-cache-thrashing", page.Verdict.ID)
		}
		for _, tr := range trials {
			compareTrial(t, fl, &tr, &page, now, uint64(run))
		}
	}
}

// compareTrial applies a fix and prints a table: the diagnosed window, its simulation, the minute after it, a minute
// with the fix, and the prediction of that.
func compareTrial(t *testing.T, fl *fleet, tr *trial, page *predictedPage, now map[string]float64, seed uint64) {
	t.Helper()
	for _, f := range page.Findings[0].Fixes {
		if !strings.HasPrefix(f.Summary, tr.fix) {
			continue
		}
		if f.Predicted == nil || f.Predicted.Reason != nil {
			t.Errorf("%s: no prediction: %s", f.Summary, reason(f.Predicted))
			return
		}
		args, load := tr.apply(f.Changes)
		then := driven(t, fl, args, load, seed, nil)
		share := 1.0
		if tr.fix == "If this traffic is here to stay, add 3 replicas" {
			share = 14.0 / 4 // the fleet does so many times what one server does
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s\n%s\n%-22s %10s %10s %10s %10s %24s %10s\n", f.Summary, tr.name, "", "window", "simulated",
			"a minute", "then", "predicted", "off")
		for _, e := range f.Predicted.Effects {
			got, ok := then[e.Signal]
			if !ok {
				continue
			}
			was := now[e.Signal]
			if e.Signal == "preemptions" {
				window := page.Window.To.Sub(page.Window.From).Seconds()
				got, was = got*window, was*window
			}
			if strings.Contains("generation_token_rate preemptions running waiting", e.Signal) {
				got *= share
			}
			window := math.NaN()
			if e.Measured != nil {
				window = *e.Measured
			}
			fmt.Fprintf(&b, "%-22s %10.4g %10.4g %10.4g %10.4g %10.4g (%.4g-%.4g) %+7.1f %%\n", e.Signal, window,
				e.Before.Value, was, got, e.After.Value, e.After.Low, e.After.High, percentOff(e.After.Value, got))
			checkEffect(t, e.Signal, e.After.Value, got)
		}
		for _, c := range f.Predicted.Caveats {
			fmt.Fprintf(&b, "but: %s\n", c)
		}
		t.Log("\n" + b.String())
		return
	}
	t.Errorf("no fix begins with %q", tr.fix)
}

func percentOff(predicted, measured float64) float64 {
	if predicted == measured {
		return 0
	}
	return 100 * (predicted/measured - 1)
}

// checkEffect checks that throughput and the time of an answer were predicted within a quarter. Others use the machine
// too.
func checkEffect(t *testing.T, signal string, predicted, measured float64) {
	t.Helper()
	if signal != "generation_token_rate" && signal != "e2e_mean" {
		return
	}
	if off := math.Abs(predicted/measured - 1); off > 0.25 {
		t.Errorf("%s: predicted %.4g, measured %.4g", signal, predicted, measured)
	}
}

// diagnosed runs the product as a user does.
func diagnosed(ctx context.Context, t *testing.T, bin string, s *Server) (page predictedPage) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "diagnose", "--output", "json", "--engine-args", thrashingArgs, s.URL())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	if err := cmd.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Fatal(err)
		}
	}
	t.Logf("diagnosed in %s", time.Since(began).Round(100*time.Millisecond))
	if err := json.Unmarshal(out.Bytes(), &page); err != nil {
		t.Fatalf("no diagnosis: %v\n%s", err, errs.Bytes())
	}
	return page
}

// driven starts a server with a configuration, drives a load, runs the product once it has settled, and returns the
// increase of the server's metrics after that.
func driven(t *testing.T, fl *fleet, args string, load Traffic, seed uint64, look func(context.Context, *Server)) map[string]float64 {
	t.Helper()
	servers := fl.serve(t, &Scenario{Servers: []string{args}})
	ctx, cancel := context.WithCancel(fl.ctx)
	defer cancel()
	d := newDriver(servers, 77+seed)
	d.start(ctx, ctx, 0, 0, load)
	sleep(ctx, seconds(settleLoad))
	if look != nil {
		look(ctx, servers[0])
	}
	from := families(t, servers[0])
	began := time.Now()
	var running, waiting, n float64
	for time.Since(began) < seconds(measureLoad) {
		sleep(ctx, time.Second)
		f := families(t, servers[0])
		running += total(f, "vllm:num_requests_running")
		waiting += total(f, "vllm:num_requests_waiting")
		n++
	}
	length := time.Since(began).Seconds()
	to := families(t, servers[0])
	cancel()
	d.wg.Wait()
	d.client.CloseIdleConnections()
	got := gained(from, to, length)
	got["running"], got["waiting"] = running/n, waiting/n
	return got
}

func families(t *testing.T, s *Server) map[string]*dto.MetricFamily {
	t.Helper()
	body, err := get(&http.Client{Timeout: scrapeTimeout}, s.URL()+"/metrics")
	must.Succeed(t, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	f, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	must.Succeed(t, err)
	return f
}

// gained computes the signals from the increase of counters and histograms.
func gained(from, to map[string]*dto.MetricFamily, length float64) map[string]float64 {
	grew := func(name string) float64 { return total(to, name) - total(from, name) }
	out := map[string]float64{
		"generation_token_rate": grew("vllm:generation_tokens_total") / length,
		"preemptions":           grew("vllm:num_preemptions_total") / length, // a second; of a window where they are compared
	}
	for signal, family := range map[string]string{"ttft": "vllm:time_to_first_token_seconds",
		"itl": "vllm:inter_token_latency_seconds", "e2e": "vllm:e2e_request_latency_seconds"} {
		a, b := histogramOf(from[family]), histogramOf(to[family])
		count := b.count - a.count
		if count == 0 {
			continue
		}
		out[signal+"_mean"] = (b.sum - a.sum) / count
		for name, q := range map[string]float64{"_p50": 0.5, "_p95": 0.95} {
			out[signal+name] = bucketQuantile(q, a, b)
		}
	}
	return out
}

// buckets are a histogram's cumulative counts by bound.
type buckets struct {
	count, sum float64
	at         map[float64]float64
}

func histogramOf(f *dto.MetricFamily) buckets {
	b := buckets{at: map[float64]float64{}}
	for _, m := range f.GetMetric() {
		h := m.GetHistogram()
		b.count += float64(h.GetSampleCount())
		b.sum += h.GetSampleSum()
		for _, k := range h.GetBucket() {
			b.at[k.GetUpperBound()] += float64(k.GetCumulativeCount())
		}
	}
	return b
}

// bucketQuantile is PromQL's histogram_quantile of the increase.
func bucketQuantile(q float64, a, b buckets) float64 {
	var bounds []float64
	for le := range b.at {
		if !math.IsInf(le, 1) {
			bounds = append(bounds, le)
		}
	}
	slices.Sort(bounds)
	rank, below, lower := q*(b.count-a.count), 0.0, 0.0
	for _, le := range bounds {
		if upTo := b.at[le] - a.at[le]; upTo >= rank && upTo > below {
			return lower + (le-lower)*(rank-below)/(upTo-below)
		} else {
			below, lower = upTo, le
		}
	}
	return lower
}

// reason returns why there is no prediction.
func reason(p *predictedFix) string {
	if p == nil || p.Reason == nil {
		return "none was asked for"
	}
	return *p.Reason
}
