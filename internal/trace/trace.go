// Package trace says where the time of one request went, from the OpenTelemetry spans of the servers that it passed:
// how long it was queued, prefilled, transferred and decoded at each hop, how long is normal there, and which hop is to
// blame.
//
// The data, in the order in which they are made:
//
//   - Spans come from Read, JSON or Proto (read.go). A Ring keeps the latest of them in a monitor.
//   - Group makes a Trace of the spans of each request.
//   - Trace.Steps divides the time of the request into Steps. Each moment belongs to the innermost open span, which
//     gives the hop and the Phase. vLLM has its phases in attributes of one span, SGLang in spans of their own, and
//     Dynamo's are divided at the time of the first token.
//   - Judge sums the steps up to Rows, gives each row its normal time, and makes a Report. Normal times come from
//     servers' metrics (Known, NormalIn), or else from a Population of other requests.
//   - JudgeIn adds the verdict and the state of the servers at that time (moment.go).
//
// Only the attributes in setText and setNumber are kept, because some programs write prompts and answers into others.
// The package does no I/O of its own and reads no clock; package collected reads files and servers.
package trace

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A Span is a time in which a program handled a request. Times are Unix nanoseconds.
type Span struct {
	Trace, ID, Parent string // hexadecimal
	Service, Instance string
	Name              string
	Start, End        int64
	Failed            bool
	Server            bool // the span's kind is SERVER: the program answers a request

	// Attributes about the whole request; zero if missing.
	Request, Model             string
	Queue, Prefill, Decode     float64 // seconds
	First                      float64 // seconds to the first token, from Dynamo's frontend
	PromptTokens, OutputTokens int
	hasPhases                  bool // Queue, Prefill and Decode are set, as in vLLM's spans
}

func (s *Span) memoryBytes() int {
	return 232 + len(s.Trace) + len(s.ID) + len(s.Parent) + len(s.Service) + len(s.Instance) + len(s.Name) +
		len(s.Request) + len(s.Model)
}

// A Phase is a part of the processing of a request at a hop.
type Phase string

// The phases.
const (
	Queue    Phase = "queue"
	Prefill  Phase = "prefill"
	Transfer Phase = "KV transfer"
	// QueueTransfer is the queue of a server that decodes after another server's prefill. vLLM
	// schedules a request when its KV cache has arrived, and counts both times as queueing
	// (vllm/v1/core/sched/scheduler.py@v0.32.0: WAITING_FOR_REMOTE_KVS comes before SCHEDULED).
	QueueTransfer Phase = "queue, KV transfer"
	QueuePrefill  Phase = "queue, prefill" // one phase if only the time of the first token is known
	Decode        Phase = "decode"
	Routing       Phase = "routing"
	Forwarding    Phase = "forwarding" // to the next server and back
	Other         Phase = "other"      // tokenizing, templates, detokenizing, HTTP
)

// phaseNames are phases by the names of spans. These are from an older sixty gateway, from llm-d's router and sidecar
// (pkg/epp and pkg/sidecar, 2025 and 2026; some releases add a prefix), and from Dynamo's frontend (1.6.1). vLLM's
// span, llm_request (vllm/v1/engine/output_processor.py@v0.32.0), has the phases in attributes. Dynamo's http-request
// contains all its other spans and has the time of the first token.
var phaseNames = map[string]Phase{
	"queue": Queue, "prefill": Prefill, "decode": Decode,
	"gateway.request_orchestration": Routing, "gateway.director.handle_request": Routing,
	"gateway.scheduler.schedule": Routing,
	"kv_router.select_worker":    Routing, "kv_router.schedule": Queue,
}

// dynamoWorker is the name of a request's span at one of Dynamo's workers. It contains the engine's spans.
const dynamoWorker = "handle_payload"

// enginePhases are the phases of SGLang's spans (srt/observability/req_time_stats.py, 0.5.10).
var enginePhases = map[string]Phase{
	"prefill_waiting": Queue, "decode_waiting": Queue, "prefill_forward": Prefill, "chunked_prefill": Prefill,
	"prefill_bootstrap": Transfer, "prefill_transfer_kv_cache": Transfer,
	"decode_bootstrap": Transfer, "decode_transferred": Transfer,
	"decode_forward": Decode, "decode_loop": Decode,
}

// prefixes removes the prefixes of llm-d's sidecar.
var prefixes = strings.NewReplacer("llm_d.pd_proxy.", "", "pd_sidecar.", "")

func (s *Span) namedPhase() Phase {
	return cmp.Or(enginePhases[s.Name], phaseNames[prefixes.Replace(s.Name)])
}

func (s *Span) isEngine() bool {
	return s.hasPhases || enginePhases[s.Name] != "" || s.Name == dynamoWorker
}

// maxTraceSpans is the most spans of a trace; further ones are counted and dropped.
const maxTraceSpans = 500

// A Trace is the spans of one request.
type Trace struct {
	ID      string
	Spans   []Span // by their start
	Dropped int    // spans beyond maxTraceSpans
}

// Group makes a trace of the spans of each request, the earliest first.
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
		if len(t.Spans) == maxTraceSpans {
			t.Dropped++
			continue
		}
		t.Spans = append(t.Spans, s)
	}
	for _, t := range out {
		slices.SortStableFunc(t.Spans, func(a, b Span) int {
			return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
		})
		sentTwice := func(a, b Span) bool { return a.ID == b.ID && a.Start == b.Start }
		t.Spans = slices.CompactFunc(t.Spans, sentTwice)
	}
	slices.SortStableFunc(out, func(a, b *Trace) int { return cmp.Compare(a.Spans[0].Start, b.Spans[0].Start) })
	return out
}

// Began returns the start of the request.
func (t *Trace) Began() time.Time { return time.Unix(0, t.Spans[0].Start).UTC() }

// Took returns how long the request took.
func (t *Trace) Took() time.Duration {
	end := t.Spans[0].End
	for i := range t.Spans {
		end = max(end, t.Spans[i].End)
	}
	return time.Duration(end - t.Spans[0].Start)
}

// Failed reports whether any span failed.
func (t *Trace) Failed() bool {
	return slices.ContainsFunc(t.Spans, func(s Span) bool { return s.Failed })
}

// OfRequest reports whether the trace is of a request. vLLM also traces how it loads a model.
func (t *Trace) OfRequest() bool {
	return slices.ContainsFunc(t.Spans, func(s Span) bool { return s.Server || s.namedPhase() != "" || s.hasPhases })
}

// Engine returns the span of the inference server that decoded; nil without one.
func (t *Trace) Engine() (found *Span) {
	for i := range t.Spans {
		s := &t.Spans[i]
		better := found == nil || s.hasPhases && (!found.hasPhases || s.OutputTokens >= found.OutputTokens)
		if s.OutputTokens > 0 && better {
			found = s
		}
	}
	return found
}

// A Step is a time in which a request was in one phase at one hop. Steps follow one another, and add up to the time of
// the request.
type Step struct {
	Hop      string  `json:"hop"` // the service, with its role if prefill and decode are apart
	Instance string  `json:"instance"`
	Phase    Phase   `json:"phase"`
	Engine   bool    `json:"engine"`  // the hop is an inference server
	BeginS   float64 `json:"begin_s"` // after the request began
	TookS    float64 `json:"took_s"`
	// Tokens are the tokens to which the time is proportional: the prompt's in prefill, the answer's without the first
	// in decode, else 0.
	Tokens int `json:"tokens"`
}

// unknownService is OpenTelemetry's name for a program without a name.
const unknownService = "unknown_service"

// Steps divides the time of the request. Each moment belongs to the innermost open span.
func (t *Trace) Steps() []Step {
	spans := t.expandSpans()
	bounds := make([]int64, 0, 2*len(spans))
	for i := range spans {
		bounds = append(bounds, spans[i].Start, spans[i].End)
	}
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	hasEngine := slices.ContainsFunc(t.Spans, func(s Span) bool { return s.isEngine() })
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
			step = inner.toStep(hasEngine)
		}
		step.BeginS, step.TookS = float64(from-t.Spans[0].Start)/1e9, float64(to-from)/1e9
		if n := len(out) - 1; n >= 0 && out[n].Hop == step.Hop && out[n].Instance == step.Instance &&
			out[n].Phase == step.Phase {
			out[n].TookS += step.TookS
			continue
		}
		out = append(out, step)
	}
	return out
}

// A part is a span, or a phase from a span's attributes, with its place in the trace.
type part struct {
	*Span
	Start, End int64
	phase      Phase // the span's phase, or the nearest one around it at the same hop
	role       Phase // Prefill or Decode, if a proxy sent the request to one server for prefill and another for decode
	depth      int   // number of spans around it
	engine     bool
}

// expandSpans returns the trace's spans, and parts of their own for phases that engines have in attributes.
func (t *Trace) expandSpans() []part {
	index := make(map[string]int, len(t.Spans))
	for i := range t.Spans {
		index[t.Spans[i].ID] = i
	}
	parts := make([]part, len(t.Spans))
	for i := range t.Spans {
		parts[i] = t.placeSpan(&t.Spans[i], index)
	}
	prefillApart := slices.ContainsFunc(parts, func(p part) bool { return p.engine && p.role == Prefill })
	if !prefillApart { // the proxy has spans for both phases, and sends the request to one server
		for i := range parts {
			parts[i].role = ""
		}
	}
	var phases []part
	for _, p := range parts {
		if p.hasPhases {
			phases = append(phases, p.splitPhases()...)
		}
	}
	return slices.Concat(parts, phases, t.splitWorkers(parts))
}

// placeSpan finds a span's phase, role and depth from the spans around it. index has the spans by ID.
func (t *Trace) placeSpan(s *Span, index map[string]int) part {
	p := part{Span: s, Start: s.Start, End: s.End, phase: s.namedPhase(), engine: s.isEngine()}
	at := s
	for p.depth < len(t.Spans) { // the bound ends a circle of parents
		k, ok := index[at.Parent]
		if !ok || at.Parent == at.ID {
			break
		}
		at, p.depth = &t.Spans[k], p.depth+1
		above := at.namedPhase()
		switch same := at.Service == s.Service && at.Instance == s.Instance; {
		case same && p.phase == "":
			p.phase = above
		case !same && p.role == "" && !at.isEngine() && (above == Prefill || above == Decode):
			p.role = above
		}
		p.engine = p.engine || at.isEngine() && at.Service == s.Service
	}
	return p
}

// splitPhases returns the phases in a span's attributes. They end with the span, because the last token comes then. The
// time before them is the API server's.
func (p part) splitPhases() (out []part) {
	queue := Queue
	if p.role == Decode {
		queue = QueueTransfer
	}
	at := p.End - toNanoseconds(p.Queue+p.Prefill+p.Decode)
	for _, x := range []struct {
		phase Phase
		took  float64
	}{{queue, p.Queue}, {Prefill, p.Prefill}, {Decode, p.Decode}} {
		q := p
		q.Start, q.phase, q.depth = max(at, p.Start), x.phase, p.depth+1
		at += toNanoseconds(x.took)
		if q.End = min(at, p.End); q.End > q.Start {
			out = append(out, q)
		}
	}
	return out
}

// splitWorkers divides the time at Dynamo's workers at the first token. Spans of an engine are deeper, and win.
func (t *Trace) splitWorkers(parts []part) (out []part) {
	i := slices.IndexFunc(t.Spans, func(s Span) bool { return s.First > 0 })
	if i < 0 {
		return nil
	}
	front := &t.Spans[i]
	first := front.Start + toNanoseconds(front.First)
	for _, p := range parts {
		if p.Name != dynamoWorker {
			continue
		}
		withTokens := *p.Span
		withTokens.PromptTokens, withTokens.OutputTokens = front.PromptTokens, front.OutputTokens
		before, after := p, p
		before.Span, before.phase, before.End = &withTokens, QueuePrefill, min(p.End, first)
		after.Span, after.phase, after.Start = &withTokens, Decode, max(p.Start, first)
		for _, q := range []part{before, after} {
			if q.End > q.Start {
				out = append(out, q)
			}
		}
	}
	return out
}

// toNanoseconds converts a time in seconds from an attribute, of at most a day.
func toNanoseconds(seconds float64) int64 { return int64(min(max(seconds, 0), 86400) * 1e9) }

func (p *part) toStep(hasEngine bool) Step {
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
