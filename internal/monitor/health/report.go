// Package health measures how servers did over a day or a week: what users got, what was
// asked of the servers, how full they were, what they did for it, and what went wrong. It
// asks a Querier and does no other I/O; package monitor/health/healthreport writes what it found.
package health

import (
	"cmp"
	"time"

	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// Schema names the version of the JSON; fields are only added under it.
const Schema = "sixty.health/v2"

// A Report is the health of all models over a span of time. Numbers are in base units; what
// is not known is null, and Reason says why.
type Report struct {
	Schema string       `json:"schema"`
	Tool   version.Tool `json:"tool"`
	At     time.Time    `json:"at"` // the end of the span, of which "now" is said
	From   time.Time    `json:"from"`
	To     time.Time    `json:"to"`
	// Compared is the beginning of the span of the same length before, null where there
	// are no samples of it.
	Compared *time.Time  `json:"compared_from"`
	Status   view.Health `json:"status"`
	Summary  string      `json:"summary"`
	Models   []Model     `json:"models"`
	// Incidents are those that were open within the span, the latest first; Known is false
	// where nobody kept any.
	Incidents      []view.Summary `json:"incidents"`
	IncidentsKnown bool           `json:"incidents_known"`
	Notes          []string       `json:"notes"`
}

// Now is what a look at the servers shows at the end of the span.
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
	Verdict   string      `json:"verdict"` // its id
	Summary   string      `json:"summary"`
	Now       Now         `json:"now"`
	Areas     []Area      `json:"areas"` // the seven, in their order
	Cost      *Cost       `json:"cost"`
}

// An Area is one of the seven that a health report speaks of.
type Area struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Asks   string `json:"asks"`   // the question that it answers
	State  State  `json:"state"`  // the worst of its rows
	Reason string `json:"reason"` // of a state other than fine
	Rows   []Row  `json:"rows"`
}

// State says how an area did.
type State string

// The states of areas and rows.
const (
	Fine     State = "fine"     // the objective was kept
	Measured State = "measured" // there is no objective for it
	Breached State = "breached" // an objective was not kept
	Missing  State = "unknown"  // nothing of it is measured
)

// A Row is one quantity over the span.
type Row struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Unit  string `json:"unit"`
	How   How    `json:"how"`
	// Value is of the whole span, Previous of the span before.
	Value    *float64 `json:"value"`
	Previous *float64 `json:"previous"`
	// Worst is the worst of some minutes, at WorstAt.
	Worst   *float64   `json:"worst"`
	WorstAt *time.Time `json:"worst_at"`
	// Limit is what was promised, and Kept the share of the time, as far as there was
	// traffic, in which that held.
	Limit       *float64 `json:"limit"`
	LimitSource string   `json:"limit_source"`
	Kept        *float64 `json:"kept"`
	State       State    `json:"state"`
	Reason      string   `json:"reason"` // why it is not known, or was breached
	// Bounds are how value and previous are written of which only a bucket or a bound is known.
	Bounds map[string]string `json:"bounds,omitempty"`
	// Points are what a plot shows, where there is one: Unix seconds and values, StepS apart where they are known.
	Points [][2]float64 `json:"points,omitempty"`
	StepS  float64      `json:"step_s,omitempty"`
}

// Number writes one of a row's numbers, by its name in Bounds; "" where it is not known.
func (r *Row) Number(name string, v *float64) string {
	if v == nil {
		return ""
	}
	return cmp.Or(r.Bounds[name], indicator.FormatNumber(*v, indicator.Unit(r.Unit)))
}

// How says what the value of a row is.
type How string

// The ways.
const (
	OfAll     How = "all"   // of all requests, or all scrapes, of all replicas
	Total     How = "total" // all that happened
	PerSecond How = "rate"  // mean over the span, of all replicas together
	Mean      How = "mean"  // mean over the span, of all replicas together or, as the signal says, of the fullest
)
