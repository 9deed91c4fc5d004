package generate_test

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/base/docs"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

func named(t testing.TB, ids ...string) []dialect.Dialect {
	t.Helper()
	var out []dialect.Dialect
	for _, id := range append(ids, "dcgm", "gateway") {
		d, err := dialect.Named(id)
		must.Succeed(t, err)
		out = append(out, d)
	}
	return out
}

func usual(t testing.TB) generate.RulesConfig {
	return generate.RulesConfig{
		Deployment: dialect.Deployment{
			Dialects: named(t, "vllm-v1"), Instance: dialect.UsualInstance, Model: dialect.UsualModel,
			Window: 5 * time.Minute, Short: time.Minute, Past: time.Hour,
		},
		Pathologies: pathologies.All(),
		Interval:    generate.UsualInterval, Past: generate.UsualPast, Ago: generate.UsualAgo,
		Runbooks: docs.Runbooks{URL: "https://example.com/", Suffix: ".md"},
	}
}

func rulesOf(t *testing.T, cfg generate.RulesConfig) *generate.Rules {
	t.Helper()
	r, err := generate.NewRules(cfg)
	must.Succeed(t, err)
	return r
}

func objectives(t *testing.T, text string) *slo.File {
	t.Helper()
	f, err := slo.Parse("slo.yaml", []byte(text))
	must.Succeed(t, err)
	return f
}

// configs are the shapes that rules can take.
func configs(t *testing.T) map[string]generate.RulesConfig {
	with := func(change func(*generate.RulesConfig)) generate.RulesConfig {
		cfg := usual(t)
		change(&cfg)
		return cfg
	}
	measured := &baseline.File{Model: "m", Source: "load test", Normal: map[string]float64{"ttft_p50": 0.1, "itl_mean": 0.02, "decode_batch": 4}, Thresholds: []baseline.Threshold{{Signal: "ttft_p95", Op: ">", Value: 0.4}}}
	return map[string]generate.RulesConfig{
		"usual":      usual(t),
		"V0":         with(func(c *generate.RulesConfig) { c.Deployment.Dialects = named(t, "vllm-v0") }),
		"SGLang":     with(func(c *generate.RulesConfig) { c.Deployment.Dialects = named(t, "sglang") }),
		"Ray":        with(func(c *generate.RulesConfig) { c.Deployment.Dialects = named(t, "vllm-v1-ray") }),
		"normalised": with(func(c *generate.RulesConfig) { c.Deployment.Dialects = named(t, "vllm-v1-normalized") }),
		"mixed versions": with(func(c *generate.RulesConfig) {
			c.Deployment.Dialects = named(t, "vllm-v1", "vllm-0.9", "vllm-v1-kserve", "sglang")
		}),
		"objectives": with(func(c *generate.RulesConfig) {
			c.Objectives = objectives(t, "objectives:\n- {model: \"meta-llama/*\", namespace: prod, use_case: chat, availability: 99.9%}\n- {model: small, ttft_p95: 200ms}\n- {use_case: batch}\n")
		}),
		"measured": with(func(c *generate.RulesConfig) { c.Measured = []*baseline.File{measured} }),
		"measured for objectives": with(func(c *generate.RulesConfig) {
			c.Measured = []*baseline.File{measured}
			c.Objectives = objectives(t, "objectives:\n- {model: \"m*\", e2e_p95: 5s}\n- {service: api, itl_p95: 50ms}\n")
		}),
		"set by hand": with(func(c *generate.RulesConfig) { c.Set = map[string]float64{"kv_cache_full": 0.99} }),
		"matchers and own labels": with(func(c *generate.RulesConfig) {
			c.Deployment.Instance, c.Deployment.GPU = []string{"pod"}, []string{"node"}
			c.Deployment.Matchers = []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "env", "prod|live")}
			c.Labels = map[string]string{"team": "ml"}
			c.DashboardURL, c.Panel = "https://grafana/", func(p *catalog.Pathology) string { return "/d/" + p.ID + "?viewPanel=1" }
		}),
	}
}

// cannotTell lists the pathologies that servers do not expose enough for.
var cannotTell = map[string][]string{
	"V0": {"corrupted-outputs", "decode-lost", "kv-offload-slow", "kv-tier-misses", "kv-transfer-failing", "kv-transfer-slow", "pd-imbalance", "prefill-lost", "prefix-cache-misses"},
	"SGLang": {
		"corrupted-outputs", "decode-lost", "kv-offload-slow", "kv-tier-misses", "kv-transfer-failing", "kv-transfer-slow", "pd-imbalance", "prefill-lost", "speculation-collapse",
	},
}

func TestRulesAreValid(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool is not on PATH: its check is left out")
	}
	for name, cfg := range configs(t) {
		t.Run(name, func(t *testing.T) {
			r := rulesOf(t, cfg)
			content, err := generate.Encode(r.Groups(), generate.Plain, "sixty", "", nil)
			must.Succeed(t, err)
			if _, errs := rulefmt.Parse(content, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler)); len(errs) > 0 {
				t.Fatal(errs)
			}
			alerts, labelled := map[string]bool{}, map[string]bool{}
			for _, g := range r.Groups() {
				for _, rule := range g.Rules {
					alerts[rule.Alert] = true
					if key := fmt.Sprint(rule.Alert, rule.Labels); rule.Alert != "" && labelled[key] {
						t.Errorf("two rules of %s have the labels %v: their ALERTS_FOR_STATE collide", rule.Alert, rule.Labels)
					} else {
						labelled[key] = true
					}
					if rule.Alert != "" && (rule.Annotations["summary"] == "" || rule.Annotations["runbook_url"] == "" || rule.Annotations["thresholds"] == "") {
						t.Errorf("%s lacks an annotation: %v", rule.Alert, rule.Annotations)
					}
				}
			}
			var without []string
			for _, p := range cfg.Pathologies {
				if !alerts[generate.AlertNames(&cfg.Deployment, p)[0]] {
					without = append(without, p.ID)
				}
			}
			slices.Sort(without)
			if want := cannotTell[name]; !slices.Equal(without, want) {
				t.Errorf("no alerts for %v, want none for %v (cannotTell lists what servers do not expose enough for): %v", without, want, r.Warnings)
			}
			for _, id := range without {
				if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasPrefix(w, "no alert for "+id+": these servers do not expose ") }) {
					t.Errorf("nothing says why there is no alert for %s: %v", id, r.Warnings)
				}
			}
			if promtool == "" {
				return
			}
			file := filepath.Join(t.TempDir(), "rules.yaml")
			must.Succeed(t, os.WriteFile(file, content, 0o600))
			if out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput(); err != nil {
				t.Errorf("promtool: %v\n%s", err, out)
			}
		})
	}
}

// TestAShortOutageIsSeen plays an outage of 61 s, and single lost scrapes, at every phase
// of the rules' evaluation.
func TestAShortOutageIsSeen(t *testing.T) {
	const alert = "VLLMTargetDown"
	c, err := history.Parse(nil, "every 15s for 180s\nlike healthy\n")
	must.Succeed(t, err)
	healthy := c.Series()[history.UsualInstance]
	for _, scrape := range []time.Duration{5 * time.Second, 15 * time.Second, 30 * time.Second} {
		cfg := usual(t)
		cfg.Interval = scrape
		cfg.Deployment.Window, cfg.Deployment.Short = generate.Windows(scrape)
		groups, _ := generate.GroupsBehind(rulesOf(t, cfg).Groups(), alert)
		for phase := time.Duration(0); phase < scrape; phase += max(scrape/3, 5*time.Second) {
			for _, down := range []time.Duration{scrape, 61 * time.Second} {
				store := embeddedtest.New(t)
				rules, err := store.Rules(groups)
				must.Succeed(t, err)
				fired, begin := false, 3*time.Minute+phase/2
				target := embedded.Target{Instance: "a:8000", Job: "vllm"}
				for second := time.Duration(0); second < 6*time.Minute; second += time.Second {
					at := history.Start.Add(second)
					if second%scrape == 0 {
						if second >= begin && second < begin+down {
							err = store.AppendFailure(target, at)
						} else {
							_, err = store.Append(target, at, pageOf(healthy, min(int(second/(30*time.Second)), 11)), "", 10*time.Millisecond)
						}
						must.Succeed(t, err)
					}
					if (second+phase)%scrape == 0 {
						must.Succeed(t, rules.Eval(t.Context(), at))
						fired = fired || slices.ContainsFunc(rules.Alerts(), func(a embedded.Alert) bool { return a.Name == alert && a.Firing })
					}
				}
				if want := down > scrape; fired != want {
					t.Errorf("scraped every %s, down for %s, evaluated %s later: fired is %v", scrape, down, phase, fired)
				}
			}
		}
	}
}

func TestThresholdsSayWhereTheyComeFrom(t *testing.T) {
	find := func(r *generate.Rules, objective string) rulefmt.Rule {
		for _, g := range r.Groups() {
			for _, rule := range g.Rules {
				if rule.Alert == "VLLMKVCacheThrashing" && rule.Labels["objective"] == objective {
					return rule
				}
			}
		}
		t.Fatalf("no alert for objective %q", objective)
		return rulefmt.Rule{}
	}
	all := configs(t)
	for name, tt := range map[string]struct {
		config, objective string
		want              []string // in the annotation
		expr              string
	}{
		"nothing given":      {"usual", "", []string{"ttft_p95 > 3 s (default)", "ttft_p50 > 2 × its median over 1d, 1h ago + 50 ms (the past)"}, "vllm_ttft_p95_seconds:5m > 3"},
		"set by hand":        {"set by hand", "", []string{"kv_cache_usage_peak > 99 % (set by hand)"}, "> 0.99"},
		"an objective":       {"objectives", "chat", []string{"ttft_p95 > 500 ms (the objective (chat))", "itl_p95 > 50 ms (the objective (chat))"}, "vllm_ttft_p95_seconds:5m > 0.5"},
		"measured":           {"measured", "none measured m", []string{"ttft_p95 > 400 ms", "ttft_p50 > 2 × 100 ms + 50 ms (measured: load test)"}, "vllm_ttft_p50_seconds:5m > 0.25"},
		"of the other model": {"measured", "none", []string{"ttft_p95 > 3 s (default)"}, `model_name!~"m"`},
	} {
		t.Run(name, func(t *testing.T) {
			rule := find(rulesOf(t, all[tt.config]), tt.objective)
			for _, w := range tt.want {
				if !strings.Contains(rule.Annotations["thresholds"], w) {
					t.Errorf("thresholds do not say %q:\n%s", w, rule.Annotations["thresholds"])
				}
			}
			if !strings.Contains(rule.Expr, tt.expr) {
				t.Errorf("the expression lacks %q:\n%s", tt.expr, rule.Expr)
			}
		})
	}
}

func TestObjectivesDecideTheSeverity(t *testing.T) {
	got := map[string][]string{}
	for _, g := range rulesOf(t, configs(t)["objectives"]).Groups() {
		for _, rule := range g.Rules {
			if rule.Alert == "VLLMKVCacheThrashing" || rule.Alert == "VLLMEngineHung" {
				got[rule.Alert] = append(got[rule.Alert], rule.Labels["objective"]+" "+rule.Labels["severity"])
			}
		}
	}
	want := map[string][]string{
		"VLLMKVCacheThrashing": {"chat page", "chat ticket", "slo page", "slo ticket", "batch page", "batch ticket"},
		"VLLMEngineHung":       {"chat page", "chat ticket", "slo page", "slo ticket", "batch page", "batch ticket"},
	}
	must.Equal(t, want, got)
}

func TestEncodeRefusesAnUnknownFormat(t *testing.T) {
	if _, err := generate.Encode(nil, "nagios", "x", "", nil); err == nil || !strings.Contains(err.Error(), "prometheusrule") {
		t.Errorf("got %v", err)
	}
}

func TestRulesRefuseWhatCannotWork(t *testing.T) {
	for name, change := range map[string]func(*generate.RulesConfig){
		"no dialect":                       func(c *generate.RulesConfig) { c.Deployment.Dialects = nil },
		"no label of a target":             func(c *generate.RulesConfig) { c.Deployment.Instance = nil },
		"a window shorter than two rounds": func(c *generate.RulesConfig) { c.Deployment.Window = 45 * time.Second },
		"no past":                          func(c *generate.RulesConfig) { c.Past = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := usual(t)
			change(&cfg)
			if _, err := generate.NewRules(cfg); err == nil {
				t.Error("accepted")
			}
		})
	}
}

// FuzzObjectives renders rules for whatever slo.yaml can hold.
func FuzzObjectives(f *testing.F) {
	f.Add("objectives:\n- {model: \"a*\", namespace: \"b[c-\", ttft_p95: 1s}\n- {cluster: \"\\\"\", use_case: chat}\n")
	f.Add("objectives:\n- {model: \"a?\", itl_p95: 1ms}\n- {service: s, availability: 99%}\n")
	d, err := dialect.Named("vllm-v1")
	must.Succeed(f, err)
	gpu, err := dialect.Named("dcgm")
	must.Succeed(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		o, err := slo.Parse("slo.yaml", []byte(text))
		if err != nil || len(o.Objectives) > 5 {
			return
		}
		r, err := generate.NewRules(generate.RulesConfig{
			Deployment:  dialect.Deployment{Dialects: []dialect.Dialect{d, gpu}, Instance: []string{"instance"}, Model: []string{"model_name"}, Window: 5 * time.Minute, Short: time.Minute, Past: time.Hour},
			Pathologies: pathologies.All()[3:5], Objectives: o, Interval: time.Minute, Past: 24 * time.Hour, Ago: time.Hour,
		})
		if err != nil {
			return
		}
		content, err := generate.Encode(r.Groups(), generate.Plain, "x", "", nil)
		must.Succeed(t, err)
		if _, errs := rulefmt.Parse(content, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler)); len(errs) > 0 {
			t.Fatal(fmt.Errorf("%v\n%s", errs, text))
		}
	})
}

// TestWindowsFollowTheInterval evaluates the shortest rate at every phase of the
// scrapes: two of them are in it.
func TestWindowsFollowTheInterval(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute} {
		window, short := generate.Windows(interval)
		cfg := usual(t)
		cfg.Interval, cfg.Deployment.Window, cfg.Deployment.Short = interval, window, short
		cfg.Deployment.Past = max(cfg.Deployment.Past, window)
		name := "instance_model:vllm_engine_progress:" + model.Duration(window).String()
		groups := rulesOf(t, cfg).Groups()
		for i := range groups {
			groups[i].Rules = slices.DeleteFunc(groups[i].Rules, func(r rulefmt.Rule) bool { return r.Record != name })
		}
		store := embeddedtest.New(t)
		c, err := history.Parse(nil, "every 15s for 180s\nlike healthy\n")
		must.Succeed(t, err)
		healthy := c.Series()[history.UsualInstance]
		for k := range 12 {
			if _, err := store.Append(embedded.Target{Instance: "a:8000", Job: "vllm"}, history.Start.Add(time.Duration(k)*interval), pageOf(healthy, k), "", time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		rules, err := store.Rules(groups)
		must.Succeed(t, err)
		for phase := range 10 {
			at := history.Start.Add(10*interval + time.Duration(phase)*interval/10)
			must.Succeed(t, rules.Eval(t.Context(), at))
			got, err := store.Query(t.Context(), name, at)
			must.Succeed(t, err)
			if len(got) != 1 {
				t.Errorf("every %s, evaluated %d/10 of it after a scrape: %s is %v", interval, phase, name, got)
			}
		}
	}
}

// pageOf returns the page of one scrape of a history, empty where the scrape fails.
func pageOf(list []history.Series, scrape int) (page []byte) {
	for _, s := range list {
		if v := s.Values[scrape]; s.Name() != history.Up && s.Name() != history.Took && !math.IsNaN(v) {
			page = fmt.Appendf(page, "%s%s %v\n", s.Name(), labels.NewBuilder(s.Labels).Del(labels.MetricName).Labels(), v)
		}
	}
	return page
}
