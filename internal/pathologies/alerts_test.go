package pathologies_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/measure"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// Windows that fit recordings of some minutes.
const (
	alertWindow = 30 * time.Second
	alertShort  = 10 * time.Second
)

// TestAlertsAgreeWithDiagnosis measures the normal on the healthy phase of recordings, generates rules with it, and
// evaluates them with Prometheus' own code at the end of every phase: the alerts that are pending or firing must be the
// findings of a diagnosis with the same normal.
func TestAlertsAgreeWithDiagnosis(t *testing.T) {
	t.Parallel()
	compared, active := 0, 0
	for _, file := range kinds(t) {
		p := load(t, file, everyStep(0, 0))[0] // of its own: rules write into it
		deployment := p.deployment(t)
		if len(deployment.Dialects) == 0 {
			continue
		}
		normal := p.normal(t)
		cfg := generate.RulesConfig{
			Deployment:  deployment,
			Pathologies: pathologies.All(), Measured: normal,
			Interval: 5 * time.Second, Past: generate.UsualPast, Ago: generate.UsualAgo,
		}
		generated, err := generate.NewRules(cfg)
		must.Succeed(t, err)
		rules, err := p.store.Rules(generated.Groups())
		must.Succeed(t, err)
		for i, phase := range p.truth.Phases {
			at := time.UnixMilli(phase.ToMS)
			if err := rules.Eval(t.Context(), at); err != nil {
				t.Errorf("%s/%s: %v", p.name, phase.Name, err)
			}
			alerts := map[string][]string{}
			for _, a := range rules.Alerts() {
				alerts[a.Labels["pathology"]] = append(alerts[a.Labels["pathology"]], a.Labels["instance"])
				active++
			}
			d := run(t, p.store, diagnose.Options{At: at, First: p.first, Interval: time.Second, Window: alertWindow,
				Settings: diagnose.Settings{Baselines: normal}})
			findings := map[string][]string{}
			for _, f := range d.Findings {
				// No alerts are generated here for the routers of recordings.
				if f.Status >= diagnose.Pending && f.Pathology.Scope() != indicator.Gateway {
					findings[f.Pathology.ID] = f.Targets
				}
			}
			for _, list := range []map[string][]string{alerts, findings} {
				for id := range list {
					slices.Sort(list[id])
					list[id] = slices.Compact(list[id])
				}
			}
			compared += len(pathologies.All())
			if diff := cmp.Diff(findings, alerts); diff != "" {
				t.Errorf("%s, phase %d (%s): -diagnosis +alerts:\n%s", p.name, i, phase.Name, diff)
			}
		}
		p.store.Close()
	}
	t.Logf("%d conditions compared, %d alerts active", compared, active)
}

// normal measures the first phase, which is healthy. If it has too few samples, the measurement is nearly empty.
func (p *played) normal(t *testing.T) []*baseline.File {
	t.Helper()
	first := p.truth.Phases[0]
	files, err := measure.Measure(t.Context(), p.store, measure.Config{
		From: time.UnixMilli(first.FromMS), To: time.UnixMilli(first.ToMS), Window: alertShort, Short: alertShort, Source: p.name,
	})
	if err != nil {
		t.Logf("%s: %v", p.name, err)
		return []*baseline.File{{Normal: map[string]float64{"up": 1}}}
	}
	return files
}

func (p *played) deployment(t *testing.T) dialect.Deployment {
	t.Helper()
	d := dialect.Deployment{
		Instance: []string{"instance"}, Model: []string{"model_name"},
		Window: alertWindow, Short: alertShort, Past: time.Hour,
	}
	last := p.truth.Phases[len(p.truth.Phases)-1]
	targets, _, err := identity.Discover(t.Context(), p.store, identity.Search{At: time.UnixMilli(last.ToMS),
		Lookback: time.Hour})
	must.Succeed(t, err)
	i := slices.IndexFunc(targets, func(x diagnose.Target) bool { return x.Dialect.Engine != dialect.Gateway })
	if i < 0 {
		return dialect.Deployment{} // a router alone
	}
	d.Dialects = append(d.Dialects, targets[i].Dialect)
	gpu, err := dialect.Named("dcgm")
	must.Succeed(t, err)
	d.Dialects = append(d.Dialects, gpu)
	return d
}
