package trace

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/render"
)

// A Row is the time of a request in one phase at one hop, beside what is normal there.
type Row struct {
	Step
	// Normal is in seconds, for a prompt and an answer of this length; nil where it is not known.
	Normal *float64 `json:"normal_s"`
	From   string   `json:"normal_from"` // what says so
}

// Excess is the time beyond what is normal, in seconds; all of it where that is not known.
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
	Request      string    `json:"request_id"` // as the engine calls it
	Model        string    `json:"model"`
	Began        time.Time `json:"began"`
	TookS        float64   `json:"took_s"`
	NormalS      *float64  `json:"normal_s"` // sum of what is normal for these lengths, null unless all is known
	Failed       bool      `json:"failed"`
	PromptTokens int       `json:"prompt_tokens"` // 0 where no engine says them, as the next
	OutputTokens int       `json:"output_tokens"`
	Slow         *bool     `json:"slow"` // null where nothing says what is normal
	Summary      string    `json:"summary"`
	Blame        *Row      `json:"blame"` // where most of the time beyond normal went
	Rows         []Row     `json:"rows"`  // in time, each hop and phase once
	Others       int       `json:"others"`
	Notes        []string  `json:"notes"`

	// What the servers' metrics say of the moment; null and empty without any.
	At      *time.Time `json:"at"` // in the middle of what is to blame
	Verdict *Verdict   `json:"verdict"`
	State   []Quantity `json:"state"`
}

// A Verdict is that of the moment.
type Verdict struct {
	ID       string     `json:"id"`
	Severity string     `json:"severity"` // "" where nothing fires
	Summary  string     `json:"summary"`
	Since    *time.Time `json:"since"`
}

// A Quantity of a server at the moment.
type Quantity struct {
	Target string   `json:"target"`
	Title  string   `json:"title"`
	Unit   string   `json:"unit"`
	Now    *float64 `json:"now"`
	Normal *float64 `json:"normal"`
	// NowText and NormalText are how they are written of which only a bucket or a bound is known.
	NowText    string `json:"now_text,omitempty"`
	NormalText string `json:"normal_text,omitempty"`
}

// fewest other requests say what is normal, and a request is slow that took this many times as long
// as normal, and this much longer, in seconds: nobody asks about less.
const (
	fewest = 10
	slower = 1.5
	longer = 0.1
)

// rows sums the steps of each hop and phase.
func (t *Trace) rows() (out []Row) {
	for _, s := range t.Steps() {
		i := slices.IndexFunc(out, func(r Row) bool { return r.Hop == s.Hop && r.Instance == s.Instance && r.Phase == s.Phase })
		if i < 0 {
			out = append(out, Row{Step: s})
			continue
		}
		out[i].TookS += s.TookS
		out[i].Tokens = max(out[i].Tokens, s.Tokens)
	}
	return out
}

// A Population is the requests that others are compared with.
type Population []member

type member struct {
	id, way string
	rows    []Row
}

// way names the services that a request passed and the model that it asked for. Requests are compared
// with those of the same way only: in others a hop may take no time at all, or another model's.
func (t *Trace) way() string {
	var services []string
	model := ""
	for i := range t.Spans {
		services, model = append(services, t.Spans[i].Service), cmp.Or(model, t.Spans[i].Model)
	}
	slices.Sort(services)
	return fmt.Sprintf("%q %q", model, slices.Compact(services))
}

// mostCompared bounds a population: of more traces only each second, third and so on is in it.
const mostCompared = 300

// NewPopulation is that of some traces, without those that failed and what is no request.
func NewPopulation(traces []*Trace) (p Population) {
	every := len(traces)/mostCompared + 1
	for i, t := range traces {
		if i%every != 0 {
			continue
		}
		if t.OfRequest() && !t.Failed() {
			p = append(p, member{t.ID, t.way(), t.rows()})
		}
	}
	return p
}

// Known says what servers' metrics call normal for a row, in seconds, and in whose words.
type Known func(*Row) (normal float64, from string, ok bool)

// Judge says where the time of a request went. What is normal say others of its kind; known, which may
// be nil, goes before them.
func Judge(t *Trace, others Population, known Known) *Report {
	r := &Report{
		Schema: Schema, ID: t.ID, Began: t.Began(), TookS: t.Took().Seconds(), Failed: t.Failed(), Rows: t.rows(), Notes: []string{}, State: []Quantity{},
	}
	for i := range t.Spans {
		r.Request, r.Model = cmp.Or(r.Request, t.Spans[i].Request), cmp.Or(r.Model, t.Spans[i].Model)
	}
	if e := t.Engine(); e != nil {
		r.PromptTokens, r.OutputTokens, r.Request = e.PromptTokens, e.OutputTokens, cmp.Or(e.Request, r.Request)
	}
	var compared [][]Row
	way := t.way()
	for _, o := range others {
		if o.id != t.ID && o.way == way {
			compared = append(compared, o.rows)
		}
	}
	r.Others = len(compared)
	sum, complete := 0.0, len(r.Rows) > 0
	for i := range r.Rows {
		row := &r.Rows[i]
		if known != nil {
			if v, from, ok := known(row); ok {
				row.Normal, row.From = &v, from
			}
		}
		if row.Normal == nil && len(compared) >= fewest {
			row.Normal, row.From = new(typical(row, compared)), fmt.Sprintf("median of %d other traces of the same services", len(compared))
		}
		if row.Normal == nil {
			complete = complete && row.TookS < longer
			continue
		}
		sum += *row.Normal
	}
	if complete {
		r.NormalS = &sum
		r.Slow = new(r.TookS > slower*sum && r.TookS > sum+longer)
	}
	if len(r.Rows) > 0 {
		worst := slices.MaxFunc(r.Rows, func(a, b Row) int { return cmp.Compare(a.Excess(), b.Excess()) })
		r.Blame = &worst
		r.At = new(r.Began.Add(time.Duration((worst.BeginS + worst.TookS/2) * 1e9)))
	}
	r.Summary = r.summary()
	r.Notes = append(r.Notes, t.notes()...)
	return r
}

// typical is the median of a row in other requests, which is 0 where most have none, for as many tokens.
func typical(row *Row, others [][]Row) float64 {
	var took []float64
	for _, o := range others {
		seconds := 0.0
		for i := range o {
			if o[i].Hop == row.Hop && o[i].Phase == row.Phase {
				seconds += o[i].TookS
				if row.Tokens > 0 && o[i].Tokens > 0 {
					seconds *= float64(row.Tokens) / float64(o[i].Tokens)
				}
			}
		}
		took = append(took, seconds)
	}
	return stat.Median(took)
}

func (r *Report) summary() string {
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

// skew is how much earlier than its cause a span may begin before clocks are said to differ.
const skew = int64(time.Millisecond)

// notes say what makes the picture incomplete.
func (t *Trace) notes() (out []string) {
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
		out = append(out, fmt.Sprintf("%s: the caller exported no span, or it is missing here", render.Plural(lost, "span without its parent")))
	}
	if early > skew {
		out = append(out, fmt.Sprintf("clocks differ by at least %s: a span begins before its parent", render.Seconds(float64(early)/1e9)))
	}
	if t.Left > 0 {
		out = append(out, fmt.Sprintf("%d spans beyond the first %d were left out", t.Left, Largest))
	}
	if !slices.ContainsFunc(t.Spans, func(s Span) bool { return s.engine() }) {
		out = append(out, "no span of an inference server: start vLLM with --otlp-traces-endpoint, SGLang with --enable-trace")
	}
	return out
}
