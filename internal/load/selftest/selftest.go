// Package selftest proves a load generator's error: it runs tests against a
// scripted server that knows what it did, and compares what was reported with
// the truth. `sixty bench self-test` prints its table; nothing else calls it.
package selftest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/load/loadtest"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// A Case is one test against the scripted server.
type Case struct {
	Name        string
	Script      loadtest.Script
	Concurrency int
	Rate        float64 // open loop when above 0
	Stream      bool
	Duration    time.Duration
}

// Cases are the tests of the published table: paced streams of 64 tokens every
// 10 ms after 50 ms, as fast as possible with and without streaming, and an
// open loop. Seconds is how long each lasts.
func Cases(seconds float64, streams []int) []Case {
	d := time.Duration(seconds * float64(time.Second))
	paced := loadtest.Script{TTFT: 50 * time.Millisecond, ITL: 10 * time.Millisecond, Tokens: 64}
	var cases []Case
	for _, n := range streams {
		script := paced
		// More streams than a processor can serve at that pace get a slower one.
		script.ITL = max(script.ITL, time.Duration(n)*time.Second/maxEvents)
		cases = append(cases, Case{Name: fmt.Sprintf("%d paced streams", n), Script: script, Concurrency: n, Stream: true, Duration: d})
	}
	return append(cases,
		Case{Name: "not streaming, as fast as possible", Script: loadtest.Script{Tokens: 1}, Concurrency: 64, Duration: d},
		Case{Name: "streaming, as fast as possible", Script: loadtest.Script{Tokens: 64}, Concurrency: 64, Stream: true, Duration: d},
		Case{Name: "open loop, Poisson, 100 a second", Script: paced, Rate: 100, Stream: true, Duration: d},
	)
}

// maxEvents is how many events a second the scripted server is asked for.
const maxEvents = 100_000

// Outcome compares one test's report with the truth. Errors are reported minus
// true, in seconds.
type Outcome struct {
	Name       string  `json:"name"`
	Requests   int     `json:"requests"`
	Failed     int     `json:"failed"`
	TTFTP50    float64 `json:"ttft_p50_error"`
	TTFTP99    float64 `json:"ttft_p99_error"`
	ITLMean    float64 `json:"itl_mean_error"`
	OfIdeal    float64 `json:"of_ideal"` // of the throughput that the script allows; 0 where nothing paces it
	RequestsPS float64 `json:"requests_per_second"`
	EventsPS   float64 `json:"events_per_second"`
	PerEvent   float64 `json:"cpu_per_event"`
	Cores      float64 `json:"cores_used"`
	LagP50     float64 `json:"send_lag_p50"`
	LagP99     float64 `json:"send_lag_p99"`
	ReceiveP50 float64 `json:"receive_lag_p50"`
	ReceiveP99 float64 `json:"receive_lag_p99"`
	ArrivalCV  float64 `json:"arrival_cv"`
	ResidentMB float64 `json:"resident_mb"` // the process' highest so far
	Spoiled    bool    `json:"spoiled"`     // the generator's own verdict
}

// Run runs a case. serve starts a scripted server and returns its URL and how
// to stop it; it should run in another process.
func Run(ctx context.Context, c Case, serve func(context.Context, loadtest.Script) (url string, stop func(), err error)) (*Outcome, error) {
	url, stop, err := serve(ctx, c.Script)
	if err != nil {
		return nil, fmt.Errorf("start the scripted server: %w", err)
	}
	defer stop()
	g, err := workload.NewGenerator(workload.Spec{Prompt: workload.Fixed(16), Output: workload.Fixed(max(c.Script.Tokens, 1))}, 1)
	if err != nil {
		return nil, err
	}
	cfg := load.Config{
		Target: load.Target{URL: url, API: load.Completions, Model: "scripted", Stream: c.Stream, IgnoreEOS: true},
		Source: g, Concurrency: c.Concurrency, Duration: c.Duration, Seed: 1,
	}
	shape := load.Shape{Concurrency: c.Concurrency}
	if c.Rate > 0 {
		a := workload.Poisson(c.Rate)
		cfg.Arrivals, shape.Arrivals = &a, &a
	}
	r, err := load.New(cfg)
	if err != nil {
		return nil, err
	}
	rec, err := r.Run(ctx, time.Second, nil)
	if err != nil {
		return nil, err
	}
	truths, err := fetch(ctx, url)
	if err != nil {
		return nil, err
	}
	res := load.Summarize(rec, load.Settings{Target: load.Asked{Stream: c.Stream}, Load: shape, Warmup: 0})
	return compare(c, rec, res, truths), nil
}

// fetch asks the server for its truth.
func fetch(ctx context.Context, url string) ([]loadtest.Truth, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/truth", http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask for the truth: %w", err)
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for the truth: %w", err)
	}
	defer resp.Body.Close()
	var truths []loadtest.Truth
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<30)).Decode(&truths); err != nil {
		return nil, fmt.Errorf("ask for the truth: %w", err)
	}
	return truths, nil
}

func compare(c Case, rec *load.Recording, res *load.Result, truths []loadtest.Truth) *Outcome {
	g := &res.Generator
	o := &Outcome{
		Name: c.Name, Requests: res.Requests.Complete, Failed: res.Requests.Failed,
		PerEvent: g.PerEvent, LagP50: g.SendLag.P50, LagP99: g.SendLag.P99, ReceiveP50: g.ReceiveLag.P50, ReceiveP99: g.ReceiveLag.P99,
		ArrivalCV: g.ArrivalCV, ResidentMB: g.ResidentMB, Spoiled: g.Spoiled,
	}
	seconds := res.Duration
	if seconds > 0 {
		o.RequestsPS, o.EventsPS, o.Cores = float64(o.Requests)/seconds, float64(rec.Events)/seconds, g.CPU/seconds
	}
	var first, gaps []float64
	for _, t := range truths {
		if t.Aborted {
			continue
		}
		first = append(first, t.First.Seconds())
		if t.Tokens > 1 {
			gaps = append(gaps, t.Gaps.Seconds()/float64(t.Tokens-1))
		}
	}
	if d := res.Latency[load.TTFT]; d != nil && len(first) > 0 {
		slices.Sort(first)
		o.TTFTP50, o.TTFTP99 = at(d, 0.5)-stat.Quantile(first, 0.5), at(d, 0.99)-stat.Quantile(first, 0.99)
	}
	if d := res.Latency[load.ITL]; d != nil && len(gaps) > 0 {
		o.ITLMean = d.Mean - mean(gaps)
	}
	if s := c.Script; s.ITL > 0 && c.Rate == 0 {
		each := s.TTFT + time.Duration(s.Tokens-1)*s.ITL
		// Each stream's last request is cut off by the end of the test.
		whole := math.Floor(c.Duration.Seconds()/each.Seconds()) + 1
		o.OfIdeal = float64(o.Requests) / (whole * float64(c.Concurrency)) * (whole * each.Seconds()) / seconds
	}
	return o
}

func at(d *load.Distribution, q float64) float64 {
	x, _ := d.At(q)
	return x.Value
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// Write prints outcomes as a table.
func Write(w io.Writer, outcomes []*Outcome, o render.Options) error {
	t := render.NewText(o)
	var rows [][]string
	for _, x := range outcomes {
		ideal, cv := "–", "–"
		if x.OfIdeal > 0 {
			ideal = render.Percent(x.OfIdeal)
		}
		if x.ArrivalCV > 0 {
			cv = fmt.Sprintf("%.2f", x.ArrivalCV)
		}
		mark := ""
		if x.Failed > 0 {
			mark = fmt.Sprintf("%d FAILED", x.Failed)
		}
		if x.Spoiled {
			mark = strings.TrimSpace(mark + " distorted by the load generator")
		}
		rows = append(rows, []string{
			x.Name, fmt.Sprint(x.Requests), fmt.Sprintf("%+.2f", 1e3*x.TTFTP50), fmt.Sprintf("%+.2f", 1e3*x.TTFTP99), fmt.Sprintf("%+.3f", 1e3*x.ITLMean),
			fmt.Sprintf("%.0f", x.RequestsPS), fmt.Sprintf("%.0f", x.EventsPS), ideal, fmt.Sprintf("%.2f", 1e6*x.PerEvent), fmt.Sprintf("%.2f/%.2f", 1e3*x.LagP50, 1e3*x.LagP99),
			fmt.Sprintf("%.2f/%.2f", 1e3*x.ReceiveP50, 1e3*x.ReceiveP99), cv, fmt.Sprintf("%.2f", x.Cores), fmt.Sprintf("%.1f", x.ResidentMB), mark,
		})
	}
	t.Table(render.Words(render.Columns("", "requests", "TTFT P50 off ms", "P99 off ms", "ITL off ms", "req/s", "events/s", "of ideal", "µs/event",
		"send lag P50/99 ms", "receive lag P50/99 ms", "arrival CV", "cores", "MB", "")), rows)
	_, err := t.WriteTo(w)
	return err
}
