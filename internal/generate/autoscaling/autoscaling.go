// Package autoscaling renders an autoscaler for inference servers: a ScaledObject of KEDA, or a
// HorizontalPodAutoscaler with its rule for prometheus-adapter. It scales on the requests in flight per replica,
// relative to the number at which a replica just meets its objectives.
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

// A Format is a kind of autoscaler.
type Format string

// The formats.
const (
	KEDA Format = "keda" // a ScaledObject
	HPA  Format = "hpa"  // a HorizontalPodAutoscaler, and a rule of prometheus-adapter
)

// Formats returns all.
func Formats() []Format { return []Format{KEDA, HPA} }

// A Capacity is the load that one replica carries.
type Capacity struct {
	InFlight float64 // running and waiting requests at which it just meets its objectives
	From     string  // the source of the number
}

// Config describes the workload to scale.
type Config struct {
	Format     Format
	Deployment dialect.Deployment // Window is the time over which requests are averaged
	Workload   string             // name of the Deployment
	Namespace  string
	Prometheus string // URL, as the autoscaler reaches it
	Min, Max   int    // replicas
	Capacity   Capacity
	Start      time.Duration // time until a new replica serves
}

// headroom is the share of the capacity at which a replica is added. The rest carries new requests while the replica
// starts.
const headroom = 0.8

// averagingWindow averages the requests in flight. A shorter burst is over before a replica serves.
const averagingWindow = time.Minute

//go:embed autoscaling.yaml.tmpl
var templateText string

// Generate renders the files.
func Generate(c Config) ([]generate.File, error) {
	switch {
	case c.Workload == "":
		return nil, hint.With(errors.New("nothing to scale"), "set the Deployment with --workload")
	case !(c.Capacity.InFlight >= 1) || c.Capacity.InFlight > 1e6:
		return nil, hint.With(fmt.Errorf("%g requests in flight is not a replica's capacity", c.Capacity.InFlight),
			"measure it: sixty bench URL --search rate --use-case chat --save-baseline baseline.json")
	case c.Min < 1 || c.Max < c.Min:
		return nil, hint.With(fmt.Errorf("from %d to %d replicas", c.Min, c.Max), "set --min-replicas to 1 or "+
			"more, and --max-replicas to at least that: with no replica left, no metric shows that one is needed")
	case c.Start <= 0:
		return nil, errors.New("--start-time must be more than 0")
	}
	c.Deployment.Window = averagingWindow
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
	t, err := template.New("autoscaler").Parse(templateText)
	if err != nil {
		return nil, fmt.Errorf("parse the autoscaler: %w", err)
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, string(c.Format), map[string]any{
		"C": c, "Query": "sum(" + running + ") + sum(" + waiting + ")",
		"Target":   int(math.Max(1, math.Floor(c.Capacity.InFlight*headroom))),
		"Series":   dialects[0].Metric("vllm:num_requests_running"), // the adapter discovers the metric by this series
		"Start":    model.Duration(c.Start).String(),
		"Capacity": fmt.Sprintf("%.3g", c.Capacity.InFlight), "Percent": int(headroom * 100),
		// The longer the start of a replica takes, the longer the load must be low before one is removed.
		"Down": int(math.Max(300, 2*c.Start.Seconds())), "Up": int(math.Max(60, c.Start.Seconds())),
	}); err != nil {
		return nil, fmt.Errorf("render the autoscaler: %w", err)
	}
	return []generate.File{{Path: "autoscaler.yaml", Content: b.Bytes()}}, nil
}

// ReadCapacity reads the capacity of a replica from a file of sixty bench --save-baseline or of sixty tune --output
// json. Errors name the file name; note is a caveat for the user.
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
	if kind.Schema == "sixty.tune/v3" {
		rows := kind.Result.Rows
		if len(rows) == 0 {
			return c, "", hint.With(fmt.Errorf("read %s: no configuration meets the targets", name), wayOut)
		}
		last := rows[len(rows)-1] // the smallest replica that meets the targets, at the largest load
		return Capacity{last.Running, "simulated by sixty tune, row " + last.Row},
			"the capacity is simulated: a load test (sixty bench --search) is more reliable", nil
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

const wayOut = "write one with: sixty bench URL --search rate --use-case chat --save-baseline FILE, or sixty tune " +
	"--output json"
