package trace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/render"
)

// Bounds of the input.
const (
	MaxMessage = 8 << 20 // bytes of one OTLP message
	maxSpans   = 1 << 20 // in all files together
	maxText    = 200     // bytes of a name or an id
)

// Read reads spans in any of these forms: a file of the collector's file exporter (a JSON object per line, or messages
// in protobuf or JSON, each after its length and possibly compressed with zstd), one OTLP message in protobuf or JSON,
// or an answer of Jaeger's API.
func Read(r io.Reader) ([]Span, error) {
	in := bufio.NewReader(r)
	head, err := in.Peek(1)
	if errors.Is(err, io.EOF) {
		return nil, hint.With(errors.New("it is empty"), "the collector's file exporter writes when its batch is full "+
			"or timed out: wait, and check that its pipeline has the exporter")
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // a reader's errors stay as they are
	}
	switch head[0] {
	case 0: // the first byte of a length below 16 MiB
		return readMessages(in)
	case 0x0a: // the tag of resource_spans
		body, err := io.ReadAll(io.LimitReader(in, MaxMessage+1))
		if err != nil {
			return nil, err //nolint:wrapcheck // as above
		}
		return Proto(body)
	case '{', ' ':
		return readJSON(in)
	}
	return nil, hint.With(errors.New("neither OTLP nor Jaeger's JSON"), "write traces with the collector's "+
		"file exporter, or give the URL of Tempo, Jaeger or sixty serve and --id")
}

// readMessages reads messages, each after its length in four bytes.
func readMessages(in io.Reader) (out []Span, err error) {
	for {
		var size uint32
		if err := binary.Read(in, binary.BigEndian, &size); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, truncated(err)
		}
		if size > MaxMessage {
			return nil, fmt.Errorf("a message of %d bytes: the limit is %d", size, MaxMessage)
		}
		var body bytes.Buffer
		if n, err := io.CopyN(&body, in, int64(size)); err != nil {
			return nil, truncated(fmt.Errorf("a message ends after %d of %d bytes: %w", n, size, err))
		}
		message := body.Bytes()
		if bytes.HasPrefix(message, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
			if message, err = unpackZstd(message); err != nil {
				return nil, err
			}
		}
		read := Proto
		if bytes.HasPrefix(message, []byte("{")) {
			read = JSON
		}
		spans, err := read(message)
		if err != nil {
			return nil, err
		}
		if out = append(out, spans...); len(out) > maxSpans {
			return nil, errTooMany
		}
	}
}

var errTooMany = hint.With(fmt.Errorf("more than %d spans", maxSpans),
	"give a shorter time, or get one trace from Tempo or Jaeger with --id")

func truncated(err error) error {
	return hint.With(fmt.Errorf("it is truncated: %w", err),
		"copy it again, or wait for the collector to finish writing")
}

func unpackZstd(message []byte) ([]byte, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxMessage))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	defer z.Close()
	out, err := z.DecodeAll(message, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return out, nil
}

func readJSON(in io.Reader) (out []Span, err error) {
	for d := json.NewDecoder(in); ; {
		var one json.RawMessage
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			return out, nil
		} else if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, truncated(err)
		} else if err != nil {
			return nil, fmt.Errorf("no JSON: %w", err)
		}
		spans, err := JSON(one)
		if err != nil {
			return nil, err
		}
		if out = append(out, spans...); len(out) > maxSpans {
			return nil, errTooMany
		}
	}
}

// Proto reads one OTLP message in protobuf. Tempo's API answers with one.
func Proto(message []byte) ([]Span, error) {
	if len(message) > MaxMessage {
		return nil, fmt.Errorf("a message of more than %d bytes", MaxMessage)
	}
	all, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(message)
	if err != nil {
		return nil, fmt.Errorf("not OTLP in protobuf: %w", err)
	}
	return spansOf(all), nil
}

// JSON reads one object: an OTLP message, or an answer of Jaeger's API.
func JSON(object []byte) ([]Span, error) {
	var kind struct {
		Data    json.RawMessage `json:"data"`
		Batches json.RawMessage `json:"batches"`
	}
	if err := json.Unmarshal(object, &kind); err != nil {
		return nil, fmt.Errorf("no JSON object: %w", err)
	}
	switch {
	case kind.Data != nil:
		return readJaeger(kind.Data)
	case kind.Batches != nil:
		return nil, hint.With(errors.New("this is Tempo's own JSON format"),
			"give Tempo's URL and --id, which reads OTLP")
	}
	all, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(object)
	if err != nil {
		return nil, fmt.Errorf("not OTLP in JSON: %w", err)
	}
	return spansOf(all), nil
}

func spansOf(all ptrace.Traces) (out []Span) {
	for _, r := range all.ResourceSpans().All() {
		base := Span{Service: "unnamed"}
		setAttributes(&base, r.Resource().Attributes())
		for _, scope := range r.ScopeSpans().All() {
			for _, from := range scope.Spans().All() {
				s := base
				s.Trace, s.ID, s.Parent = from.TraceID().String(), from.SpanID().String(), from.ParentSpanID().String()
				s.Name, s.Failed = clipName(from.Name()), from.Status().Code() == ptrace.StatusCodeError
				s.Start, s.End = unixNanos(uint64(from.StartTimestamp())), unixNanos(uint64(from.EndTimestamp()))
				s.Server = from.Kind() == ptrace.SpanKindServer
				setAttributes(&s, from.Attributes())
				if s.isValid() {
					out = append(out, s)
				}
			}
		}
	}
	return out
}

func setAttributes(s *Span, of pcommon.Map) {
	for key, v := range of.All() {
		switch v.Type() {
		case pcommon.ValueTypeStr:
			s.setText(key, v.Str())
		case pcommon.ValueTypeDouble:
			s.setNumber(key, v.Double())
		case pcommon.ValueTypeInt:
			s.setNumber(key, float64(v.Int()))
		}
	}
}

// isValid reports whether a span has ids, and does not end before its start.
func (s *Span) isValid() bool { return s.Trace != "" && s.ID != "" && s.Start > 0 && s.End >= s.Start }

// unixNanos converts a time in nanoseconds. A time out of range is 0, which makes the span invalid.
func unixNanos(ns uint64) int64 {
	if ns > math.MaxInt64 {
		return 0
	}
	return int64(ns)
}

// clipName removes control characters from a name, and limits its length.
func clipName(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	return strings.Clone(render.Clean(text))
}

// setText and setNumber keep the attributes that they name, and no others.
func (s *Span) setText(key, value string) {
	switch key {
	case "service.name":
		s.Service = clipName(value)
	case "service.instance.id", "k8s.pod.name":
		s.Instance = clipName(value)
	case "host.name":
		if s.Instance == "" {
			s.Instance = clipName(value)
		}
	case "gen_ai.request.id", "sixty.request_id", "request_id":
		s.Request = clipName(value)
	case "input_tokens", "output_tokens", "ttft_ms": // Dynamo writes numbers as text
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			s.setNumber(key, v)
		}
	case "gen_ai.response.model", "gen_ai.request.model":
		s.Model = clipName(value)
	}
}

func (s *Span) setNumber(key string, value float64) {
	switch key {
	case "gen_ai.latency.time_in_queue":
		s.Queue, s.hasPhases = value, true
	case "gen_ai.latency.time_in_model_prefill":
		s.Prefill = value
	case "gen_ai.latency.time_in_model_decode":
		s.Decode = value
	case "ttft_ms":
		s.First = value / 1000
	case "gen_ai.usage.prompt_tokens", "gen_ai.usage.input_tokens", "input_tokens":
		s.PromptTokens = tokenCount(value)
	case "gen_ai.usage.completion_tokens", "gen_ai.usage.output_tokens", "output_tokens":
		s.OutputTokens = tokenCount(value)
	}
}

// tokenCount converts a number of tokens; 0 if it is out of range.
func tokenCount(v float64) int {
	if !(v > 0 && v < 1e9) {
		return 0
	}
	return int(v)
}

// A jaegerTag is an attribute in an answer of Jaeger's API.
type jaegerTag struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

// A jaegerTrace is a trace in an answer of Jaeger's API. Times are microseconds.
type jaegerTrace struct {
	Processes map[string]struct {
		ServiceName string      `json:"serviceName"`
		Tags        []jaegerTag `json:"tags"`
	} `json:"processes"`
	Spans []struct {
		TraceID       string `json:"traceID"`
		SpanID        string `json:"spanID"`
		ProcessID     string `json:"processID"`
		OperationName string `json:"operationName"`
		StartTime     int64  `json:"startTime"`
		Duration      int64  `json:"duration"`
		References    []struct {
			RefType string `json:"refType"`
			SpanID  string `json:"spanID"`
		} `json:"references"`
		Tags []jaegerTag `json:"tags"`
	} `json:"spans"`
}

func readJaeger(data []byte) (out []Span, err error) {
	var traces []jaegerTrace
	if err := json.Unmarshal(data, &traces); err != nil {
		return nil, fmt.Errorf("not a Jaeger answer: %w", err)
	}
	const most = math.MaxInt64 / 2000 // microseconds; the sum of two such times fits 64 bits in nanoseconds
	for _, t := range traces {
		for _, from := range t.Spans {
			p := t.Processes[from.ProcessID]
			s := Span{
				Trace: clipName(from.TraceID), ID: clipName(from.SpanID), Name: clipName(from.OperationName),
				Service: clipName(p.ServiceName), Start: min(max(from.StartTime, 0), most) * 1000,
			}
			s.End = s.Start + min(max(from.Duration, 0), most)*1000
			for _, r := range from.References {
				if r.RefType == "CHILD_OF" {
					s.Parent = clipName(r.SpanID)
				}
			}
			s.setTags(p.Tags)
			s.setTags(from.Tags)
			if s.isValid() {
				out = append(out, s)
			}
		}
	}
	return out, nil
}

func (s *Span) setTags(tags []jaegerTag) {
	for _, tag := range tags {
		switch v := tag.Value.(type) {
		case string:
			s.setText(tag.Key, v)
			s.Server = s.Server || tag.Key == "span.kind" && v == "server"
		case float64:
			s.setNumber(tag.Key, v)
		case bool:
			s.Failed = s.Failed || v && tag.Key == "error"
		}
	}
}
