// Package health measures servers over a span such as a day: service to users, demand, utilization, output, and faults.
//
// [Measure] finds the servers of each model, queries every signal of seven areas (user experience, offered load,
// scheduler, memory, useful work, workload, infrastructure), and returns a [Report]. Each signal is one [Row]: its
// value over the span, its worst moment, and the share of the time in which its objective was met. [Impact] measures in
// the same way how many requests one incident hurt.
//
// The package judges nothing: the state of a model is the monitor's. It queries a Querier and does no other I/O.
// Package monitor/health/healthreport writes the report.
package health

import (
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// Schema names the version of the JSON; fields are only added under it.
const Schema = "sixty.health/v3"

// A Report is the health of all models over a span of time. Numbers are in base units; unknown values are null, and
// Reason says why.
type Report struct {
	Schema  string       `json:"schema"`
	Tool    version.Tool `json:"tool"`
	At      time.Time    `json:"at"` // the end of the span, to which Now and Status belong
	From    time.Time    `json:"from"`
	To      time.Time    `json:"to"`
	Status  view.Health  `json:"status"`
	Summary string       `json:"summary"`
	Models  []Model      `json:"models"`
	// Incidents are those that were open in the span, the latest first. IncidentsKnown is false if none are stored.
	Incidents      []view.Summary `json:"incidents"`
	IncidentsKnown bool           `json:"incidents_known"`
	Notes          []string       `json:"notes"`
}

// Now holds a model's values at the end of the span.
type Now struct {
	KVCacheUtilization *float64 `json:"kv_cache_utilization"` // 0 to 1, of the fullest replica
	QueueDepth         *float64 `json:"queue_depth"`          // requests that wait
	ActiveSequences    *float64 `json:"active_sequences"`     // requests that run
	GPUUtilization     *float64 `json:"gpu_utilization"`      // 0 to 1, mean
}

// A Model is the servers of one model.
type Model struct {
	Model     string      `json:"model"`
	Namespace string      `json:"namespace"`
	Cluster   string      `json:"cluster"`
	Replicas  int         `json:"replicas"`
	Status    view.Health `json:"status"`
	Verdict   string      `json:"verdict"` // the verdict's ID
	Summary   string      `json:"summary"`
	Now       Now         `json:"now"`
	Areas     []Area      `json:"areas"` // all seven, in order
	Cost      *Cost       `json:"cost"`
}

// An Area is one of the seven parts of a health report.
type Area struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Asks  string `json:"asks"` // the question that it answers
	Rows  []Row  `json:"rows"`
}

// Measured reports whether any value of an area is known.
func (a *Area) Measured() bool {
	return slices.ContainsFunc(a.Rows, func(r Row) bool { return r.Value != nil })
}

// A Row is one quantity over the span.
type Row struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Unit  string `json:"unit"`
	How   How    `json:"how"`
	// Value is the value over the whole span.
	Value *float64 `json:"value"`
	// Worst is the worst value of one step of the span (a quarter of an hour of a day), at WorstAt.
	Worst   *float64   `json:"worst"`
	WorstAt *time.Time `json:"worst_at"`
	// Limit is the objective, and Kept the share of the time with traffic in which it was met.
	Limit  *float64 `json:"limit"`
	Kept   *float64 `json:"kept"`
	Reason string   `json:"reason"` // why the value is unknown
	// ValueText is the text of a value that is only known as a bucket or a bound.
	ValueText string `json:"value_text,omitempty"`
}

// Number formats one of a row's numbers; "" if it is unknown.
func (r *Row) Number(v *float64) string {
	if v == nil {
		return ""
	}
	return indicator.FormatNumber(*v, indicator.Unit(r.Unit))
}

// How says how the value of a row is computed.
type How string

// The ways.
const (
	OfAll     How = "all"   // over all requests or scrapes of all replicas
	Total     How = "total" // the sum
	PerSecond How = "rate"  // mean over the span, of all replicas together
	Mean      How = "mean"  // mean over the span, of all replicas together or, for some signals, of the fullest
)

// setStatus takes the state and the verdict of each model from the monitor.
func (c *Config) setStatus(r *Report) {
	r.Status = view.HealthUnknown
	for i := range c.Now {
		m := &c.Now[i]
		if i == 0 {
			r.Status = m.Health
		}
		for k := range r.Models {
			out := &r.Models[k]
			if len(c.Now) == 1 || out.Cluster == m.Cluster && out.Namespace == m.Namespace && out.Model == m.Model {
				out.Status, out.Verdict, out.Summary = m.Health, m.Verdict.ID, m.Verdict.Summary
			}
		}
	}
}

// summarize writes the report in a sentence.
func summarize(r *Report) string {
	out := map[view.Health]string{
		view.HealthFailing: "Failing", view.HealthDegraded: "Degraded", view.HealthUncertain: "Not certain",
		view.HealthUnknown: "State unknown", view.HealthHealthy: "Healthy",
	}[r.Status] + " at the end"
	if !slices.ContainsFunc(r.Models, func(m Model) bool { return m.Verdict != diagnose.Idle }) && len(r.Models) > 0 {
		out = "Idle at the end"
	}
	for i := range r.Models {
		if m := &r.Models[i]; r.Status != view.HealthUnknown && r.Status != view.HealthHealthy && m.Status == r.Status {
			out += ": " + strings.TrimPrefix(strings.TrimRight(m.Summary, "."), diagnose.NameOf(m.Verdict)+": ")
			break
		}
	}
	if n := len(r.Incidents); n > 0 {
		out += "; " + render.Plural(n, "incident")
	} else if r.IncidentsKnown {
		out += "; no incident"
	}
	return out + "."
}
