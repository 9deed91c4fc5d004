package trace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// gatewayFile has the spans that vLLM 0.32.0 and sixty gateway exported for 22 requests: one after another, then ten at
// a time at a server with --max-num-seqs 2.
const gatewayFile = "../../testdata/traces/slow.otlp"

func readFile(t *testing.T, path string) []Span {
	t.Helper()
	f, err := os.Open(path)
	must.Succeed(t, err)
	defer f.Close()
	spans, err := Read(f)
	must.Succeed(t, err)
	return spans
}

func TestARequestThatWaitedAtARealServer(t *testing.T) {
	all := Group(readFile(t, gatewayFile))
	others := NewPopulation(all)
	slow := slices.MaxFunc(all, func(a, b *Trace) int { return int(a.Took() - b.Took()) })
	r := Judge(slow, others, nil)
	if r.Slow == nil || !*r.Slow || r.Blame.Phase != Queue || r.Blame.Hop != "vllm" {
		t.Errorf("slow %v, blamed %+v, want the queue of vllm", r.Slow, r.Blame)
	}
	if r.PromptTokens == 0 || r.OutputTokens != 80 || !strings.HasPrefix(r.Request, "cmpl-") {
		t.Errorf("request %q with %d and %d tokens", r.Request, r.PromptTokens, r.OutputTokens)
	}
	sum := 0.0
	for _, row := range r.Rows {
		sum += row.TookS
	}
	if d := sum - r.TookS; d > 1e-6 || d < -1e-6 {
		t.Errorf("the rows sum up to %g s of %g s", sum, r.TookS)
	}
	fast := Judge(all[0], others, nil)
	if fast.Slow == nil || *fast.Slow {
		t.Errorf("the first request, which did not wait, is slow: %s", fast.Summary)
	}
}

// span makes a span. Times are milliseconds.
func span(id, parent, service, name string, from, to int64) Span {
	return Span{Trace: "t", ID: id, Parent: parent, Service: service, Name: name, Start: 1 + from*1e6, End: 1 + to*1e6}
}

func engine(s Span, queue, prefill, decode float64, prompt, output int) Span {
	s.Queue, s.Prefill, s.Decode, s.hasPhases, s.PromptTokens, s.OutputTokens = queue, prefill, decode, true, prompt, output
	return s
}

func phasesOf(tr *Trace) (out []string) {
	for _, s := range tr.Steps() {
		out = append(out, fmt.Sprintf("%s %s %.0f", s.Hop, s.Phase, s.TookS*1000))
	}
	return out
}

func TestPrefillAndDecodeApart(t *testing.T) {
	tr := Group([]Span{
		span("a", "", "gateway-api-inference-extension", "gateway.request", 0, 1000),
		span("b", "a", "gateway-api-inference-extension", "gateway.scheduler.schedule", 10, 20),
		span("c", "a", "pd-sidecar", "llm_d.pd_proxy.request", 30, 1000),
		span("d", "c", "pd-sidecar", "llm_d.pd_proxy.prefill", 40, 240),
		engine(span("e", "d", "vllm", "llm_request", 40, 240), 0.05, 0.15, 0, 1000, 1),
		span("f", "c", "pd-sidecar", "llm_d.pd_proxy.decode", 240, 1000),
		engine(span("g", "f", "vllm", "llm_request", 240, 1000), 0.6, 0.01, 0.15, 1000, 16),
	})[0]
	want := []string{
		"gateway-api-inference-extension other 10", "gateway-api-inference-extension routing 10",
		"gateway-api-inference-extension other 10",
		"pd-sidecar other 10", "vllm (prefill) queue 50", "vllm (prefill) prefill 150",
		"vllm (decode) queue, KV transfer 600", "vllm (decode) prefill 10", "vllm (decode) decode 150",
	}
	must.Equal(t, want, phasesOf(tr))
	if r := Judge(tr, nil, nil); r.Blame.Phase != QueueTransfer || r.Slow != nil {
		t.Errorf("blamed %+v, slow %v: what is normal is not known", r.Blame, r.Slow)
	}
}

func TestSGLang(t *testing.T) {
	got := phasesOf(Group([]Span{
		span("a", "", "sglang", "Req 1", 0, 500), span("b", "a", "sglang", "prefill_waiting", 10, 100),
		span("c", "a", "sglang", "prefill_forward", 100, 200), span("d", "a", "sglang", "decode_loop", 200, 500),
	})[0])
	must.Equal(t, []string{"sglang other 10", "sglang queue 90", "sglang prefill 100", "sglang decode 300"}, got)
}

// TestRequestsOfOtherServersAreNotCompared has servers with a service name each.
func TestRequestsOfOtherServersAreNotCompared(t *testing.T) {
	var all []*Trace
	serve := func(service string, n int) *Trace {
		for range n {
			one := engine(span("a", "", service, "llm_request", 0, 400), 0, 0.1, 0.3, 100, 16)
			one.Trace = fmt.Sprint(len(all))
			all = append(all, Group([]Span{one})...)
		}
		return all[len(all)-1]
	}
	a, b, c := serve("vllm-a", 14), serve("vllm-b", 12), serve("vllm-c", 10)
	others := NewPopulation(all)
	for _, tr := range []*Trace{a, b} {
		if r := Judge(tr, others, nil); r.Slow == nil || *r.Slow {
			t.Errorf("slow %v, want false: %s", r.Slow, r.Summary)
		}
	}
	if r := Judge(c, others, nil); r.Slow != nil || r.Others != 9 {
		t.Errorf("slow %v beside %d others, want unknown: %s", r.Slow, r.Others, r.Summary)
	}
}

// TestTypicalTimeOfARequestAtTwoInstances has a request that migrated: each instance decoded a part of it.
func TestTypicalTimeOfARequestAtTwoInstances(t *testing.T) {
	decode := func(instance string, seconds float64, tokens int) Row {
		return Row{Step: Step{Hop: "worker", Instance: instance, Phase: Decode, TookS: seconds, Tokens: tokens}}
	}
	row := decode("a", 9, 20)
	if got := typicalTime(&row, [][]Row{{decode("a", 1, 10), decode("b", 2, 10)}}); got != 6 {
		t.Errorf("%g s for twice the tokens of a request that took 3 s, want 6", got)
	}
}

func TestALongAnswerIsNotSlow(t *testing.T) {
	var all []*Trace
	for i := range 12 {
		one := engine(span("a", "", "vllm", "llm_request", 0, 1000), 0, 0.1, 0.9, 100, 91)
		one.Trace = fmt.Sprint(i)
		all = append(all, Group([]Span{one})...)
	}
	long := Group([]Span{engine(span("a", "", "vllm", "llm_request", 0, 10000), 0, 0.1, 9.9, 100, 991)})[0]
	if r := Judge(long, NewPopulation(all), nil); r.Slow == nil || *r.Slow {
		t.Errorf("%s", r.Summary)
	}
}

func TestGapsInATraceAreNoted(t *testing.T) {
	loop := Group([]Span{span("a", "b", "x", "queue", 10, 20), span("b", "a", "x", "POST", 50, 90), span("c", "gone", "x", "GET", 0, 5)})[0]
	if got := strings.Join(Judge(loop, nil, nil).Notes, "; "); !strings.Contains(got, "1 span without its parent") ||
		!strings.Contains(got, "clocks differ by at least 40 ms") {
		t.Errorf("notes: %s", got)
	}
	if s := loop.Steps(); s[1].Hop != "not traced" {
		t.Errorf("what no span covers is %+v", s[1])
	}
	if load := Group([]Span{span("a", "", "vllm", "Load model", 0, 1000)})[0]; load.OfRequest() {
		t.Error("the loading of a model is taken for a request")
	}
}

const secret = "the patient's name is"

// exported is a trace with prompts wherever a program may write one.
func exported() ptrace.Traces {
	all := ptrace.NewTraces()
	r := all.ResourceSpans().AppendEmpty()
	r.Resource().Attributes().PutStr("service.name", "app")
	r.Resource().Attributes().PutStr("process.command_line", secret)
	s := r.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{2})
	s.SetName("chat")
	s.SetKind(ptrace.SpanKindServer)
	s.SetStartTimestamp(1e9)
	s.SetEndTimestamp(3e9)
	s.Status().SetMessage(secret)
	s.Attributes().PutStr("gen_ai.prompt.0.content", secret)
	s.Attributes().PutEmptySlice("gen_ai.input.messages").AppendEmpty().SetStr(secret)
	s.Attributes().PutInt("gen_ai.usage.input_tokens", 7)
	s.Events().AppendEmpty().Attributes().PutStr("gen_ai.completion", secret)
	return all
}

func TestPromptsAreNotKept(t *testing.T) {
	raw, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(exported())
	must.Succeed(t, err)
	spans, err := Proto(raw)
	if err != nil || len(spans) != 1 || spans[0].PromptTokens != 7 {
		t.Fatalf("%+v, %v", spans, err)
	}
	if text := fmt.Sprintf("%+v", spans); strings.Contains(text, "patient") {
		t.Errorf("a prompt was kept: %s", text)
	}
}

// framed returns a message after its length.
func framed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)
}

func TestFormsAreEqual(t *testing.T) {
	proto, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(exported())
	must.Succeed(t, err)
	json, err := (&ptrace.JSONMarshaler{}).MarshalTraces(exported())
	must.Succeed(t, err)
	z, err := zstd.NewWriter(nil)
	must.Succeed(t, err)
	jaeger := `{"data":[{"processes":{"p":{"serviceName":"app"}},"spans":[{"traceID":"01000000000000000000000000000000","spanID":"0200000000000000",
		"processID":"p","operationName":"chat","startTime":1000000,"duration":2000000,"tags":[{"key":"span.kind","value":"server"},
		{"key":"gen_ai.usage.input_tokens","type":"int64","value":7},{"key":"gen_ai.prompt.0.content","value":"` + secret + `"}]}]}]}`
	want, err := Proto(proto)
	must.Succeed(t, err)
	for name, data := range map[string][]byte{
		"a message": proto, "framed": framed(proto), "JSON": json, "framed JSON": framed(json),
		"packed": framed(z.EncodeAll(proto, nil)), "Jaeger": []byte(jaeger),
	} {
		got, err := Read(bytes.NewReader(data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(want, got, cmp.AllowUnexported(Span{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if two, err := Read(bytes.NewReader(slices.Concat(json, []byte("\n"), json, []byte("\n")))); err != nil ||
		len(two) != 2 {
		t.Errorf("two lines: %d spans, %v", len(two), err)
	}
}

func TestDamagedInputIsAnError(t *testing.T) {
	proto, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(exported())
	must.Succeed(t, err)
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"empty":        {nil, "empty"},
		"cut off":      {framed(proto)[:40], "it is truncated"},
		"half a line":  {[]byte(`{"resourceSpans":[{`), "it is truncated"},
		"huge":         {[]byte{0, 0xff, 0xff, 0xff, 1}, "the limit is"},
		"HTML":         {[]byte("<html>"), "neither OTLP nor"},
		"other JSON":   {[]byte(`{"resourceSpans": 3}`), "not OTLP in JSON"},
		"Tempo's JSON": {[]byte(`{"batches":[]}`), "Tempo's own JSON"},
		"nonsense":     {framed([]byte{0xff, 0xff}), "not OTLP in protobuf"},
		"a list":       {[]byte(`{} 3`), "no JSON object"},
	} {
		if _, err := Read(bytes.NewReader(tc.data)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

func TestDeeplyNestedInputIsAnError(t *testing.T) {
	var tail []byte // from the innermost on, what stands before it, reversed
	prepend := func(tag byte, size int) {
		length := binary.AppendUvarint(nil, uint64(size))
		slices.Reverse(length)
		tail = append(append(tail, length...), tag)
	}
	for len(tail) < 1<<20-100 {
		prepend(0x0a, len(tail)) // values of a list
		prepend(0x2a, len(tail)) // a list
	}
	prepend(0x12, len(tail)) // value of an attribute
	prepend(0x0a, len(tail)) // an attribute
	prepend(0x0a, len(tail)) // a resource
	prepend(0x0a, len(tail)) // its spans
	slices.Reverse(tail)
	if spans, err := Proto(tail); err == nil || !strings.Contains(err.Error(), "recursion") {
		t.Errorf("%d spans, %v", len(spans), err)
	}
}

func TestARingDropsTheOldestTraces(t *testing.T) {
	r := NewRing(64 << 10)
	for i := range 1000 {
		s := engine(span("a", "", "vllm", "llm_request", 0, 1000), 0, 0.1, 0.9, 100, 91)
		s.Trace = fmt.Sprintf("%032x", i)
		s.Start += int64(i) * 1e9
		s.End += int64(i) * 1e9
		if i == 990 {
			s.End, s.Queue = s.End+8e9, 8
		}
		r.Add([]Span{s})
		if r.size > r.limit {
			t.Fatalf("%d bytes of %d after %d traces", r.size, r.limit, i)
		}
	}
	if n := len(r.traces); n < 50 || n > 250 || r.byArrival.Len() != n || r.spanCount != n || r.Received() != 1000 {
		t.Errorf("%d traces, %d in order, %d spans, %d received", n, r.byArrival.Len(), r.spanCount, r.Received())
	}
	slow := r.Slowest(time.Unix(0, 0), time.Unix(2000, 0), 5, nil)
	if len(slow) != 1 || !strings.Contains(slow[0].Summary, "queued at vllm") {
		t.Errorf("slow: %+v", slow)
	}
	if early := r.Slowest(time.Unix(0, 0), time.Unix(900, 0), 5, nil); len(early) != 0 {
		t.Errorf("slow in another time: %+v", early)
	}
	// Where an incident slows all, the servers' metrics still say what is normal.
	known := func(row *Row) (float64, string, bool) { return 0.01, "metrics", row.Engine }
	if all := r.Slowest(time.Unix(0, 0), time.Unix(2000, 0), 5, known); len(all) != 5 ||
		!strings.Contains(all[4].Summary, "instead of the normal") {
		t.Errorf("slow by the metrics: %+v", all)
	}
	long := span("a", "", "x", "y", 0, 1)
	long.Name = strings.Repeat("n", 100<<10)
	if r.Add([]Span{long}); len(r.traces) != 0 || r.size != 0 {
		t.Errorf("a span larger than the ring leaves %d traces of %d bytes", len(r.traces), r.size)
	}
}

func FuzzRead(f *testing.F) {
	proto, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(exported())
	must.Succeed(f, err)
	json, err := (&ptrace.JSONMarshaler{}).MarshalTraces(exported())
	must.Succeed(f, err)
	f.Add(proto)
	f.Add(json)
	f.Add(framed(proto))
	f.Add([]byte(`{"data":[{"spans":[{"traceID":"1","spanID":"2","duration":9223372036854775807,"startTime":9223372036854775807}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		spans, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		all := Group(spans)
		others := NewPopulation(all)
		ring := NewRing(4 << 10)
		ring.Add(spans)
		for _, tr := range all {
			r := Judge(tr, others, nil)
			sum := 0.0
			for _, row := range r.Rows {
				sum += row.TookS
			}
			if r.TookS < 0 || sum < 0 || sum > r.TookS*1.000001+1e-6 {
				t.Errorf("rows of %g s in a request of %g s", sum, r.TookS)
			}
		}
	})
}

func TestManyTracesAreSampled(t *testing.T) {
	var spans []Span
	for i := range 5000 {
		s := engine(span("a", "", "vllm", "llm_request", 0, 1000), 0, 0.1, 0.9, 100, 91)
		s.Trace = fmt.Sprint(i)
		spans = append(spans, s)
	}
	if n := len(NewPopulation(Group(spans))); n < 200 || n > maxCompared {
		t.Errorf("compared with %d requests", n)
	}
	wide := make([]Span, 0, 2000)
	for i := range 2000 {
		wide = append(wide, span(fmt.Sprint(i), fmt.Sprint(i-1), "x", "queue", int64(i), int64(4000-i)))
	}
	tr := Group(wide)[0]
	if r := Judge(tr, nil, nil); len(tr.Spans) != maxTraceSpans ||
		!strings.Contains(strings.Join(r.Notes, ";"), "1500 spans beyond") {
		t.Errorf("%d spans, %q", len(tr.Spans), r.Notes)
	}
}

// TestDynamo has spans with the names and attributes of Dynamo 1.6.1. Its frontend has the time of the first token as
// text. The request migrated from one worker to another.
func TestDynamo(t *testing.T) {
	front := span("a", "", "frontend", "http-request", 0, 2000)
	for key, value := range map[string]string{"input_tokens": "140", "output_tokens": "121", "ttft_ms": "800.00", "request_id": "r"} {
		front.setText(key, value)
	}
	tr := Group([]Span{
		front, span("b", "a", "frontend", "completions_single", 1, 1999),
		span("c", "b", "frontend", "kv_router.select_worker", 100, 300), span("d", "c", "frontend", "kv_router.schedule", 150, 300),
		span("e", "a", "worker", "handle_payload", 300, 1000), span("f", "a", "worker", "handle_payload", 1100, 1950),
	})[0]
	want := []string{
		"frontend other 100", "frontend routing 50", "frontend queue 150", "worker queue, prefill 500", "worker decode 200",
		"frontend other 100", "worker decode 850", "frontend other 50",
	}
	must.Equal(t, want, phasesOf(tr))
	if r := Judge(tr, nil, nil); r.PromptTokens != 140 || r.OutputTokens != 121 || r.Request != "r" ||
		r.Blame.Phase != Decode {
		t.Errorf("%d and %d tokens of %q, blamed %+v", r.PromptTokens, r.OutputTokens, r.Request, r.Blame)
	}
}
