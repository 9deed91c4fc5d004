// Package view holds the types of the monitor's HTTP API, as JSON. docs/api.md is the contract; the tags here are its
// names. An [Overview] shows the present state of all models, a [Summary] an incident in a list, an [Incident] one in
// full. The server fills these types, the page and the terminal show them.
//
// Times are UTC, durations seconds, ratios 0 to 1. An unknown number is null, never 0.
//
// The package does no I/O and reads no clock.
package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/trace"
)

// Schemas of answers. Under one name fields are only added.
const (
	OverviewSchema = "sixty.overview/v1"
	WhatIfSchema   = "sixty.whatif/v1"
)

// State says whether the overview can be trusted.
type State string

// States of the monitor. Only under OK may anything be shown as healthy.
const (
	OK       State = "ok"
	Starting State = "starting" // not evaluated yet
	Partial  State = "partial"  // some sources or targets did not answer
	Stale    State = "stale"    // the last evaluation is too old
)

// Status is the status of a replica or of a model's verdict.
type Status string

// Statuses, the worst first. A model's verdict is Firing, Pending, Unknown or Healthy.
const (
	Firing  Status = "firing"
	Down    Status = "down"    // it does not answer
	Pending Status = "pending" // requests wait, or a fault is suspected: not certain yet
	Unknown Status = "unknown"
	Healthy Status = "ok"
	Idle    Status = "idle"
)

// Health is the state of a model on every surface.
type Health string

// The five states.
const (
	HealthFailing   Health = "failing"   // worth a page
	HealthDegraded  Health = "degraded"  // worth a ticket
	HealthUncertain Health = "uncertain" // not certain yet: requests may be hurt
	HealthUnknown   Health = "unknown"
	HealthHealthy   Health = "healthy"
)

// Healths are the states, the worst first.
var Healths = []Health{HealthFailing, HealthDegraded, HealthUncertain, HealthUnknown, HealthHealthy}

// HealthOf returns the state for a status and the severity of its finding: "page", "ticket" or "info".
func HealthOf(s Status, severity string) Health {
	bad, info := s == Firing || s == Down, severity == catalog.Info.String()
	switch {
	case s == Unknown:
		return HealthUnknown
	case info:
		return HealthHealthy
	case s == Pending:
		return HealthUncertain
	case bad && severity == catalog.Ticket.String():
		return HealthDegraded
	case bad:
		return HealthFailing
	}
	return HealthHealthy
}

// An Overview shows the present state: one sentence per model, one line per replica.
type Overview struct {
	Schema     string    `json:"schema"` // OverviewSchema
	At         time.Time `json:"at"`
	EvaluatedS float64   `json:"evaluated_in_s"`
	EveryS     float64   `json:"every_s"` // between two evaluations
	State      State     `json:"state"`
	Problems   []string  `json:"problems"` // obstacles to judging, one sentence each
	Models     []Model   `json:"models"`   // the worst first

	// Anomalies are the findings of package anomaly, if it is on: present ones first, the most unusual first.
	Anomalies []Anomaly `json:"anomalies,omitzero"`
}

// An Anomaly is an unusual value of a replica, or the correlation of two.
type Anomaly struct {
	At        time.Time  `json:"at"`              // time of the first evaluation with it
	Ended     *time.Time `json:"ended,omitempty"` // time of the first evaluation without it
	Target    string     `json:"target"`
	Metric    string     `json:"metric"`
	Text      string     `json:"text"`
	Z         *float64   `json:"z"`         // standard deviations from the mean; null for a correlation
	Pathology string     `json:"pathology"` // possible cause; empty for an anomaly without one
}

// Continues reports whether a and b are the same present anomaly at different times.
func (a Anomaly) Continues(b Anomaly) bool {
	return a.Ended == nil && b.Ended == nil && a.Target == b.Target && a.Metric == b.Metric
}

// Size returns how unusual it is, in standard deviations; infinite for a correlation.
func (a Anomaly) Size() float64 {
	if a.Z == nil {
		return math.Inf(1)
	}
	return math.Abs(*a.Z)
}

// A Model is one model of one deployment.
type Model struct {
	Model     string    `json:"model"`
	Namespace string    `json:"namespace"`
	Cluster   string    `json:"cluster"`
	Name      string    `json:"name"`   // with its namespace and cluster: "qwen in prod on eu-west-1"
	Health    Health    `json:"health"` // the state on every surface
	Title     string    `json:"title"`  // state and place, in one sentence
	Text      string    `json:"text"`   // the finding, in one or two more
	Verdict   Verdict   `json:"verdict"`
	Advice    string    `json:"advice,omitempty"` // what to do first, in one sentence
	Incident  *string   `json:"incident"`         // ID of the open incident
	Phase     Phase     `json:"phase,omitempty"`  // phase of the incident
	Replicas  []Replica `json:"replicas"`         // by name
}

// IsQuiet reports whether the model's open incident is not found any more. An informative finding may fire, such as the
// restart that ended it.
func (m *Model) IsQuiet() bool {
	return m.Phase == Quiet && (m.Verdict.Status != Firing || m.Verdict.Severity == catalog.Info.String())
}

// Describe sets the name, the health, the title and the text of a model. name is the name of the verdict; affected and
// servers are numbers of replicas. A failing model does not become healthy at once.
func (m *Model) Describe(name string, affected, servers int) {
	m.Name = cmp.Or(m.Model, "the server")
	if m.Model == "" && len(m.Replicas) > 0 {
		m.Name = cmp.Or(m.Replicas[0].Labels["model_name"], m.Name)
	}
	if m.Namespace != "" {
		m.Name += " in " + m.Namespace
	}
	if m.Cluster != "" {
		m.Name += " on " + m.Cluster
	}
	m.Health = HealthOf(m.Verdict.Status, m.Verdict.Severity)
	m.Text = render.Sentence(strings.TrimPrefix(m.Verdict.Summary, name+": "))
	if m.Health == HealthHealthy && (m.Phase == Failing || m.Phase == Degraded) {
		m.Health = Health(m.Phase)
	}
	m.Title = m.title(name, affected, servers)
}

// title returns a model's title, from its name and health.
func (m *Model) title(name string, affected, servers int) string {
	switch {
	case m.IsQuiet() && m.Health != HealthUncertain:
		return m.Name + " is quiet, and its incident is not closed yet"
	case m.Verdict.Status == Firing && servers > 1 && affected == servers:
		return fmt.Sprintf("%s on all %d replicas of %s", name, servers, m.Name)
	case m.Verdict.Status == Firing && servers > 1 && affected > 0:
		return fmt.Sprintf("%s on %d of %d replicas of %s", name, affected, servers, m.Name)
	case m.Verdict.Status == Firing:
		return name + " on " + m.Name
	case m.Health == HealthUncertain:
		return "Not certain yet whether " + m.Name + " is healthy"
	case m.Health == HealthUnknown:
		return m.Name + " is in an unknown state"
	case m.Health != HealthHealthy:
		return m.Name + " is " + string(m.Health) + ": its incident is open"
	case m.Verdict.ID == "idle":
		return m.Name + " is idle"
	}
	return m.Name + " is healthy"
}

// Doubt makes healthy models unknown unless the overview can be trusted.
func (o *Overview) Doubt() {
	if o.State == OK {
		return
	}
	for i := range o.Models {
		m := &o.Models[i]
		if m.Health == HealthHealthy && m.Phase != Quiet {
			m.Health, m.Title = HealthUnknown, m.Name+" is in an unknown state"
			if m.Verdict.Status != Unknown {
				m.Text = "Was: " + m.Text
			}
		}
	}
}

// A Verdict is the one answer for a model.
type Verdict struct {
	ID           string     `json:"id"` // a pathology, or healthy, idle, not-certain, insufficient-data
	Status       Status     `json:"status"`
	Severity     string     `json:"severity"` // page, ticket, info; "" if nothing fires
	Summary      string     `json:"summary"`
	Since        *time.Time `json:"since"`
	SinceAtLeast bool       `json:"since_at_least"` // it is older than Since
	Confidence   *float64   `json:"confidence"`
}

// A Replica is one scraped server, or the share of a model on it.
type Replica struct {
	Target    string            `json:"target"`
	Labels    map[string]string `json:"labels"`
	Engine    string            `json:"engine"`
	Version   string            `json:"version"`
	Status    Status            `json:"status"`
	Life      string            `json:"life"`      // starting, serving, slow, drained, lost; "" if unknown
	Pathology string            `json:"pathology"` // "" if none fires or is suspected
	Severity  string            `json:"severity"`
	Reason    string            `json:"reason"` // one sentence
	Since     *time.Time        `json:"since"`
	Now       Numbers           `json:"now"`
	Normal    Numbers           `json:"normal"`
}

// Numbers are the values in a replica's line.
type Numbers struct {
	TTFTP95          *float64 `json:"ttft_p95"`           // s
	ITLP95           *float64 `json:"itl_p95"`            // s
	RequestsRunning  *float64 `json:"requests_running"`   //
	RequestsWaiting  *float64 `json:"requests_waiting"`   //
	KVCacheUsage     *float64 `json:"kv_cache_usage"`     // 0 to 1
	RequestRate      *float64 `json:"request_rate"`       // requests/s
	OutputTokensRate *float64 `json:"output_tokens_rate"` // tokens/s

	// Bounds holds the texts of percentiles that are only known as a wide bucket or a bound, by JSON name. The number
	// is then an estimate within them.
	Bounds map[string]string `json:"bounds,omitempty"`
}

// Text formats one of the numbers: its bound if it has one, "–" if it is unknown.
func (n *Numbers) Text(name string, v *float64, format func(float64) string) string {
	if b := n.Bounds[name]; b != "" {
		return b
	}
	if v == nil {
		return "–"
	}
	return format(*v)
}

// A Summary is an incident in a list and in server-sent events.
type Summary struct {
	ID           string    `json:"id"`
	Model        string    `json:"model"` // "" if the servers do not expose it
	Namespace    string    `json:"namespace"`
	Cluster      string    `json:"cluster"`
	Pathology    string    `json:"pathology"` // the pathology that names it
	Title        string    `json:"title"`     // its name and the first link of its chain
	Severity     string    `json:"severity"`  // the worst so far
	Summary      string    `json:"summary"`   // of the last finding
	Began        time.Time `json:"began"`     // the onset, not when it was noticed
	BeganAtLeast bool      `json:"began_at_least"`
	// ClosesAt is when a quiet incident closes unless it returns.
	Phase    Phase      `json:"phase"`
	ClosesAt *time.Time `json:"closes_at,omitempty"`
	// Affected lists the servers on which it was found last, Servers is the number of the model's servers.
	Affected []string `json:"affected"`
	Servers  int      `json:"servers"`
	Story    string   `json:"story,omitempty"` // the chain, in one line
	// Impact counts the hurt requests since it began; null if unknown.
	Impact *Impact `json:"impact,omitempty"`
	// Events are restarts, scaling, and changes of the title and the advice.
	Advice *Advice `json:"advice,omitempty"`
	Events []Event `json:"events,omitempty"`
	// Since holds the last onset of each pathology that was part of it: a server that dies while it thrashes is down
	// since it died.
	Since map[string]time.Time `json:"since,omitempty"`
	Ended *time.Time           `json:"ended"` // null while it is open
	// QuietSince is since when an open incident has not been found.
	QuietSince   *time.Time       `json:"quiet_since"`
	Targets      []string         `json:"targets"`
	Acknowledged *Acknowledgement `json:"acknowledged"`
	Notes        []Note           `json:"notes"`
	HasRecording bool             `json:"has_recording"`
	LeftOut      int              `json:"recording_left_out,omitempty"` // the number of servers that are not in it
}

// Impact counts the requests in an incident's time whose first token came later than Limit, and those that failed.
type Impact struct {
	Late   float64 `json:"late"`
	Of     float64 `json:"of"`               // requests with a first token, failed ones or, in a hang, those in flight
	Limit  float64 `json:"limit"`            // s: the objective or, without one, twice the usual value
	Failed float64 `json:"failed,omitempty"` // HTTP 5xx
	Slow   *Slow   `json:"slow,omitempty"`
	// BudgetShare is the share of a month's error budget that late or failed requests used, the larger of the two. It
	// is nil without an objective.
	BudgetShare *float64 `json:"budget_share,omitempty"`
	Text        string   `json:"text"` // "212 of 540 requests late, 12 failed in 6 min"
}

// Slow counts slow answers, by their mean time per token; for engines without that metric, slow tokens.
type Slow struct {
	Count float64 `json:"count"`
	All   float64 `json:"all"`
	Of    string  `json:"of"`    // "answers" or "tokens"
	Limit float64 `json:"limit"` // s: the objective or, without one, twice the usual value
}

// Hurt adds up the requests that were hurt.
func (i *Impact) Hurt() float64 {
	sum := i.Late + i.Failed
	if i.Slow != nil {
		sum += i.Slow.Count
	}
	return sum
}

// TextOver writes an impact: "212 of 540 requests late, 12 failed in 6 min". span is the text of its duration.
func (i *Impact) TextOver(span string) string {
	var parts []string
	requests := fmt.Sprintf(" of %.0f requests", i.Of)
	if i.Late > 0 {
		parts, requests = append(parts, fmt.Sprintf("%.0f%s late", i.Late, requests)), ""
	}
	if i.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%.0f%s failed", i.Failed, requests))
	}
	if i.Slow != nil {
		parts = append(parts, fmt.Sprintf("%.0f of %.0f %s slow", i.Slow.Count, i.Slow.All, i.Slow.Of))
	}
	return strings.Join(parts, ", ") + " in " + span
}

// FullName returns CLUSTER/NAMESPACE/MODEL without the empty parts, as a diagnosis names models of equal names.
func FullName(cluster, namespace, model string) string {
	return strings.Join(slices.DeleteFunc([]string{cluster, namespace, model}, func(p string) bool { return p == "" }),
		"/")
}

// Open reports whether an incident goes on.
func (s *Summary) Open() bool { return s.Ended == nil }

// SinceOf returns the last onset of a pathology that was part of the incident.
func (s *Summary) SinceOf(id string) time.Time {
	if since, known := s.Since[id]; known {
		return since
	}
	return s.Began
}

// Scope returns "2 of 3 servers", where it was found last. It returns "" for a single server.
func (s *Summary) Scope() string {
	if s.Servers < 2 {
		return ""
	}
	return fmt.Sprintf("%d of %d servers", len(s.Affected), s.Servers)
}

// PhaseText writes the phase with its times: "failing", or "quiet since …, closes at …".
func (s *Summary) PhaseText() string {
	switch {
	case s.Ended != nil:
		return "closed at " + FormatTime(*s.Ended)
	case s.QuietSince != nil && s.ClosesAt != nil:
		return "quiet since " + FormatTime(*s.QuietSince) + ", closes at " + FormatTime(*s.ClosesAt)
	}
	return string(s.Phase)
}

// FormatTime formats a time of an incident.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Phase is the phase of an incident.
type Phase string

// The phases.
const (
	Failing  Phase = "failing"  // worth a page
	Degraded Phase = "degraded" // worth a ticket
	Quiet    Phase = "quiet"    // not found any more, and not closed yet
	Closed   Phase = "closed"
)

// Advice says what to do about an incident: a stopgap, if there is one, and a cure. It changes only for a reason, which
// is an event.
type Advice struct {
	At        time.Time     `json:"at"` // when it was chosen
	Pathology string        `json:"pathology"`
	Fixes     []catalog.Fix `json:"fixes"`               // headed as catalog.Heads says
	Predicted *time.Time    `json:"predicted,omitempty"` // time of the diagnosis with the prediction
	// Expected is the predicted effect of the cure and, after Applied, the measured one.
	Expected []Expected `json:"expected,omitempty"`
	Applied  *time.Time `json:"applied,omitempty"`
}

// Expected is a quantity that a cure is predicted to change, from Before to a value between Low and High.
type Expected struct {
	Signal string   `json:"signal"`
	Title  string   `json:"title"`
	Unit   string   `json:"unit"`
	Before *float64 `json:"before"`
	Value  float64  `json:"value"` // the most likely one
	Low    float64  `json:"low"`
	High   float64  `json:"high"`
	Came   *float64 `json:"came"` // measured after the cure was applied; null before
}

// Event is something that happened in an incident's time: "restarted", "scaled", "advice" or "title".
type Event struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	Text string    `json:"text"` // one sentence, without a period
}

// An Incident is an incident with its evolution and its diagnosis.
type Incident struct {
	Summary
	Evolution []Turn   `json:"evolution"`                   // of the verdict, in order of time
	Timeline  []Moment `json:"timeline"`                    // Evolution, and the actions of people and machines
	Omitted   int      `json:"evolution_omitted,omitempty"` // turns that were dropped in the middle
	// Diagnosis is the stored sixty.diagnosis/v1, with plots.
	Diagnosis json.RawMessage `json:"diagnosis"`
	Similar   *Similar        `json:"similar"` // the last similar one
	Kept      Kept            `json:"-"`
	// SlowRequests are the slowest requests in its time whose traces are still in memory.
	SlowRequests []trace.Slow `json:"slow_requests,omitempty"`
}

// A Moment is an entry of an incident's timeline.
type Moment struct {
	At     time.Time `json:"at"`
	Health Health    `json:"health"` // from then on; "" for actions
	Text   string    `json:"text"`   // without a period
}

// Kept holds reasons and evidence from the last diagnosis that found the incident.
type Kept struct {
	At       time.Time  `json:"at"`
	Runbook  string     `json:"runbook"`
	Reasons  []string   `json:"reasons"`
	Evidence [][]string `json:"evidence"` // report.EvidenceRows
}

// An Acknowledgement says who looks after an incident.
type Acknowledgement struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// A Note is what somebody wrote on an incident.
type Note struct {
	By   string    `json:"by"`
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// A Turn is a change of the verdict.
type Turn struct {
	At         time.Time `json:"at"`
	ID         string    `json:"id"`
	Severity   string    `json:"severity"`
	Summary    string    `json:"summary"`
	Confidence *float64  `json:"confidence"`
}

// A Similar is a similar earlier incident.
type Similar struct {
	Summary
	Note string `json:"note"` // how the two compare, one sentence
}

// A Runbook is the runbook of a pathology. HTML and Markdown are empty in a list.
type Runbook struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	HTML     string `json:"html,omitempty"`
	Markdown string `json:"markdown,omitempty"`
}

// A WhatIf asks for the effect of a change on a model. A factor of 0 stands for 1, 0 replicas for the present number.
type WhatIf struct {
	Model  string `json:"model"`
	Change Change `json:"change"`
}

// A Change is a change of replicas, load, lengths and flags.
type Change struct {
	Replicas          int               `json:"replicas,omitempty" jsonschema:"number of servers; the present number by default"`
	ArrivalRateFactor float64           `json:"arrival_rate_factor,omitempty" jsonschema:"requests per second, as a multiple of the present rate"`
	PromptFactor      float64           `json:"prompt_factor,omitempty" jsonschema:"prompt lengths, as a multiple of the present"`
	OutputFactor      float64           `json:"output_factor,omitempty" jsonschema:"output lengths, as a multiple of the present"`
	Flags             map[string]string `json:"flags,omitempty" jsonschema:"vLLM flags and their new values, such as --max-num-seqs: 64"`
}

// A WhatIfAnswer is the result of a simulation.
type WhatIfAnswer struct {
	Schema   string   `json:"schema"` // WhatIfSchema
	Basis    string   `json:"basis"`
	Warnings []string `json:"warnings"`
	// Settings are the present number of replicas, and the values of the flags that can be simulated; "" if unknown.
	Settings Settings `json:"settings"`
	// Present and Changed hold what was simulated, by name. An interval is the range of several simulations.
	Present map[string]catalog.Estimate `json:"present"`
	Changed map[string]catalog.Estimate `json:"changed"`
	Command string                      `json:"command"` // simulates the same change, with drawn requests
}

// Settings of a model's servers.
type Settings struct {
	Replicas int               `json:"replicas"`
	Flags    map[string]string `json:"flags"`
}

// An Error is the body of every error.
type Error struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}
