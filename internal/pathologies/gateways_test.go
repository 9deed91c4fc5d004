package pathologies_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestAlertsAtGatewaysAtEveryPace evaluates the alert rules on the cases of gateways at several scrape intervals: they
// must agree with the diagnosis.
func TestAlertsAtGatewaysAtEveryPace(t *testing.T) {
	for _, p := range pathologies.All() {
		if p.Scope() != indicator.Gateway {
			continue
		}
		for _, name := range []string{"fires", "nearmiss"} {
			t.Run(p.ID+" "+name, func(t *testing.T) {
				t.Parallel()
				c := openCase(t, strings.ReplaceAll(p.ID, "-", "")+"/testdata", name, p)
				for _, interval := range []time.Duration{30 * time.Second, time.Minute} {
					if want := name == "fires"; alertFires(t, p, c, interval, 0, want) != want {
						t.Errorf("every %s: want firing %v", interval, want)
					}
				}
			})
		}
	}
}

// alertFires evaluates the rules of one pathology on a case, stretched to a scrape interval. A window of 0 is the usual
// one.
func alertFires(
	t *testing.T, p *catalog.Pathology, c *history.Case, interval, window time.Duration, atSomeTime bool,
) bool {
	t.Helper()
	cfg := usualRules(t, interval, "vllm-v1", string(dialect.Gateway))
	cfg.Deployment.Window, cfg.Pathologies = max(cfg.Deployment.Window, window), []*catalog.Pathology{p}
	rules, err := generate.NewRules(cfg)
	must.Succeed(t, err)
	alert := generate.AlertNames(&cfg.Deployment, p)[0]
	return firesOn(t, rules.Groups(), alert, c.Stretch(interval, 1), interval, atSomeTime)
}

func byID(id string) *catalog.Pathology {
	all := pathologies.All()
	return all[slices.IndexFunc(all, func(p *catalog.Pathology) bool { return p.ID == id })]
}

// TestErrorsThatGoOnPage holds that a moment of errors, such as when one of two servers dies, raises no alert, and that
// few errors that continue do.
func TestErrorsThatGoOnPage(t *testing.T) {
	const series = `{model="m",route="/v1/chat/completions",tenant="",status="upstream_error"}`
	const oneAMinute = " 0x29 1x3 2x3 3x3 4x3 5x3 6x3 7x3 8x3 9x3 10x3 11x10"
	for name, tt := range map[string]struct {
		values           string
		interval, window time.Duration
		fires            bool
	}{
		"a moment":                      {" 0x29 20x50", 15 * time.Second, 0, false},
		"on the edge of two scrapes":    {" 0x29 10 20x49", 15 * time.Second, 0, false},
		"the same, every 30 s":          {" 0x29 10 20x49", 30 * time.Second, 0, false},
		"it goes on":                    {" 0x29 5+5x50", 30 * time.Second, 0, true},
		"one a minute":                  {oneAMinute, 15 * time.Second, 0, false},
		"one a minute, a longer window": {oneAMinute, 15 * time.Second, 10 * time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := "every 1s for 81s\nlike gateway\n\nsixty_gateway_requests_total" + series + tt.values + "\n"
			if strings.Contains(name, "one a minute") {
				text += "sixty_gateway_requests_total" + strings.Replace(series, "upstream_error", "success", 1) + " 0x80\n"
			}
			c, err := history.Parse(nil, text)
			must.Succeed(t, err)
			if fires := alertFires(t, byID("gateway-errors"), c, tt.interval, tt.window, true); fires != tt.fires {
				t.Errorf("fires: %v", fires)
			}
		})
	}
}

// TestAModelIsNotThinnedOut plays a model whose few requests all fail, and a healthy one behind the same gateway. The
// finding must be the first model's alone.
func TestAModelIsNotThinnedOut(t *testing.T) {
	const rate = `rate sixty_gateway_requests_total{model="small",route="/v1/chat/completions",tenant="",status=`
	c, err := history.Parse(nil, "every 1s for 120s\nlike gateway\n"+behind[0]+"\n"+
		rate+"\"success\"} 0.4x60,0\n"+rate+"\"upstream_error\"} 0x60,0.4\n")
	must.Succeed(t, err)
	small, err := history.Parse(nil, "every 1s for 120s\nlike healthy\n")
	must.Succeed(t, err)
	must.Succeed(t, c.Add(`sixty_gateway_upstream_up{upstream="small-a:8000"} 1x119`))
	d := diagnoseBeside(t, c, small, "small")
	v := d.Verdict
	if v.ID != "gateway-errors" || v.Model != "small" || !strings.HasPrefix(v.Summary, "small: 100 %") {
		t.Errorf("%s of %q: %s", v.ID, v.Model, v.Summary)
	}
	for _, f := range d.Findings {
		if f.Status == diagnose.Firing && f.Model != "small" {
			t.Errorf("%s of %q: %s", f.Pathology.ID, f.Model, f.Summary)
		}
	}
	if ago := d.At.Sub(v.Since); v.SinceAtLeast || ago < 50*time.Second || ago > 61*time.Second {
		t.Errorf("since %s (at least: %t); errors began 60 s ago, and three of them make a fault", ago, v.SinceAtLeast)
	}
}

// TestACauseExplainsItsOwnModelAlone holds that a hung engine of one model explains nothing at another model's gateway.
func TestACauseExplainsItsOwnModelAlone(t *testing.T) {
	hang := byID("hang-outside-engine")
	c := openCase(t, "hangoutsideengine/testdata", "fires", hang)
	beside, err := history.Parse(nil,
		"every 1s for 120s\nlike healthy\nvllm:num_requests_running{model_name=\"m\",engine=\"0\"} 4x119\n"+
			"rate vllm:generation_tokens_total{model_name=\"m\",engine=\"0\"} 200x60,0\nrate vllm:request_success_total{model_name=\"m\",engine=\"0\",finished_reason=\"stop\"} 2x60,0\n"+
			"hist vllm:time_to_first_token_seconds{model_name=\"m\",engine=\"0\"} mean=0.06 rate=2x60,0\nhist vllm:inter_token_latency_seconds{model_name=\"m\",engine=\"0\"} mean=0.02 rate=198x60,0\n"+
			"hist vllm:iteration_tokens_total{model_name=\"m\",engine=\"0\"} mean=24 rate=50x60,0\n")
	must.Succeed(t, err)
	d := diagnoseBeside(t, c, beside, "other")
	of := map[string]string{}
	for _, f := range d.Findings {
		if f.Status == diagnose.Firing {
			of[f.Pathology.ID+" of "+f.Model] = f.InhibitedBy
		}
	}
	if by, fires := of["hang-outside-engine of m"]; !fires || by != "" {
		t.Errorf("found: %v", of)
	}
	if _, fires := of["engine-hung of other"]; !fires {
		t.Errorf("found: %v", of)
	}
}
