package autoscaling_test

import (
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/generate/autoscaling"
	"github.com/sixty-dev/sixty/internal/generate/detect"
)

func config(t *testing.T, format autoscaling.Format) autoscaling.Config {
	t.Helper()
	d, err := detect.Resolve(dialect.Deployment{Instance: dialect.UsualInstance, Model: dialect.UsualModel, Past: time.Hour}, []string{"vllm-v1"})
	must.Succeed(t, err)
	return autoscaling.Config{
		Format: format, Deployment: d.Deployment, Workload: "llm", Namespace: "prod", Prometheus: "http://prometheus:9090", Min: 1, Max: 8,
		Capacity: autoscaling.Capacity{InFlight: 24.9, From: "a load test"}, Start: 7 * time.Minute,
	}
}

func TestScaledObject(t *testing.T) {
	files, err := autoscaling.Generate(config(t, autoscaling.KEDA))
	must.Succeed(t, err)
	var o struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
		Spec     struct {
			MinReplicaCount, MaxReplicaCount int
			Advanced                         struct {
				HorizontalPodAutoscalerConfig struct {
					Behavior struct {
						ScaleDown struct{ StabilizationWindowSeconds int }
					}
				}
			}
			Triggers []struct {
				Type, MetricType string
				Metadata         struct{ ServerAddress, Threshold, Query string }
			}
		}
	}
	must.Succeed(t, yaml.Unmarshal(lowered(files[0].Content), &o))
	trigger := o.Spec.Triggers[0]
	if o.Kind != "ScaledObject" || o.Metadata.Namespace != "prod" || o.Spec.MaxReplicaCount != 8 || trigger.MetricType != "AverageValue" {
		t.Errorf("%+v", o)
	}
	if trigger.Metadata.Threshold != "19" { // 80 % of 24.9
		t.Errorf("threshold %s, want 19", trigger.Metadata.Threshold)
	}
	if got := o.Spec.Advanced.HorizontalPodAutoscalerConfig.Behavior.ScaleDown.StabilizationWindowSeconds; got != 840 {
		t.Errorf("takes replicas away after %d s, want twice the time of a start", got)
	}
	for _, name := range []string{"vllm:num_requests_running[1m]", "vllm:num_requests_waiting[1m]"} {
		if !strings.Contains(trigger.Metadata.Query, name) {
			t.Errorf("the query %s lacks %s", trigger.Metadata.Query, name)
		}
	}
}

// lowered are keys as this package's reader knows them: in small letters.
func lowered(content []byte) []byte {
	var out []string
	for line := range strings.Lines(string(content)) {
		if key, rest, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			line = strings.ToLower(key) + ":" + rest
		}
		out = append(out, line)
	}
	return []byte(strings.Join(out, ""))
}

func TestHPA(t *testing.T) {
	files, err := autoscaling.Generate(config(t, autoscaling.HPA))
	must.Succeed(t, err)
	dec := yaml.NewDecoder(strings.NewReader(string(files[0].Content)))
	for _, want := range []string{"HorizontalPodAutoscaler", "metricsQuery"} {
		var doc map[string]any
		must.Succeed(t, dec.Decode(&doc))
		text, err := yaml.Marshal(doc)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s, %v", want, text, err)
		}
	}
}

func TestInvalidAutoscalersAreRefused(t *testing.T) {
	for want, change := range map[string]func(*autoscaling.Config){
		"nothing to scale":         func(c *autoscaling.Config) { c.Workload = "" },
		"not a replica's capacity": func(c *autoscaling.Config) { c.Capacity.InFlight = 0 },
		"from 0 to 8 replicas":     func(c *autoscaling.Config) { c.Min = 0 },
		"from 1 to 0 replicas":     func(c *autoscaling.Config) { c.Max = 0 },
		"must be more than 0":      func(c *autoscaling.Config) { c.Start = 0 },
	} {
		c := config(t, autoscaling.KEDA)
		change(&c)
		if _, err := autoscaling.Generate(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestReadCapacity(t *testing.T) {
	for name, tc := range map[string]struct {
		content string
		want    float64
		fail    string
	}{
		"a load test":      {`{"schema":"sixty.baseline/v1","source":"load test","capacity":4.5,"concurrency":31.5,"thresholds":[]}`, 31.5, ""},
		"a simulation":     {`{"schema":"sixty.tune/v3","result":{"rows":[{"row":"surely","running":9},{"row":"smallest","running":12}]}}`, 12, ""},
		"a healthy span":   {`{"schema":"sixty.baseline/v1","thresholds":[]}`, 0, "no number of requests in flight"},
		"no configuration": {`{"schema":"sixty.tune/v3"}`, 0, "no configuration meets"},
		"another file":     {`{"schema":"x"}`, 0, "schema"},
		"no JSON":          {`<html>`, 0, "invalid character"},
	} {
		got, _, err := autoscaling.ReadCapacity("f", []byte(tc.content))
		if got.InFlight != tc.want || (err == nil) != (tc.fail == "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
