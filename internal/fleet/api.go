package fleet

import (
	"slices"
	"time"
)

// apiMetrics is what one API server process has counted: the http_, process_
// and python_ families (prometheus_fastapi_instrumentator and the process
// collector of Python's client library).
type apiMetrics struct {
	started time.Time // of the process; its counters begin when the engine is ready
	ready   time.Time

	requests []httpCount
	handlers []httpHandler
	highr    *histogram

	connections int     // open
	memory      float64 // bytes resident
	cpu         float64 // seconds
	objects     int64   // collected by the garbage collector
}

// httpCount is one series of http_requests_total.
type httpCount struct {
	handler, method, class string
	n                      int64
	created                time.Time
}

// httpHandler is the series that have no status.
type httpHandler struct {
	handler, method string
	received        float64 // bytes of bodies
	sent            float64 // bytes of answers that say their length; streams do not
	n               int64
	duration        *histogram
	created         time.Time
}

var (
	highrBounds    = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60}
	durationBounds = []float64{0.1, 0.5, 1}
)

// What a Python API server of vLLM holds before it serves anybody.
const (
	baseMemory = 880e6
	baseFiles  = 33
	loadTime   = 45 * time.Second // from the start of the process to the first answer
)

func newAPIMetrics(ready time.Time) *apiMetrics {
	return &apiMetrics{started: ready.Add(-loadTime), ready: ready, highr: newHistogram(highrBounds), memory: baseMemory, cpu: 18}
}

// An exchange is one HTTP request that ended.
type exchange struct {
	handler, method string
	status          int
	took            time.Duration
	received, sent  int
}

// countExchange counts an exchange. Like the real instrumentation it sees the status
// that was sent with the headers: a stream that broke is a 2xx.
func (m *apiMetrics) countExchange(x exchange, at time.Time) {
	class := string([]byte{byte('0' + x.status/100%10), 'x', 'x'})
	i := slices.IndexFunc(m.requests, func(c httpCount) bool {
		return c.handler == x.handler && c.method == x.method && c.class == class
	})
	if i < 0 {
		i = len(m.requests)
		m.requests = append(m.requests, httpCount{handler: x.handler, method: x.method, class: class, created: at})
	}
	m.requests[i].n++
	i = slices.IndexFunc(m.handlers, func(h httpHandler) bool { return h.handler == x.handler && h.method == x.method })
	if i < 0 {
		i = len(m.handlers)
		m.handlers = append(m.handlers, httpHandler{handler: x.handler, method: x.method, duration: newHistogram(durationBounds), created: at})
	}
	h := &m.handlers[i]
	h.n++
	h.received += float64(x.received)
	h.sent += float64(x.sent)
	h.duration.observe(x.took.Seconds())
	m.highr.observe(x.took.Seconds())
	m.objects += 9
}

// writeProcess writes what stands before vLLM's own families.
func (m *apiMetrics) writeProcess(p *expositionWriter) {
	generations := func(name, help string, n ...int64) {
		p.head(name, help, "counter")
		for i, v := range n {
			p.sample(name, []pair{{"generation", string(rune('0' + i))}}, float64(v))
		}
	}
	generations("python_gc_objects_collected_total", "Objects collected during gc", 42000+m.objects, 9100+m.objects/5, 840+m.objects/50)
	generations("python_gc_objects_uncollectable_total", "Objects found uncollectable during gc", 0, 0, 0)
	generations("python_gc_collections_total", "Collections of a generation", 2200+m.objects/700, 200+m.objects/7000, 13+m.objects/70000)
	p.head("python_info", "Python platform information", "gauge")
	p.sample("python_info", []pair{{"implementation", "CPython"}, {"major", "3"}, {"minor", "12"}, {"patchlevel", "11"}, {"version", "3.12.11"}}, 1)
	single := func(name, help, kind string, v float64) {
		p.head(name, help, kind)
		p.sample(name, nil, v)
	}
	single("process_virtual_memory_bytes", "Virtual memory size in bytes.", "gauge", 3.5e9+m.memory)
	single("process_resident_memory_bytes", "Resident memory size in bytes.", "gauge", m.memory)
	single("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", "gauge", float64(m.started.UnixMilli()/10)/100)
	single("process_cpu_seconds_total", "Processor time of the process in seconds.", "counter", float64(int64(m.cpu*100))/100)
	single("process_open_fds", "Number of open file descriptors.", "gauge", float64(baseFiles+m.connections))
	single("process_max_fds", "Maximum number of open file descriptors.", "gauge", 65536)
}

// writeHTTP writes what stands behind vLLM's own families. The series with
// labels begin with the first request that ended.
func (m *apiMetrics) writeHTTP(p *expositionWriter) {
	const (
		requests = "Requests by method, status and handler."
		received = "Content length of requests by handler."
		sent     = "Content length of answers by handler."
		highr    = "Latency with many buckets."
		duration = "Latency by handler, with few buckets."
	)
	p.head("http_requests_total", requests, "counter")
	for _, c := range m.requests {
		p.sample("http_requests_total", c.labels(), float64(c.n))
	}
	p.createdHead("http_requests", requests)
	for _, c := range m.requests {
		p.createdSample("http_requests", c.labels(), seconds(c.created))
	}
	summary := func(name, help string, sum func(httpHandler) float64) {
		p.head(name, help, "summary")
		for _, h := range m.byHandler() {
			p.sample(name+"_count", []pair{{"handler", h.handler}}, float64(h.n))
			p.sample(name+"_sum", []pair{{"handler", h.handler}}, sum(h))
		}
		p.createdHead(name, help)
		for _, h := range m.byHandler() {
			p.createdSample(name, []pair{{"handler", h.handler}}, seconds(h.created))
		}
	}
	summary("http_request_size_bytes", received, func(h httpHandler) float64 { return h.received })
	summary("http_response_size_bytes", sent, func(h httpHandler) float64 { return h.sent })
	p.head("http_request_duration_highr_seconds", highr, "histogram")
	p.histogram("http_request_duration_highr_seconds", nil, m.highr)
	p.createdHead("http_request_duration_highr_seconds", highr)
	p.createdSample("http_request_duration_highr_seconds", nil, seconds(m.ready))
	p.head("http_request_duration_seconds", duration, "histogram")
	for _, h := range m.handlers {
		p.histogram("http_request_duration_seconds", h.labels(), h.duration)
	}
	p.createdHead("http_request_duration_seconds", duration)
	for _, h := range m.handlers {
		p.createdSample("http_request_duration_seconds", h.labels(), seconds(h.created))
	}
}

func (c httpCount) labels() []pair {
	return []pair{{"handler", c.handler}, {"method", c.method}, {"status", c.class}}
}

func (h httpHandler) labels() []pair {
	return []pair{{"handler", h.handler}, {"method", h.method}}
}

// byHandler adds up the methods of each handler.
func (m *apiMetrics) byHandler() []httpHandler {
	var out []httpHandler
	for _, h := range m.handlers {
		if i := slices.IndexFunc(out, func(o httpHandler) bool { return o.handler == h.handler }); i >= 0 {
			out[i].n += h.n
			out[i].received += h.received
			out[i].sent += h.sent
			continue
		}
		out = append(out, h)
	}
	return out
}
