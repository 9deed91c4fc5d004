package embedded

import (
	"fmt"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// copyVector copies the result of an instant query. It leaves out native histograms, which nothing here stores.
func copyVector(v parser.Value) (model.Vector, error) {
	switch v := v.(type) {
	case promql.Scalar:
		return model.Vector{{Metric: model.Metric{}, Value: model.SampleValue(v.V), Timestamp: model.Time(v.T)}}, nil
	case promql.Vector:
		out := make(model.Vector, 0, len(v))
		for _, s := range v {
			if s.H == nil {
				out = append(out, &model.Sample{
					Metric: metricFromLabels(s.Metric), Value: model.SampleValue(s.F), Timestamp: model.Time(s.T),
				})
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("the expression is a %s, not a vector or a scalar", parser.DocumentedType(v.Type()))
}

// copyMatrix copies the result of a range query.
func copyMatrix(v parser.Value) (model.Matrix, error) {
	m, ok := v.(promql.Matrix)
	if !ok {
		return nil, fmt.Errorf("the expression is a %s, not a vector or a scalar", parser.DocumentedType(v.Type()))
	}
	out := make(model.Matrix, 0, len(m))
	for _, s := range m {
		if len(s.Floats) == 0 {
			continue
		}
		points := make([]model.SamplePair, len(s.Floats))
		for i, p := range s.Floats {
			points[i] = model.SamplePair{Timestamp: model.Time(p.T), Value: model.SampleValue(p.F)}
		}
		out = append(out, &model.SampleStream{Metric: metricFromLabels(s.Metric), Values: points})
	}
	return out, nil
}

func metricFromLabels(l labels.Labels) model.Metric {
	m := make(model.Metric, l.Len())
	l.Range(func(l labels.Label) { m[model.LabelName(l.Name)] = model.LabelValue(l.Value) })
	return m
}
