// Package autoscaling renders an autoscaler of inference servers: for KEDA, or as a
// HorizontalPodAutoscaler with the rule of prometheus-adapter that it reads. It scales on the requests
// in flight of each replica, against the number with which a replica meets its objectives.
//
// It is pure: values in, files out. Package cli calls it.
package autoscaling

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"text/template"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate"
)

// A Format is an autoscaler's.
type Format string

// The formats.
const (
	KEDA Format = "keda" // a ScaledObject
	HPA  Format = "hpa"  // a HorizontalPodAutoscaler, and a rule of prometheus-adapter
)

// Formats returns all.
func Formats() []Format { return []Format{KEDA, HPA} }

// A Capacity is what one replica carries.
type Capacity struct {
	InFlight float64 // requests that run or wait when it just meets its objectives
	From     string  // what says so
}

// Config says what is scaled.
type Config struct {
	Format     Format
	Deployment dialect.Deployment // Window is the time over which requests are averaged
	Workload   string             // name of the Deployment
	Namespace  string
	Prometheus string // URL, as the autoscaler reaches it
	Min, Max   int    // replicas
	Capacity   Capacity
	Start      time.Duration // how long a replica takes until it serves
}

// headroom is the share of the capacity at which a replica is added: the rest carries what comes while
// it starts.
const headroom = 0.8

// window averages the requests in flight: a burst shorter than this is over before a replica serves.
const window = time.Minute

//go:embed autoscaling.yaml.tmpl
var text string

// Generate renders the files.
func Generate(c Config) ([]generate.File, error) {
	switch {
	case c.Workload == "":
		return nil, hint.With(errors.New("nothing to scale"), "set the Deployment with --workload")
	case !(c.Capacity.InFlight >= 1) || c.Capacity.InFlight > 1e6:
		return nil, hint.With(fmt.Errorf("%g requests in flight is not a replica's capacity", c.Capacity.InFlight), "measure it: sixty bench URL --search rate --use-case chat --save-baseline baseline.json")
	case c.Min < 1 || c.Max < c.Min:
		return nil, hint.With(fmt.Errorf("from %d to %d replicas", c.Min, c.Max), "set --min-replicas to 1 or more, and --max-replicas to at least that: with no replica left, no metric shows that one is needed")
	case c.Start <= 0:
		return nil, errors.New("--start-time must be more than 0")
	}
	c.Deployment.Window = window
	running, err := c.Deployment.Expr(indicator.Running)
	if err != nil {
		return nil, fmt.Errorf("requests in flight: %w", err)
	}
	waiting, err := c.Deployment.Expr(indicator.Waiting)
	if err != nil {
		return nil, fmt.Errorf("requests in flight: %w", err)
	}
	dialects := c.Deployment.Dialects
	if len(dialects) == 0 {
		return nil, errors.New("these servers have no known metrics")
	}
	t, err := template.New("autoscaler").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse the autoscaler: %w", err)
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, string(c.Format), map[string]any{
		"C": c, "Query": "sum(" + running + ") + sum(" + waiting + ")", "Target": int(math.Max(1, math.Floor(c.Capacity.InFlight*headroom))),
		"Series":   dialects[0].Metric("vllm:num_requests_running"), // what makes the adapter ask
		"Start":    model.Duration(c.Start).String(),
		"Capacity": fmt.Sprintf("%.3g", c.Capacity.InFlight), "Percent": int(headroom * 100),
		// What is taken away must not be missed before another one has started.
		"Down": int(math.Max(300, 2*c.Start.Seconds())), "Up": int(math.Max(60, c.Start.Seconds())),
	}); err != nil {
		return nil, fmt.Errorf("render the autoscaler: %w", err)
	}
	return []generate.File{{Path: "autoscaler.yaml", Content: b.Bytes()}}, nil
}

// ReadCapacity reads what a replica carries from a file of sixty bench --save-baseline, or of sixty
// tune --output json. name is used in errors; note is what a user should know of the number.
func ReadCapacity(name string, content []byte) (c Capacity, note string, err error) {
	var kind struct {
		Schema string `json:"schema"`
		Result struct {
			Rows []struct {
				Row     string  `json:"row"`
				Running float64 `json:"running"`
			} `json:"rows"`
		} `json:"result"`
	}
	if err := json.Unmarshal(content, &kind); err != nil {
		return c, "", hint.With(fmt.Errorf("read %s: %w", name, err), wayOut)
	}
	if kind.Schema == "sixty.tune/v2" {
		for _, r := range kind.Result.Rows { // the smallest is at the largest load with which it meets the targets
			if c.InFlight == 0 || r.Row == "smallest" {
				c = Capacity{r.Running, "simulated by sixty tune, row " + r.Row}
			}
		}
		if c.InFlight == 0 {
			return c, "", hint.With(fmt.Errorf("read %s: no configuration meets the targets", name), wayOut)
		}
		return c, "the capacity is simulated: a load test (sixty bench --search) is more reliable", nil
	}
	b, err := baseline.Parse(name, content)
	if err != nil {
		return c, "", hint.Or(fmt.Errorf("--from: %w", err), wayOut)
	}
	if b.Concurrency <= 0 {
		return c, "", hint.With(fmt.Errorf("read %s: it has no number of requests in flight", name), wayOut)
	}
	if b.Capacity == 0 {
		note = "the load test did not search for the capacity: a replica may handle more"
	}
	return Capacity{b.Concurrency, b.Source}, note, nil
}

const wayOut = "write one with: sixty bench URL --search rate --use-case chat --save-baseline FILE, or sixty tune --output json"
