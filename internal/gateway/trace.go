package gateway

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Traces: a span for each generating request, with one each for what it waited
// before the upstream (queue), for the first token (prefill), and for the rest
// (decode). Without a Tracer the trace context passes through as it is.

var propagator propagation.TraceContext

func (x *exchange) startTrace() {
	if x.g.cfg.Tracer == nil || x.work == "" {
		return
	}
	ctx := propagator.Extract(context.Background(), propagation.HeaderCarrier(x.r.Header))
	x.spanCtx, x.span = x.g.cfg.Tracer.Start(ctx, x.r.Method+" "+x.route,
		trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(x.g.wall(x.arrived)))
}

// traceHeader gives the upstream the context of the request's span.
func (x *exchange) traceHeader(h http.Header) {
	if x.span != nil {
		h.Del("Tracestate")
		propagator.Inject(x.spanCtx, propagation.HeaderCarrier(h))
	}
}

func (x *exchange) traceID() string {
	if x.span == nil {
		return ""
	}
	return x.span.SpanContext().TraceID().String()
}

func (x *exchange) endTrace(status Status, kind string, now int64) {
	if x.span == nil {
		return
	}
	m := &x.meter
	part := func(name string, from, to int64) {
		if from == 0 || to < from {
			return
		}
		_, s := x.g.cfg.Tracer.Start(x.spanCtx, name, trace.WithTimestamp(x.g.wall(from)))
		s.End(trace.WithTimestamp(x.g.wall(to)))
	}
	orNow := func(at int64) int64 {
		if at == 0 {
			return now
		}
		return at
	}
	part("queue", x.arrived, orNow(x.sent))
	part("prefill", x.sent, orNow(m.First))
	part("decode", m.First, m.Last)
	n, how := m.Tokens()
	x.span.SetAttributes(
		attribute.String("gen_ai.operation.name", x.work),
		attribute.String("gen_ai.provider.name", providerOfServer),
		attribute.String("gen_ai.request.model", x.model),
		attribute.String("gen_ai.response.model", m.Model),
		attribute.String("gen_ai.response.id", m.ID),
		attribute.Int("gen_ai.usage.input_tokens", m.Usage.PromptTokens),
		attribute.Int("gen_ai.usage.output_tokens", n),
		attribute.Int("http.response.status_code", x.code),
		attribute.String("sixty.status", status.String()),
		attribute.String("sixty.request_id", clip(x.id)),
		attribute.String("sixty.tokens_counted_by", how),
	)
	if m.Finish != "" {
		x.span.SetAttributes(attribute.StringSlice("gen_ai.response.finish_reasons", []string{m.Finish}))
	}
	if status != Success {
		x.span.SetStatus(codes.Error, kind)
		x.span.SetAttributes(attribute.String("error.type", status.String()))
	}
	x.span.End(trace.WithTimestamp(x.g.wall(now)))
}
