package fleet

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A page is a metrics page in the order of its families, as Python's client library writes it. Every counter, histogram
// and summary whose series have a time of creation is followed by a gauge of these times.
type page struct{ families []*dto.MetricFamily }

// addFamily adds a family, which may have no series yet.
func (p *page) addFamily(name, help string, kind dto.MetricType, all ...*dto.Metric) {
	p.families = append(p.families, &dto.MetricFamily{Name: &name, Help: &help, Type: kind.Enum(), Metric: all})
	if kind == dto.MetricType_GAUGE {
		return
	}
	var born []*dto.Metric
	for _, s := range all {
		at := cmp.Or(s.GetCounter().GetCreatedTimestamp(), s.GetHistogram().GetCreatedTimestamp(),
			s.GetSummary().GetCreatedTimestamp())
		if at == nil {
			return
		}
		born = append(born,
			newGauge(float64(at.AsTime().UnixMicro())/1e6, s.Label...)) // as Python's time.time returns it
	}
	base := name
	if kind == dto.MetricType_COUNTER {
		base = strings.TrimSuffix(name, "_total")
	}
	p.addFamily(base+"_created", help, dto.MetricType_GAUGE, born...)
}

// encodePage writes the page.
func (p *page) encodePage() ([]byte, error) {
	var b bytes.Buffer
	for _, f := range p.families {
		if len(f.Metric) == 0 {
			typeName := strings.ToLower(f.GetType().String())
			fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", f.GetName(), f.GetHelp(), typeName)
			continue
		}
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

func newGauge(v float64, labels ...*dto.LabelPair) *dto.Metric {
	return &dto.Metric{Label: labels, Gauge: &dto.Gauge{Value: &v}}
}

func newCounter(v float64, labels ...*dto.LabelPair) *dto.Metric {
	return &dto.Metric{Label: labels, Counter: &dto.Counter{Value: &v}}
}

// seriesOf returns the series of a collector, in order, with a time of creation.
func seriesOf(of prometheus.Collector, created time.Time) []*dto.Metric {
	registry := prometheus.NewRegistry()
	registry.MustRegister(of)
	families, err := registry.Gather()
	if err != nil || len(families) == 0 {
		return nil // only two series with the same labels give an error
	}
	for _, m := range families[0].Metric {
		setCreated(m, created)
	}
	return families[0].Metric
}

// setCreated sets a series' time of creation.
func setCreated(m *dto.Metric, at time.Time) *dto.Metric {
	switch t := timestamppb.New(at); {
	case m.Counter != nil:
		m.Counter.CreatedTimestamp = t
	case m.Summary != nil:
		m.Summary.CreatedTimestamp = t
	case m.Histogram != nil:
		m.Histogram.CreatedTimestamp = t
	}
	return m
}

func newHistogram(bounds []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "observed", Buckets: bounds})
}

// readHistogram returns a histogram's counts.
func readHistogram(h prometheus.Histogram) *dto.Histogram {
	var m dto.Metric
	_ = h.Write(&m) // cannot fail without labels
	return m.Histogram
}

// newLabel returns a label with a value.
func newLabel(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }
