package trace

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/render"
)

// A Row sums up the steps of a request in one phase at one hop. It has the normal time there.
type Row struct {
	Step
	// Normal is in seconds, for a prompt and an answer of this length; nil if unknown.
	Normal *float64 `json:"normal_s"`
	From   string   `json:"normal_from"` // source of Normal
}

// Excess returns the time beyond the normal time, in seconds; the whole time if the normal time is unknown.
func (r *Row) Excess() float64 {
	if r.Normal == nil {
		return r.TookS
	}
	return r.TookS - *r.Normal
}

// Schema names the version of the JSON; fields are only added under it.
const Schema = "sixty.trace/v1"

// A Report says where the time of a request went.
type Report struct {
	Schema       string    `json:"schema"`
	ID           string    `json:"trace_id"`
	Request      string    `json:"request_id"` // the engine's id
	Model        string    `json:"model"`
	Began        time.Time `json:"began"`
	TookS        float64   `json:"took_s"`
	NormalS      *float64  `json:"normal_s"` // sum of the normal times for these lengths, null unless all are known
	Failed       bool      `json:"failed"`
	PromptTokens int       `json:"prompt_tokens"` // 0 if no engine reports it
	OutputTokens int       `json:"output_tokens"`
	Slow         *bool     `json:"slow"` // null if no normal time is known
	Summary      string    `json:"summary"`
	Blame        *Row      `json:"blame"` // the largest excess
	Rows         []Row     `json:"rows"`  // in order of time, one for each hop and phase
	Others       int       `json:"others"`
	Notes        []string  `json:"notes"`

	// The servers' metrics at that time; null and empty without metrics.
	At      *time.Time `json:"at"` // in the middle of the blamed step
	Verdict *Verdict   `json:"verdict"`
	State   []Quantity `json:"state"`
}

// A Verdict is the verdict on the servers at that time.
type Verdict struct {
	ID       string     `json:"id"`
	Severity string     `json:"severity"` // "" if nothing fires
	Summary  string     `json:"summary"`
	Since    *time.Time `json:"since"`
}

// A Quantity is a measurement of a server at that time.
type Quantity struct {
	Target string   `json:"target"`
	Title  string   `json:"title"`
	Unit   string   `json:"unit"`
	Now    *float64 `json:"now"`
	Normal *float64 `json:"normal"`
	// NowText and NormalText are set if only a bucket or a bound is known.
	NowText    string `json:"now_text,omitempty"`
	NormalText string `json:"normal_text,omitempty"`
}

const (
	minCompared = 10  // least number of other requests for a normal time
	slowRatio   = 1.5 // a slow request takes this many times its normal time,
	slowExcess  = 0.1 // and this many seconds more
)

// sumRows sums up the steps of each phase at each hop.
func (t *Trace) sumRows() (out []Row) {
	for _, s := range t.Steps() {
		i := slices.IndexFunc(out, func(r Row) bool {
			return r.Hop == s.Hop && r.Instance == s.Instance && r.Phase == s.Phase
		})
		if i < 0 {
			out = append(out, Row{Step: s})
			continue
		}
		out[i].TookS += s.TookS
		out[i].Tokens = max(out[i].Tokens, s.Tokens)
	}
	return out
}

// A Population is the requests to compare a request with.
type Population []member

type member struct {
	id, route string
	rows      []Row
}

// describeRoute names the services that a request passed, and its model. A request is compared only with requests of
// the same route: on another, a hop may take no time, or the time of another model.
func (t *Trace) describeRoute() string {
	var services []string
	model := ""
	for i := range t.Spans {
		services, model = append(services, t.Spans[i].Service), cmp.Or(model, t.Spans[i].Model)
	}
	slices.Sort(services)
	return fmt.Sprintf("%q %q", model, slices.Compact(services))
}

// maxCompared is about the most traces of a population. If there are more, NewPopulation takes each n-th.
const maxCompared = 300

// NewPopulation makes a population of the traces of requests that did not fail.
func NewPopulation(traces []*Trace) (p Population) {
	every := len(traces)/maxCompared + 1
	for i, t := range traces {
		if i%every != 0 {
			continue
		}
		if t.OfRequest() && !t.Failed() {
			p = append(p, member{t.ID, t.describeRoute(), t.sumRows()})
		}
	}
	return p
}

// Known returns the normal time of a row in seconds by servers' metrics, and its source; false if it is unknown.
type Known func(*Row) (normal float64, source string, ok bool)

// Judge says where the time of a request went. Normal times come from known, which may be nil, or
// else from other requests of the same route.
func Judge(t *Trace, others Population, known Known) *Report {
	r := &Report{
		Schema: Schema, ID: t.ID, Began: t.Began(), TookS: t.Took().Seconds(), Failed: t.Failed(),
		Rows: t.sumRows(), Notes: []string{}, State: []Quantity{},
	}
	for i := range t.Spans {
		r.Request, r.Model = cmp.Or(r.Request, t.Spans[i].Request), cmp.Or(r.Model, t.Spans[i].Model)
	}
	if e := t.Engine(); e != nil {
		r.PromptTokens, r.OutputTokens, r.Request = e.PromptTokens, e.OutputTokens, cmp.Or(e.Request, r.Request)
	}
	var compared [][]Row
	route := t.describeRoute()
	for _, o := range others {
		if o.id != t.ID && o.route == route {
			compared = append(compared, o.rows)
		}
	}
	r.Others = len(compared)
	r.setNormalTimes(compared, known)
	if len(r.Rows) > 0 {
		worst := slices.MaxFunc(r.Rows, func(a, b Row) int { return cmp.Compare(a.Excess(), b.Excess()) })
		r.Blame = &worst
		r.At = new(r.Began.Add(time.Duration((worst.BeginS + worst.TookS/2) * 1e9)))
	}
	r.Summary = r.writeSummary()
	r.Notes = append(r.Notes, t.listNotes()...)
	return r
}

// setNormalTimes sets the rows' normal times. It sets the request's, too, unless a long row has none.
func (r *Report) setNormalTimes(compared [][]Row, known Known) {
	sum, complete := 0.0, len(r.Rows) > 0
	for i := range r.Rows {
		row := &r.Rows[i]
		if known != nil {
			if v, from, ok := known(row); ok {
				row.Normal, row.From = &v, from
			}
		}
		if row.Normal == nil && len(compared) >= minCompared {
			row.Normal = new(typicalTime(row, compared))
			row.From = fmt.Sprintf("median of %d other traces of the same services", len(compared))
		}
		if row.Normal == nil {
			complete = complete && row.TookS < slowExcess
			continue
		}
		sum += *row.Normal
	}
	if complete {
		r.NormalS = &sum
		r.Slow = new(r.TookS > slowRatio*sum && r.TookS > sum+slowExcess)
	}
}

// typicalTime returns the median time of a row in other requests, in proportion to the row's tokens. A request without
// such a row counts as 0.
func typicalTime(row *Row, others [][]Row) float64 {
	var times []float64
	for _, o := range others {
		sum := 0.0
		for i := range o {
			if o[i].Hop == row.Hop && o[i].Phase == row.Phase {
				took := o[i].TookS
				if row.Tokens > 0 && o[i].Tokens > 0 {
					took *= float64(row.Tokens) / float64(o[i].Tokens)
				}
				sum += took
			}
		}
		times = append(times, sum)
	}
	return stat.Median(times)
}

// writeSummary says in a sentence how long the request took, and where most of the excess is.
func (r *Report) writeSummary() string {
	took := render.Seconds(r.TookS)
	if r.Blame == nil {
		return "The trace covers no time."
	}
	b := r.Blame
	doing := "in " + string(b.Phase)
	switch b.Phase {
	case Queue:
		doing = "queued"
	case QueueTransfer:
		doing = "queued or waiting for its KV cache"
	case QueuePrefill:
		doing = "queued or in prefill"
	case Other:
		doing = "not covered by a named span"
	}
	where := fmt.Sprintf("%s of it %s at %s", render.Seconds(b.TookS), doing, b.Hop)
	if b.Normal != nil {
		where += " (normal " + render.Seconds(*b.Normal) + ")"
	}
	switch {
	case r.Slow == nil:
		return fmt.Sprintf("%s, %s. The normal time is not known.", took, where)
	case *r.Slow:
		return fmt.Sprintf("%s instead of the normal %s: %s.", took, render.Seconds(*r.NormalS), where)
	}
	return fmt.Sprintf("%s; %s is normal for this prompt and answer.", took, render.Seconds(*r.NormalS))
}

// maxSkew is how much earlier than its parent a span may begin before a note says that clocks differ.
const maxSkew = int64(time.Millisecond)

// listNotes says what may be missing or wrong in the trace.
func (t *Trace) listNotes() (out []string) {
	index := map[string]*Span{}
	for i := range t.Spans {
		index[t.Spans[i].ID] = &t.Spans[i]
	}
	lost, early := 0, int64(0)
	for i := range t.Spans {
		s := &t.Spans[i]
		switch above := index[s.Parent]; {
		case above != nil:
			early = max(early, above.Start-s.Start)
		case s.Parent != "":
			lost++
		}
	}
	if lost > 0 {
		out = append(out, fmt.Sprintf("%s: the caller exported no span, or it is missing here",
			render.Plural(lost, "span without its parent")))
	}
	if early > maxSkew {
		out = append(out, fmt.Sprintf("clocks differ by at least %s: a span begins before its parent",
			render.Seconds(float64(early)/1e9)))
	}
	if t.Dropped > 0 {
		out = append(out, fmt.Sprintf("%d spans beyond the first %d were left out", t.Dropped, maxTraceSpans))
	}
	if !slices.ContainsFunc(t.Spans, func(s Span) bool { return s.isEngine() }) {
		out = append(out, "no span of an inference server: "+
			"start vLLM with --otlp-traces-endpoint, SGLang with --enable-trace")
	}
	return out
}
