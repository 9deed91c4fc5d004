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
	"github.com/prometheus/prometheus/model/rulefmt"

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

// rulesOf are the rules of one verdict.
func rulesOf(t *testing.T, p *catalog.Pathology, interval, window, short time.Duration) []rulefmt.RuleGroup {
	t.Helper()
	var dialects []dialect.Dialect
	for _, id := range []string{"vllm-v1", string(dialect.Gateway)} {
		d, err := dialect.Named(id)
		if err != nil {
			t.Fatal(err)
		}
		dialects = append(dialects, d)
	}
	rules, err := generate.NewRules(generate.RulesConfig{
		Deployment: generate.Deployment{
			Dialects: dialects, Instance: generate.UsualInstance, Model: generate.UsualModel,
			Window: window, Short: short, Past: time.Hour,
		},
		Pathologies: []*catalog.Pathology{p}, Interval: interval, Past: generate.UsualPast, Ago: generate.UsualAgo,
	})
	if err != nil {
		t.Fatal(err)
	}
	return rules.Groups()
}

// TestDiagnosisAndAlertsAgree gives each verdict's cases, a gateway that is ill and one
// that comes near, to the diagnosis of two pages and to the alert rules, told at several
// paces of scraping: both must say the same.
func TestDiagnosisAndAlertsAgree(t *testing.T) {
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
					told := generate.Told{
						Alert: p.Alert, Fires: name == "fires", Case: c.Stretch(interval, 1), Scrape: interval, Evaluation: interval,
						Labels: map[string]string{"namespace": "prod"},
					}
					told.Series = told.Case.Series()
					if ok, err := replay.Holds(context.Background(), rulesOf(t, p, interval, window, short), told); err != nil || !ok {
						t.Errorf("every %s: the alert does not what the case says (%v)", interval, err)
					}
				}
			})
		}
	}
}

// TestErrorsThatGoOnPage tells a moment of errors, as of a server that dies beside another
// one, from few that go on.
func TestErrorsThatGoOnPage(t *testing.T) {
	const series = `{model="m",route="/v1/chat/completions",tenant="",status="upstream_error"}`
	for name, tt := range map[string]struct {
		text             string
		interval, window time.Duration
		fires            bool
	}{
		"a moment":                      {"sixty_gateway_requests_total" + series + " 0x29 20x50", 15 * time.Second, 0, false},
		"on the edge of two scrapes":    {"sixty_gateway_requests_total" + series + " 0x29 10 20x49", 15 * time.Second, 0, false},
		"the same, every 30 s":          {"sixty_gateway_requests_total" + series + " 0x29 10 20x49", 30 * time.Second, 0, false},
		"it goes on":                    {"sixty_gateway_requests_total" + series + " 0x29 5+5x50", 30 * time.Second, 0, true},
		"one a minute":                  {"sixty_gateway_requests_total" + series + " 0x29 1x3 2x3 3x3 4x3 5x3 6x3 7x3 8x3 9x3 10x3 11x10", 15 * time.Second, 0, false},
		"one a minute, a longer window": {"sixty_gateway_requests_total" + series + " 0x29 1x3 2x3 3x3 4x3 5x3 6x3 7x3 8x3 9x3 10x3 11x10", 15 * time.Second, 10 * time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := "every 1s for 81s\nlike gateway\n\n" + tt.text + "\n"
			if strings.Contains(name, "one a minute") {
				text += strings.Replace("sixty_gateway_requests_total"+series, "upstream_error", "success", 1) + " 0x80\n"
			}
			c, err := history.Parse(nil, text)
			if err != nil {
				t.Fatal(err)
			}
			window, short := generate.Windows(tt.interval)
			p := boundary.Verdicts()[slices.IndexFunc(boundary.Verdicts(), func(p *catalog.Pathology) bool { return p.ID == "gateway-errors" })]
			told := generate.Told{Alert: p.Alert, Fires: true, Case: c.Stretch(tt.interval, 1), Scrape: tt.interval, Evaluation: tt.interval}
			told.Series = told.Case.Series()
			fires, err := replay.Holds(context.Background(), rulesOf(t, p, tt.interval, max(window, tt.window), short), told)
			if err != nil || fires != tt.fires {
				t.Errorf("fires: %v (%v)", fires, err)
			}
		})
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
			out = append(out, boundary.Sample{
				Name: "sixty_gateway_requests_total", Value: s.n * scale,
				Labels: map[string]string{"model": s.model, "status": s.status, "route": "/v1/chat/completions"},
			})
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
