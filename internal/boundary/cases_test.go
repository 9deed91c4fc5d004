package boundary_test

import (
	"cmp"
	"context"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/boundary"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/history"
	"github.com/sixty-dev/sixty/internal/history/replay"
	"github.com/sixty-dev/sixty/internal/indicator"
)

// seenAs are the verdicts that a diagnosis calls by the name of the servers' pathology.
var seenAs = map[string]string{"gateway-errors": "http-errors", "gateway-cancellations": "client-cancellations", "gateway-imbalance": "replica-imbalance"}

func cases(t *testing.T, p *catalog.Pathology) fs.FS {
	t.Helper()
	all, err := boundary.Cases()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := fs.Sub(all, strings.ReplaceAll(p.ID, "-", "")+"/testdata")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// pageAt is what a case's gateway shows at a scrape.
func pageAt(c *history.Case, i int) (page []boundary.Sample) {
	for _, series := range c.Series() {
		for _, s := range series {
			page = append(page, boundary.Sample{Name: s.Labels.Get(labels.MetricName), Labels: s.Labels.Map(), Value: s.Values[i]})
		}
	}
	return page
}

// TestDiagnosisAndAlertsAgree gives each verdict's cases, a gateway that is ill and one
// that comes near, to the diagnosis of two pages and to the alert rules, told at several
// paces of scraping: both must say the same.
func TestDiagnosisAndAlertsAgree(t *testing.T) {
	v1, err := dialect.Named("vllm-v1")
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := dialect.Named(string(dialect.Gateway))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range boundary.Verdicts() {
		for _, name := range []string{"fires", "nearmiss"} {
			t.Run(p.ID+" "+name, func(t *testing.T) {
				t.Parallel()
				c, err := history.Open(cases(t, p), name)
				if err != nil {
					t.Fatal(err)
				}
				last := c.Scrapes - 1
				before, _ := boundary.Read(pageAt(c, last-50), time.Unix(0, 0))
				after, ok := boundary.Read(pageAt(c, last), time.Unix(50, 0))
				if !ok {
					t.Fatal("not a gateway's page")
				}
				id := cmp.Or(seenAs[p.ID], p.ID)
				found := slices.ContainsFunc(boundary.Look(before, after, nil, nil, nil).Findings, func(f boundary.Finding) bool { return f.ID == id })
				// That no upstream is up is said by those that are down.
				if want := name == "fires" && p.ID != "no-upstream"; found != want {
					t.Errorf("diagnosis: found is %v", found)
				}
				for _, interval := range []time.Duration{15 * time.Second, 30 * time.Second, time.Minute} {
					window, short := generate.Windows(interval)
					rules, err := generate.NewRules(generate.RulesConfig{
						Deployment: generate.Deployment{
							Dialects: []dialect.Dialect{v1, gateway}, Instance: generate.UsualInstance, Model: generate.UsualModel,
							Window: window, Short: short, Past: time.Hour,
						},
						Pathologies: []*catalog.Pathology{p}, Interval: interval, Past: generate.UsualPast, Ago: generate.UsualAgo, Runbooks: catalog.Runbooks{},
					})
					if err != nil {
						t.Fatal(err)
					}
					told := generate.Told{
						Alert: p.Alert, Fires: name == "fires", Case: c.Stretch(interval, 1), Scrape: interval, Evaluation: interval,
						Labels: map[string]string{"namespace": "prod"},
					}
					told.Series = told.Case.Series()
					if ok, err := replay.Holds(context.Background(), rules.Groups(), told); err != nil || !ok {
						t.Errorf("every %s: the alert does not what the case says (%v)", interval, err)
					}
				}
			})
		}
	}
}

// TestOneConditionIsAboutOneKindOfPart: comparisons of the parts of a gateway by model and
// by upstream never meet.
func TestOneConditionIsAboutOneKindOfPart(t *testing.T) {
	for _, p := range boundary.Verdicts() {
		seen := map[string]bool{}
		p.When.Signals(func(s *indicator.Signal) {
			seen[s.Per] = true
			if s.Scope != indicator.Gateway {
				t.Errorf("%s reads %s, which is none of a gateway", p.ID, s.Name)
			}
			if s.Per != "" && !strings.Contains(s.Expr, "by (instance)") {
				t.Errorf("%s is by %s and not added up by instance", s.Name, s.Per)
			}
		})
		if len(seen) != 1 {
			t.Errorf("%s is about %v", p.ID, seen)
		}
	}
}

// TestAModelIsNotThinnedOut: one model fails all of its few requests beside another that
// is well, and the name of the first is said.
func TestAModelIsNotThinnedOut(t *testing.T) {
	page := func(scale float64) (out []boundary.Sample) {
		for _, s := range []struct {
			model, status string
			n             float64
		}{{"big", "success", 1000}, {"big", "upstream_error", 0}, {"small", "success", 0}, {"small", "upstream_error", 10}} {
			out = append(out, boundary.Sample{Name: "sixty_gateway_requests_total", Value: s.n * scale,
				Labels: map[string]string{"model": s.model, "status": s.status, "route": "/v1/chat/completions"}})
		}
		return out
	}
	before, _ := boundary.Read(page(1), time.Unix(0, 0))
	after, _ := boundary.Read(page(2), time.Unix(60, 0))
	v := boundary.Look(before, after, nil, nil, nil)
	if len(v.Findings) != 1 || v.Findings[0].ID != "http-errors" || !strings.HasPrefix(v.Findings[0].Summary, "small: 10 of 10 requests") {
		t.Errorf("found %+v", v.Findings)
	}
}
