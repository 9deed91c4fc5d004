// Package trace says where the time of one request went, from the spans that the servers on its way
// exported by OpenTelemetry: how long it waited, was prefilled, transferred and decoded at each hop, what
// is normal there, and which hop is to blame.
//
// Of a span's attributes only those that are listed here are read: prompts and answers, which some
// programs write into others, are never kept. The package does no I/O of its own and reads no clock;
// package trace/collected reads files and servers, and keeps what a monitor is sent.
package trace

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A Span is what one program did for a request. Times are Unix nanoseconds.
type Span struct {
	Trace, ID, Parent string // hexadecimal
	Service, Instance string
	Name              string
	Start, End        int64
	Failed            bool
	Server            bool // it answers somebody's request

	// What an engine says of the request as a whole; zero where it does not.
	Request, Model             string
	Queue, Prefill, Decode     float64 // seconds
	First                      float64 // seconds to the first token, as Dynamo's frontend says
	PromptTokens, OutputTokens int
	hasPhases                  bool // it says how long it queued, as vLLM does
}

// bytes is about what a span takes in memory.
func (s *Span) bytes() int {
	return 232 + len(s.Trace) + len(s.ID) + len(s.Parent) + len(s.Service) + len(s.Instance) + len(s.Name) + len(s.Request) + len(s.Model)
}

// A Phase is what a request does at a hop.
type Phase string

// The phases.
const (
	Queue    Phase = "queue"
	Prefill  Phase = "prefill"
	Transfer Phase = "KV transfer"
	// QueueTransfer is the queue of a server that decodes what another one has prefilled: vLLM
	// schedules a request when its KV cache has come, and counts both as time in the queue
	// (vllm/v1/core/sched/scheduler.py@v0.32.0: WAITING_FOR_REMOTE_KVS comes before SCHEDULED).
	QueueTransfer Phase = "queue, KV transfer"
	QueuePrefill  Phase = "queue, prefill" // where only the moment of the first token is told
	Decode        Phase = "decode"
	Routing       Phase = "routing"
	Forwarding    Phase = "forwarding" // to the server behind it and back
	Other         Phase = "other"      // tokenizing, templates, detokenizing, HTTP
)

// Phases of spans, by name: of a gateway that sends some (as sixty's did), and of llm-d's router and
// sidecar (pkg/epp and pkg/sidecar, 2025 and 2026, the latter with a prefix for a time). The span of
// vLLM, llm_request (vllm/v1/engine/output_processor.py@v0.32.0), says them in attributes. Dynamo's
// frontend (1.6.1) has its router's; http-request holds all and tells when the first token came.
var phases = map[string]Phase{
	"queue": Queue, "prefill": Prefill, "decode": Decode,
	"gateway.request_orchestration": Routing, "gateway.director.handle_request": Routing, "gateway.scheduler.schedule": Routing,
	"kv_router.select_worker": Routing, "kv_router.schedule": Queue,
}

// dynamoWorker is the span of a request at one of Dynamo's workers, which holds those of its engine.
const dynamoWorker = "handle_payload"

// enginePhases are those of SGLang (srt/observability/req_time_stats.py, 0.5.10).
var enginePhases = map[string]Phase{
	"prefill_waiting": Queue, "decode_waiting": Queue, "prefill_forward": Prefill, "chunked_prefill": Prefill,
	"prefill_bootstrap": Transfer, "prefill_transfer_kv_cache": Transfer, "decode_bootstrap": Transfer, "decode_transferred": Transfer,
	"decode_forward": Decode, "decode_loop": Decode,
}

var unprefixed = strings.NewReplacer("llm_d.pd_proxy.", "", "pd_sidecar.", "")

func (s *Span) phase() Phase { return cmp.Or(enginePhases[s.Name], phases[unprefixed.Replace(s.Name)]) }

// engine reports whether the span is an inference server's.
func (s *Span) engine() bool {
	return s.hasPhases || enginePhases[s.Name] != "" || s.Name == dynamoWorker
}

// Largest is how many spans of a trace are looked at; others are left out.
const Largest = 500

// A Trace is the spans of one request.
type Trace struct {
	ID    string
	Spans []Span // in the order in which they began
	Left  int    // spans beyond Largest
}

// Group makes traces of spans, the one that began first at the front.
func Group(spans []Span) []*Trace {
	byID := map[string]*Trace{}
	var out []*Trace
	for _, s := range spans {
		t := byID[s.Trace]
		if t == nil {
			t = &Trace{ID: s.Trace}
			byID[s.Trace] = t
			out = append(out, t)
		}
		if len(t.Spans) == Largest {
			t.Left++
			continue
		}
		t.Spans = append(t.Spans, s)
	}
	for _, t := range out {
		slices.SortStableFunc(t.Spans, func(a, b Span) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End)) })
		t.Spans = slices.CompactFunc(t.Spans, func(a, b Span) bool { return a.ID == b.ID && a.Start == b.Start }) // sent twice
	}
	slices.SortStableFunc(out, func(a, b *Trace) int { return cmp.Compare(a.Spans[0].Start, b.Spans[0].Start) })
	return out
}

// Began and Took are those of the request as a whole.
func (t *Trace) Began() time.Time { return time.Unix(0, t.Spans[0].Start).UTC() }

// Took is how long the request took.
func (t *Trace) Took() time.Duration {
	end := t.Spans[0].End
	for i := range t.Spans {
		end = max(end, t.Spans[i].End)
	}
	return time.Duration(end - t.Spans[0].Start)
}

// Failed reports whether a program said that the request failed.
func (t *Trace) Failed() bool {
	return slices.ContainsFunc(t.Spans, func(s Span) bool { return s.Failed })
}

// OfRequest reports whether the trace is of a request: vLLM exports how it loads a model, too.
func (t *Trace) OfRequest() bool {
	return slices.ContainsFunc(t.Spans, func(s Span) bool { return s.Server || s.phase() != "" || s.hasPhases })
}

// Engine is the span of an inference server that says most of the request: the one that decoded; nil
// where there is none.
func (t *Trace) Engine() (found *Span) {
	for i := range t.Spans {
		if s := &t.Spans[i]; s.OutputTokens > 0 && (found == nil || s.hasPhases && (!found.hasPhases || s.OutputTokens >= found.OutputTokens)) {
			found = s
		}
	}
	return found
}

// A Step is a time in which a request was in one phase at one hop. Steps follow each other, and add up
// to the time of the request.
type Step struct {
	Hop      string  `json:"hop"` // the service, and what it did where prefill and decode are apart
	Instance string  `json:"instance"`
	Phase    Phase   `json:"phase"`
	Engine   bool    `json:"engine"`  // of an inference server
	BeginS   float64 `json:"begin_s"` // after the request began
	TookS    float64 `json:"took_s"`
	// Tokens are those that the time grows with: of the prompt in a prefill, of the answer beyond the
	// first in a decode, else 0.
	Tokens int `json:"tokens"`
}

// unknownService is what OpenTelemetry calls a program that nobody named.
const unknownService = "unknown_service"

// Steps divides the time of the request: each moment belongs to the innermost span that is open.
func (t *Trace) Steps() []Step {
	spans := t.expanded()
	bounds := make([]int64, 0, 2*len(spans))
	for i := range spans {
		bounds = append(bounds, spans[i].Start, spans[i].End)
	}
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	hasEngine := slices.ContainsFunc(t.Spans, func(s Span) bool { return s.engine() })
	var out []Step
	for i := 1; i < len(bounds); i++ {
		from, to := bounds[i-1], bounds[i]
		step := Step{Hop: "not traced", Phase: Other}
		var inner *part
		for k := range spans {
			if p := &spans[k]; p.Start <= from && p.End >= to && (inner == nil || p.depth >= inner.depth) {
				inner = p
			}
		}
		if inner != nil {
			step = inner.step(hasEngine)
		}
		step.BeginS, step.TookS = float64(from-t.Spans[0].Start)/1e9, float64(to-from)/1e9
		if n := len(out) - 1; n >= 0 && out[n].Hop == step.Hop && out[n].Instance == step.Instance && out[n].Phase == step.Phase {
			out[n].TookS += step.TookS
			continue
		}
		out = append(out, step)
	}
	return out
}

// A part is a span, or a phase that a span tells in its attributes, and how deep it lies in the trace.
type part struct {
	*Span
	Start, End int64
	phase      Phase // of the span or of what it lies in at the same hop
	role       Phase // Prefill or Decode, where a proxy sent the request to be prefilled, then decoded
	depth      int
	engine     bool
}

// expanded are the spans of a trace, with the phases that engines tell in attributes as spans of their own.
func (t *Trace) expanded() []part {
	index := make(map[string]int, len(t.Spans))
	for i := range t.Spans {
		index[t.Spans[i].ID] = i
	}
	parts := make([]part, len(t.Spans))
	for i := range t.Spans {
		s := &t.Spans[i]
		p := part{Span: s, Start: s.Start, End: s.End, phase: s.phase(), engine: s.engine()}
		at := s
		for p.depth < len(t.Spans) { // a parent that is its own descendant ends here too
			k, ok := index[at.Parent]
			if !ok || at.Parent == at.ID {
				break
			}
			at, p.depth = &t.Spans[k], p.depth+1
			above := at.phase()
			switch same := at.Service == s.Service && at.Instance == s.Instance; {
			case same && p.phase == "":
				p.phase = above
			case !same && p.role == "" && !at.engine() && (above == Prefill || above == Decode):
				p.role = above
			}
			p.engine = p.engine || at.engine() && at.Service == s.Service
		}
		parts[i] = p
	}
	n := len(parts)
	prefillApart := slices.ContainsFunc(parts, func(p part) bool { return p.engine && p.role == Prefill })
	if !prefillApart { // a proxy that only measured
		for i := range parts {
			parts[i].role = ""
		}
	}
	for _, p := range parts[:n] {
		if !p.hasPhases {
			continue
		}
		queue := Queue
		if p.role == Decode {
			queue = QueueTransfer
		}
		// The end is the surest: it is when the last token came. What comes before the queue is the API server's.
		at := p.End - nanoseconds(p.Queue+p.Prefill+p.Decode)
		for _, x := range []struct {
			phase Phase
			took  float64
		}{{queue, p.Queue}, {Prefill, p.Prefill}, {Decode, p.Decode}} {
			q := p
			q.Start, q.phase, q.depth = max(at, p.Start), x.phase, p.depth+1
			at += nanoseconds(x.took)
			if q.End = min(at, p.End); q.End > q.Start {
				parts = append(parts, q)
			}
		}
	}
	return append(parts, t.atWorkers(parts[:n])...)
}

// atWorkers divides the time at Dynamo's workers by the first token. An engine's own spans lie deeper.
func (t *Trace) atWorkers(parts []part) (out []part) {
	i := slices.IndexFunc(t.Spans, func(s Span) bool { return s.First > 0 })
	if i < 0 {
		return nil
	}
	front := &t.Spans[i]
	first := front.Start + nanoseconds(front.First)
	for _, p := range parts {
		if p.Name != dynamoWorker {
			continue
		}
		said := *p.Span
		said.PromptTokens, said.OutputTokens = front.PromptTokens, front.OutputTokens
		before, after := p, p
		before.Span, before.phase, before.End = &said, QueuePrefill, min(p.End, first)
		after.Span, after.phase, after.Start = &said, Decode, max(p.Start, first)
		for _, q := range []part{before, after} {
			if q.End > q.Start {
				out = append(out, q)
			}
		}
	}
	return out
}

// nanoseconds of a time that a program tells; longer than a day is no time of a request.
func nanoseconds(seconds float64) int64 { return int64(min(max(seconds, 0), 86400) * 1e9) }

func (p *part) step(hasEngine bool) Step {
	s := Step{Hop: p.Service, Instance: p.Instance, Phase: cmp.Or(p.phase, Other), Engine: p.engine}
	if p.hasPhases && strings.HasPrefix(p.Service, unknownService) {
		s.Hop = "vllm"
	}
	if p.role != "" && p.engine {
		s.Hop += " (" + string(p.role) + ")"
	}
	if !p.engine && hasEngine && (s.Phase == Prefill || s.Phase == Decode) {
		s.Phase = Forwarding
	}
	switch s.Phase {
	case Prefill:
		s.Tokens = p.PromptTokens
	case Decode:
		s.Tokens = max(0, p.OutputTokens-1)
	}
	return s
}
