package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// Schema is the version of Result's JSON. Changes only add to it.
const Schema = "sixty.bench/v1"

// A Result is the outcome of a test. In JSON all times are seconds and all rates are per second; docs/bench-results.md
// documents every field.
type Result struct {
	Schema   string       `json:"schema"`
	Tool     version.Tool `json:"tool"`
	Name     string       `json:"name,omitempty"` // name of the scenario
	Started  time.Time    `json:"started"`
	Target   Asked        `json:"target"`
	Load     Shape        `json:"load"`
	Workload any          `json:"workload,omitempty"` // workload.Spec; nil for a trace

	Duration    float64 `json:"duration"`
	Window      Window  `json:"window"`
	Interrupted bool    `json:"interrupted,omitempty"`
	// Gone is when a server answered last that then stayed unreachable until the end; 0 if it stayed reachable.
	Gone float64 `json:"gone,omitempty"`

	Requests   Requests                 `json:"requests"`
	Throughput Throughput               `json:"throughput"`
	Latency    map[Metric]*Distribution `json:"latency"`
	Tokens     Tokens                   `json:"tokens"`
	Goodput    *Goodput                 `json:"goodput,omitempty"`
	Streams    Streams                  `json:"streams"`
	Server     *Server                  `json:"server,omitempty"`
	Generator  Judgement                `json:"generator"`
	Notes      []string                 `json:"notes,omitempty"`
}

// Asked describes the server under test, without secrets.
type Asked struct {
	URL     string `json:"url"`
	API     API    `json:"api"`
	Model   string `json:"model"`
	Version string `json:"version,omitempty"` // the server's, if it reports one
	Prompts string `json:"prompts"`           // source of the prompt lengths: see Vocabulary.Source
}

// Shape describes when requests were sent.
type Shape struct {
	Concurrency int                `json:"concurrency,omitempty"` // closed loop
	Arrivals    *workload.Arrivals `json:"arrivals,omitempty"`    // open loop
	Trace       string             `json:"trace,omitempty"`       // format of the trace replayed
	Speed       float64            `json:"speed,omitempty"`       // speed of the replay
	Asked       int                `json:"requests_asked,omitempty"`
	Seed        uint64             `json:"seed"`
}

// variesByPlan reports whether the planned rate changes.
func (s *Shape) variesByPlan() bool {
	if s.Arrivals == nil {
		return false
	}
	for _, x := range s.Arrivals.Profile {
		if x.From != s.Arrivals.Profile[0].From || x.To != x.From {
			return true
		}
	}
	return false
}

// A Window is the part of the test that latencies and throughput cover.
type Window struct {
	From     float64 `json:"from"`
	To       float64 `json:"to"`
	Steady   bool    `json:"steady"`
	Excluded int     `json:"excluded"` // requests excluded as warm-up
	Why      string  `json:"why"`      // how it was chosen, or why there is no steady state
}

// Requests counts the outcomes over the whole test.
type Requests struct {
	Sent        int                 `json:"sent"`
	Complete    int                 `json:"complete"`
	Unfinished  int                 `json:"unfinished"`
	Failed      int                 `json:"failed"`
	Errors      map[string]int      `json:"errors,omitempty"`   // by kind
	Messages    map[string][]string `json:"messages,omitempty"` // a few of each kind
	Connections int                 `json:"connections"`
	Resent      int                 `json:"resent,omitempty"` // a kept connection had died
}

// ErrorRate returns the share of failures among the complete and failed requests.
func (r *Requests) ErrorRate() float64 {
	if n := r.Complete + r.Failed; n > 0 {
		return float64(r.Failed) / float64(n)
	}
	return 0
}

// Throughput holds rates per second within the window.
type Throughput struct {
	Requests     float64 `json:"requests"`
	RequestsLow  float64 `json:"requests_low"`
	RequestsHigh float64 `json:"requests_high"`
	InputTokens  float64 `json:"input_tokens"`
	OutputTokens float64 `json:"output_tokens"`
	OutputLow    float64 `json:"output_tokens_low"`
	OutputHigh   float64 `json:"output_tokens_high"`
	Offered      float64 `json:"offered"` // requests scheduled
}

// Metric names a latency.
type Metric string

// The latencies of a Result.
const (
	TTFT          Metric = "ttft"           // first token, from sending
	TTFTScheduled Metric = "ttft_scheduled" // first token, from the schedule
	ITL           Metric = "itl"            // between tokens, weighted by tokens
	TPOT          Metric = "tpot"           // mean time per token after the first, of each request
	E2E           Metric = "e2e"            // last byte, from sending
	E2EScheduled  Metric = "e2e_scheduled"  // last byte, from the schedule
	Stall         Metric = "stall"          // longest pause between tokens, of each request
	Connect       Metric = "connect"        // new connections, handshakes included
)

// Metrics lists the latencies in the order of reports.
func Metrics() []Metric {
	return []Metric{TTFT, TTFTScheduled, ITL, TPOT, E2E, E2EScheduled, Stall, Connect}
}

// quantiles lists the quantiles of a Distribution.
func quantiles() []float64 { return []float64{0.5, 0.9, 0.95, 0.99, 0.999} }

// A Distribution summarizes a latency.
type Distribution struct {
	Count     int64      `json:"count"`
	Effective float64    `json:"effective"` // number of independent values with the same information
	Mean      float64    `json:"mean"`
	MeanLow   float64    `json:"mean_low"` // 95 % interval
	MeanHigh  float64    `json:"mean_high"`
	Deviation float64    `json:"deviation"`
	Min       float64    `json:"min"`
	Max       float64    `json:"max"`
	Quantiles []Quantile `json:"quantiles"`
}

// Quantile is one percentile with its 95 % interval.
type Quantile struct {
	Q     float64 `json:"q"`
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Few   bool    `json:"few,omitempty"` // too few values to bound it on both sides
}

// At returns the quantile q, if the distribution gives it.
func (d *Distribution) At(q float64) (Quantile, bool) {
	if d != nil && d.Count > 0 {
		for _, x := range d.Quantiles {
			if x.Q == q {
				return x, true
			}
		}
	}
	return Quantile{}, false
}

// Tokens compares requested and received tokens.
type Tokens struct {
	PromptAsked  float64 `json:"prompt_asked"` // means
	Prompt       float64 `json:"prompt"`
	PromptWorst  float64 `json:"prompt_worst"` // largest relative error of one prompt
	OutputAsked  float64 `json:"output_asked"`
	Output       float64 `json:"output"`
	CachedShare  float64 `json:"cached_share"`  // share of prompt tokens, if the server reports it
	Short        int     `json:"short"`         // complete answers shorter than requested
	Estimated    int     `json:"estimated"`     // answers without token counts per event
	PerEvent     float64 `json:"per_event"`     // tokens per event
	EventsOfRead float64 `json:"events_a_read"` // events per read: above 1 if they arrive faster than they are read
}

// Goodput counts the requests that met the objective.
type Goodput struct {
	Objective string  `json:"objective"`
	Share     float64 `json:"share"`    // share of the requests that should have been answered
	Requests  float64 `json:"requests"` // per second
	TTFT      float64 `json:"ttft,omitempty"`
	ITL       float64 `json:"itl,omitempty"`
	E2E       float64 `json:"e2e,omitempty"`
	Met       bool    `json:"met"` // every percentile and the availability met the objective
}

// Streams is the concurrency over the window.
type Streams struct {
	Mean float64 `json:"mean"`
}

// A Judgement is the generator's verdict on itself.
type Judgement struct {
	Spoiled bool     `json:"spoiled"` // the result reflects the generator more than the server
	Reasons []string `json:"reasons,omitempty"`

	SendLag Lag `json:"send_lag"` // delay between the time to send a request and its sending
	Generator
	Utilisation float64 `json:"utilisation"` // CPU over cores and time
	PerEvent    float64 `json:"cpu_per_event"`
	ArrivalCV   float64 `json:"arrival_cv,omitempty"` // CV of the times between sends, open loop
	Achieved    float64 `json:"achieved,omitempty"`   // requests sent over requests due, open loop
}

// maxResult bounds a result file.
const maxResult = 256 << 20

// ReadFile reads a Result from a JSON file.
func ReadFile(path string) (*Result, error) {
	raw, err := fileio.Read(path, maxResult)
	if err != nil {
		return nil, err
	}
	r, err := readResult(raw)
	if err != nil {
		return nil, hint.Or(fmt.Errorf("%s: read result: %w", path, err),
			"pass a file written by sixty bench --save, vllm bench serve --save-result, AIPerf or GuideLLM")
	}
	return r, nil
}

func readResult(raw []byte) (*Result, error) {
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		return nil, hint.With(errors.New("the file has several results"),
			"run each scenario separately, and write its result")
	}
	r := &Result{}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, err
	}
	if r.Schema != Schema {
		if foreign, known, err := readForeign(raw); known {
			return foreign, err
		}
		return nil, fmt.Errorf("the schema is not %s", Schema)
	}
	for m, d := range r.Latency {
		if d == nil {
			return nil, fmt.Errorf("latency %q is empty", m)
		}
	}
	return r, nil
}
