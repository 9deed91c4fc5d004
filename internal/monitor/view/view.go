// Package view holds what the monitor says over HTTP, as JSON: docs/api.md is the
// contract, its names are the tags here. The server fills these types, the page shows
// them. Times are UTC, durations seconds, ratios 0 to 1; a number that is not known is
// null, never 0.
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

// Schemas of the answers that have one. Fields are added under the same name.
const (
	OverviewSchema = "sixty.overview/v1"
	WhatIfSchema   = "sixty.whatif/v1"
)

// State says whether the overview can be believed.
type State string

// States of the monitor. In all but OK nothing may be shown as healthy.
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
	Pending Status = "pending" // somebody waits, or a fault is suspected: not certain yet
	Unknown Status = "unknown"
	Healthy Status = "ok"
	Idle    Status = "idle"
)

// Health is the state that people are shown, on every surface: one of five.
type Health string

// The five states.
const (
	HealthFailing   Health = "failing"   // worth a page
	HealthDegraded  Health = "degraded"  // worth a ticket
	HealthUncertain Health = "uncertain" // not certain yet: somebody may be hurt
	HealthUnknown   Health = "unknown"
	HealthHealthy   Health = "healthy"
)

// Healths are the states, the worst first.
var Healths = []Health{HealthFailing, HealthDegraded, HealthUncertain, HealthUnknown, HealthHealthy}

// HealthOf is the state of a status with the severity of its finding: "page", "ticket" or "info".
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

	// Anomalies are of the plain detector, where it is switched on: the most unusual first, and then those that are
	// over.
	Anomalies []Anomaly `json:"anomalies,omitzero"`
}

// An Anomaly is a value of a replica that is unusual by itself, or two that rise together.
type Anomaly struct {
	At        time.Time  `json:"at"`              // time of the first evaluation with it
	Ended     *time.Time `json:"ended,omitempty"` // time of the first evaluation without it
	Target    string     `json:"target"`
	Metric    string     `json:"metric"`
	Text      string     `json:"text"`
	Z         *float64   `json:"z"`         // standard deviations from the mean; null of two that rise together
	Pathology string     `json:"pathology"` // possible cause; empty for an anomaly without one
}

// Continues reports whether another one is the same, a moment later or earlier.
func (a Anomaly) Continues(b Anomaly) bool {
	return a.Ended == nil && b.Ended == nil && a.Target == b.Target && a.Metric == b.Metric
}

// Size is how unusual it is, in standard deviations; one with a possible cause is more unusual than any other.
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
	Name      string    `json:"name"`   // with what tells it apart: "qwen in prod on eu-west-1"
	Health    Health    `json:"health"` // that people are shown
	Title     string    `json:"title"`  // how it is and where, in one sentence
	Text      string    `json:"text"`   // what is found, in one or two more
	Verdict   Verdict   `json:"verdict"`
	Advice    string    `json:"advice,omitempty"` // what to do first, in one sentence
	Incident  *string   `json:"incident"`         // the id of the open one
	Phase     Phase     `json:"phase,omitempty"`  // phase of the incident
	Replicas  []Replica `json:"replicas"`         // by name
}

// IsQuiet reports whether nothing of the model's open incident is found now: at most something that is worth knowing,
// such as the restart that ended it.
func (m *Model) IsQuiet() bool {
	return m.Phase == Quiet && (m.Verdict.Status != Firing || m.Verdict.Severity == catalog.Info.String())
}

// Tell sets the name, the health, the title and the text of a model for every surface, from its verdict, the verdict's
// name, and the number of affected replicas. A failing model does not become healthy at once.
func (m *Model) Tell(called string, on, of int) {
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
	m.Text = render.Sentence(strings.TrimPrefix(m.Verdict.Summary, called+": "))
	if m.Health == HealthHealthy && (m.Phase == Failing || m.Phase == Degraded) {
		m.Health = Health(m.Phase)
	}
	switch {
	case m.IsQuiet() && m.Health != HealthUncertain:
		m.Title = m.Name + " is quiet, and its incident is not closed yet"
	case m.Verdict.Status == Firing && of > 1 && on == of:
		m.Title = fmt.Sprintf("%s on all %d replicas of %s", called, of, m.Name)
	case m.Verdict.Status == Firing && of > 1 && on > 0:
		m.Title = fmt.Sprintf("%s on %d of %d replicas of %s", called, on, of, m.Name)
	case m.Verdict.Status == Firing:
		m.Title = called + " on " + m.Name
	case m.Health == HealthUncertain:
		m.Title = "Not certain yet whether " + m.Name + " is healthy"
	case m.Health == HealthUnknown:
		m.Title = m.Name + " is in an unknown state"
	case m.Health != HealthHealthy:
		m.Title = m.Name + " is " + string(m.Health) + ": its incident is open"
	case m.Verdict.ID == "idle":
		m.Title = m.Name + " is idle"
	default:
		m.Title = m.Name + " is healthy"
	}
}

// Doubt lets no model be healthy that is not known to be, where the overview is not to be believed.
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
	Severity     string     `json:"severity"` // page, ticket, info; empty where nothing fires
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
	Life      string            `json:"life"`      // starting, serving, slow, drained, lost; empty where nothing tells
	Pathology string            `json:"pathology"` // empty where none fires or is suspected
	Severity  string            `json:"severity"`
	Reason    string            `json:"reason"` // one sentence
	Since     *time.Time        `json:"since"`
	Now       Numbers           `json:"now"`
	Normal    Numbers           `json:"normal"`
}

// Numbers are the values of a replica that are shown at a glance.
type Numbers struct {
	TTFTP95          *float64 `json:"ttft_p95"`           // s
	ITLP95           *float64 `json:"itl_p95"`            // s
	RequestsRunning  *float64 `json:"requests_running"`   //
	RequestsWaiting  *float64 `json:"requests_waiting"`   //
	KVCacheUsage     *float64 `json:"kv_cache_usage"`     // 0 to 1
	RequestRate      *float64 `json:"request_rate"`       // requests/s
	OutputTokensRate *float64 `json:"output_tokens_rate"` // tokens/s

	// Bounds are how percentiles are written of which only a wide bucket or a bound is known,
	// by their names here: the number is then a guess within them.
	Bounds map[string]string `json:"bounds,omitempty"`
}

// Text is how one of the numbers is written; format is for those that were measured.
func (n *Numbers) Text(name string, v *float64, format func(float64) string) string {
	if b := n.Bounds[name]; b != "" {
		return b
	}
	if v == nil {
		return "–"
	}
	return format(*v)
}

// A Summary is an incident in a list, and in its event.
type Summary struct {
	ID           string    `json:"id"`
	Model        string    `json:"model"` // "" where the servers do not say which they serve
	Namespace    string    `json:"namespace"`
	Cluster      string    `json:"cluster"`
	Pathology    string    `json:"pathology"` // the worst that was found, of equals the cause, and then the first
	Title        string    `json:"title"`     // that, and the first link of its chain: decided once for a cause
	Severity     string    `json:"severity"`  // the worst
	Summary      string    `json:"summary"`   // the last summary
	Began        time.Time `json:"began"`     // by the judgement, not when it was noticed
	BeganAtLeast bool      `json:"began_at_least"`
	// Phase is where it stands, and ClosesAt when one that is quiet is over unless it comes back.
	Phase    Phase      `json:"phase"`
	ClosesAt *time.Time `json:"closes_at,omitempty"`
	// Affected are the servers on which it was found last, of so many that the model has.
	Affected []string `json:"affected"`
	Servers  int      `json:"servers"`
	Story    string   `json:"story,omitempty"` // how it came about, in one line
	// Impact is what users felt of it since it began, null where that is not known.
	Impact *Impact `json:"impact,omitempty"`
	// Advice is what to do, chosen once; Events are what people and machines did, and how the advice changed.
	Advice *Advice `json:"advice,omitempty"`
	Events []Event `json:"events,omitempty"`
	// Since is when each pathology that was part of it began, the last time: a server that dies while it
	// thrashes is down since it died.
	Since map[string]time.Time `json:"since,omitempty"`
	Ended *time.Time           `json:"ended"` // null while it is open
	// since when nothing of an open incident is found; it ends if that lasts
	QuietSince   *time.Time       `json:"quiet_since"`
	Targets      []string         `json:"targets"`
	Acknowledged *Acknowledgement `json:"acknowledged"`
	Notes        []Note           `json:"notes"`
	HasRecording bool             `json:"has_recording"`
	LeftOut      int              `json:"recording_left_out,omitempty"` // servers that are not in it
}

// Impact counts the requests of an incident's time whose first token came later than Limit, and that failed.
type Impact struct {
	Late   float64 `json:"late"`
	Of     float64 `json:"of"`               // requests with a first token, failed ones or, in a hang, those in flight
	Limit  float64 `json:"limit"`            // s: the objective or, without one, twice the usual value
	Failed float64 `json:"failed,omitempty"` // HTTP 5xx
	Slow   *Slow   `json:"slow,omitempty"`
	// BudgetShare is the part of a month's error budget that late or failed ones are, the larger, where there is an
	// objective.
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

// Say tells an impact over a time.
func (i *Impact) Say(span string) string {
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

// FullName is how a diagnosis names a model where several deployments serve one of that name.
func FullName(cluster, namespace, model string) string {
	return strings.Join(slices.DeleteFunc([]string{cluster, namespace, model}, func(p string) bool { return p == "" }),
		"/")
}

// Open reports whether an incident goes on.
func (s *Summary) Open() bool { return s.Ended == nil }

// SinceOf is when a pathology that was part of the incident began, the last time.
func (s *Summary) SinceOf(id string) time.Time {
	if since, known := s.Since[id]; known {
		return since
	}
	return s.Began
}

// Scope says on how many of the model's servers it was found last; it is empty where there is one.
func (s *Summary) Scope() string {
	if s.Servers < 2 {
		return ""
	}
	return fmt.Sprintf("%d of %d servers", len(s.Affected), s.Servers)
}

// Stands says where an incident stands: "failing", or "quiet since …, closes at …".
func (s *Summary) Stands() string {
	switch {
	case s.Ended != nil:
		return "closed at " + FormatTime(*s.Ended)
	case s.QuietSince != nil && s.ClosesAt != nil:
		return "quiet since " + FormatTime(*s.QuietSince) + ", closes at " + FormatTime(*s.ClosesAt)
	}
	return string(s.Phase)
}

// FormatTime writes a moment of an incident.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Phase is where an incident stands.
type Phase string

// The phases.
const (
	Failing  Phase = "failing"  // worth a page
	Degraded Phase = "degraded" // worth a ticket
	Quiet    Phase = "quiet"    // nothing of it is found any more, and it is not closed yet
	Closed   Phase = "closed"
)

// Advice says what to do about an incident: a fix that stops the bleeding, if there is one, and a cure. It changes
// only for a reason, which is an event.
type Advice struct {
	At        time.Time     `json:"at"` // when it was chosen
	Pathology string        `json:"pathology"`
	Fixes     []catalog.Fix `json:"fixes"`               // headed as catalog.Heads says
	Predicted *time.Time    `json:"predicted,omitempty"` // of the diagnosis whose prediction Expected is
	// Expected is the predicted effect of the cure and, after Applied, the measured one.
	Expected []Expected `json:"expected,omitempty"`
	Applied  *time.Time `json:"applied,omitempty"`
}

// Expected is one quantity that a cure is predicted to change: within Low and High, from Before.
type Expected struct {
	Signal string   `json:"signal"`
	Title  string   `json:"title"`
	Unit   string   `json:"unit"`
	Before *float64 `json:"before"`
	Value  float64  `json:"value"` // the most likely one
	Low    float64  `json:"low"`
	High   float64  `json:"high"`
	Came   *float64 `json:"came"` // null until it was applied and is measured
}

// Event is something that happened in an incident's time: "restarted", "scaled", "advice" or "title".
type Event struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	Text string    `json:"text"` // one sentence, without a period
}

// An Incident is one, whole.
type Incident struct {
	Summary
	Evolution []Turn   `json:"evolution"`                   // of the verdict, in time
	Timeline  []Moment `json:"timeline"`                    // that, and what people and machines did
	Omitted   int      `json:"evolution_omitted,omitempty"` // turns in the middle that are too many to be kept
	// sixty.diagnosis/v1 with plots, of the moment that is kept
	Diagnosis json.RawMessage `json:"diagnosis"`
	Similar   *Similar        `json:"similar"` // the last one like it
	Kept      Kept            `json:"-"`
	// SlowRequests are the slowest of its time whose traces are still kept.
	SlowRequests []trace.Slow `json:"slow_requests,omitempty"`
}

// A Moment is something of an incident's time.
type Moment struct {
	At     time.Time `json:"at"`
	Health Health    `json:"health"` // that was found from then on; empty of what people and machines did
	Text   string    `json:"text"`   // without a period
}

// Kept is the text about an incident's pathology in the last diagnosis that found it.
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

// A Turn is a verdict that replaced another one.
type Turn struct {
	At         time.Time `json:"at"`
	ID         string    `json:"id"`
	Severity   string    `json:"severity"`
	Summary    string    `json:"summary"`
	Confidence *float64  `json:"confidence"`
}

// A Similar incident came before.
type Similar struct {
	Summary
	Note string `json:"note"` // how the two compare, one sentence
}

// A Runbook is one pathology's; HTML and Markdown are empty in a list.
type Runbook struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	HTML     string `json:"html,omitempty"`
	Markdown string `json:"markdown,omitempty"`
}

// A WhatIf asks what a change would do to a model. A factor of 0 is taken for 1, Replicas
// of 0 for those that there are.
type WhatIf struct {
	Model  string `json:"model"`
	Change Change `json:"change"`
}

// A Change is of load, lengths, replicas and flags.
type Change struct {
	Replicas          int               `json:"replicas,omitempty" jsonschema:"number of servers; the present number by default"`
	ArrivalRateFactor float64           `json:"arrival_rate_factor,omitempty" jsonschema:"requests per second, as a multiple of the present rate"`
	PromptFactor      float64           `json:"prompt_factor,omitempty" jsonschema:"prompt lengths, as a multiple of the present"`
	OutputFactor      float64           `json:"output_factor,omitempty" jsonschema:"output lengths, as a multiple of the present"`
	Flags             map[string]string `json:"flags,omitempty" jsonschema:"vLLM flags and their new values, such as --max-num-seqs: 64"`
}

// A WhatIfAnswer is the simulation's.
type WhatIfAnswer struct {
	Schema   string   `json:"schema"` // WhatIfSchema
	Basis    string   `json:"basis"`
	Warnings []string `json:"warnings"`
	// Settings are the present settings that a reader may change: the replicas, and the values of the flags that can be
	// simulated. An unknown value is empty.
	Settings Settings `json:"settings"`
	// Present and Changed lack what was not simulated. An interval is the least and the largest of several simulations.
	Present map[string]catalog.Estimate `json:"present"`
	Changed map[string]catalog.Estimate `json:"changed"`
	Command string                      `json:"command"` // that simulates the same change, with requests that are drawn
}

// Settings of a model's servers.
type Settings struct {
	Replicas int               `json:"replicas"`
	Flags    map[string]string `json:"flags"`
}

// An Error is the body of every answer that is one.
type Error struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}
