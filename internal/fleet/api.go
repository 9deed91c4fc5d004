package fleet

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// apiMetrics has the counts of one API server process: the http_, process_ and python_ families
// (prometheus_fastapi_instrumentator and the process collector of Python's client library). Series with labels begin
// when the first request has ended.
type apiMetrics struct {
	started time.Time // start of the process; its counters begin when the engine is ready
	ready   time.Time

	requests       *prometheus.CounterVec
	received, sent *prometheus.SummaryVec // bytes of bodies, and of answers with a known length; streams have none
	durations      *prometheus.HistogramVec
	highr          prometheus.Histogram

	connections int     // open
	memory      float64 // bytes resident
	cpu         float64 // seconds
	objects     int64   // collected by the garbage collector
}

var (
	highrBounds = []float64{
		0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60,
	}
	durationBounds = []float64{0.1, 0.5, 1}
)

// The state of vLLM's Python API server before its first request.
const (
	baseMemory = 880e6
	baseFiles  = 33
	loadTime   = 45 * time.Second // from the start of the process to the first answer
)

func newAPIMetrics(ready time.Time) *apiMetrics {
	const name = "http" // every page names its own
	return &apiMetrics{
		started: ready.Add(-loadTime), ready: ready, memory: baseMemory, cpu: 18, highr: newHistogram(highrBounds),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name},
			[]string{"handler", "method", "status"}),
		received: prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: name}, []string{"handler"}),
		sent:     prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: name}, []string{"handler"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Buckets: durationBounds},
			[]string{"handler", "method"}),
	}
}

// An exchange is one HTTP request that ended.
type exchange struct {
	handler, method string
	status          int
	took            time.Duration
	received, sent  int
}

// countExchange counts an exchange. Like the real instrumentation it sees the status sent with the headers: a broken
// stream counts as 2xx.
func (m *apiMetrics) countExchange(x exchange) {
	m.requests.WithLabelValues(x.handler, x.method, string([]byte{byte('0' + x.status/100%10), 'x', 'x'})).Inc()
	m.received.WithLabelValues(x.handler).Observe(float64(x.received))
	m.sent.WithLabelValues(x.handler).Observe(float64(x.sent))
	m.durations.WithLabelValues(x.handler, x.method).Observe(x.took.Seconds())
	m.highr.Observe(x.took.Seconds())
	m.objects += 9
}

// addProcess adds the families before vLLM's own.
func (m *apiMetrics) addProcess(p *page) {
	generations := func(name, help string, n ...int64) {
		var all []*dto.Metric
		for i, v := range n {
			all = append(all, newCounter(float64(v), newLabel("generation", string(rune('0'+i)))))
		}
		p.addFamily(name, help, dto.MetricType_COUNTER, all...)
	}
	generations("python_gc_objects_collected_total", "Objects collected during gc", 42000+m.objects, 9100+m.objects/5,
		840+m.objects/50)
	generations("python_gc_objects_uncollectable_total", "Objects found uncollectable during gc", 0, 0, 0)
	generations("python_gc_collections_total", "Collections of a generation", 2200+m.objects/700, 200+m.objects/7000,
		13+m.objects/70000)
	addGauge := func(name, help string, v float64) { p.addFamily(name, help, dto.MetricType_GAUGE, newGauge(v)) }
	p.addFamily("python_info", "Python platform information", dto.MetricType_GAUGE, newGauge(1,
		newLabel("implementation", "CPython"), newLabel("major", "3"), newLabel("minor", "12"),
		newLabel("patchlevel", "11"), newLabel("version", "3.12.11")))
	addGauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", 3.5e9+m.memory)
	addGauge("process_resident_memory_bytes", "Resident memory size in bytes.", m.memory)
	addGauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.",
		float64(m.started.UnixMilli()/10)/100)
	p.addFamily("process_cpu_seconds_total", "Processor time of the process in seconds.",
		dto.MetricType_COUNTER, newCounter(float64(int64(m.cpu*100))/100))
	addGauge("process_open_fds", "Number of open file descriptors.", float64(baseFiles+m.connections))
	addGauge("process_max_fds", "Maximum number of open file descriptors.", 65536)
}

// addHTTP adds the families after vLLM's own.
func (m *apiMetrics) addHTTP(p *page) {
	add := func(name, help string, kind dto.MetricType, c prometheus.Collector) {
		p.addFamily(name, help, kind, seriesOf(c, m.ready)...)
	}
	const summary, histogram = dto.MetricType_SUMMARY, dto.MetricType_HISTOGRAM
	add("http_requests_total", "Requests by method, status and handler.", dto.MetricType_COUNTER, m.requests)
	add("http_request_size_bytes", "Content length of requests by handler.", summary, m.received)
	add("http_response_size_bytes", "Content length of answers by handler.", summary, m.sent)
	add("http_request_duration_highr_seconds", "Latency with many buckets.", histogram, m.highr)
	add("http_request_duration_seconds", "Latency by handler, with few buckets.", histogram, m.durations)
}
