package pack_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/pack"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// config is a pack of all alerts for servers of some dialects.
func config(t *testing.T, ids ...string) pack.Config {
	t.Helper()
	objectives, err := slo.Parse("slo.yaml", []byte("objectives:\n- {use_case: chat, availability: 99.9%}\n"))
	must.Succeed(t, err)
	window, short := generate.Windows(generate.UsualInterval)
	c := pack.Config{RulesConfig: generate.RulesConfig{
		Deployment: dialect.Deployment{
			Instance: dialect.UsualInstance, Model: dialect.UsualModel, Window: window, Short: short, Past: time.Hour,
		},
		Pathologies: pathologies.All(), Absences: generate.Absences(), Objectives: objectives,
		Interval: generate.UsualInterval, Past: generate.UsualPast, Ago: generate.UsualAgo,
	}, Format: generate.Plain, Alertmanager: true, Cases: os.DirFS("../../pathologies")}
	c.Edges = map[string][]float64{}
	for _, family := range []string{"time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds"} {
		c.Edges["vllm:"+family] = []float64{0.1, 0.5, 1, 10}
	}
	for _, id := range ids {
		d, err := dialect.Named(id)
		must.Succeed(t, err)
		c.Deployment.Dialects = append(c.Deployment.Dialects, d)
	}
	return c
}

var (
	testedAlert  = regexp.MustCompile(`ALERTS\{alertname="(\w+)"`)
	matchedAlert = regexp.MustCompile(`alertname=~?"([^"]+)"`)
)

// TestAlertsAreNamedAfterWhatTheyAreAbout generates a pack in every dialect, alone and with all engines in
// one deployment: an alert's name begins with its engine's part, and what refers to alerts names those that
// there are.
func TestAlertsAreNamedAfterWhatTheyAreAbout(t *testing.T) {
	decks, engines := map[string][]string{"every engine": {"vllm-v1"}}, map[string]bool{"vllm-v1": true}
	for _, id := range dialect.IDs() {
		if d, err := dialect.Named(id); err == nil && d.Serves() {
			decks[id] = []string{id}
		}
	}
	for _, e := range dialect.Others() {
		decks["every engine"] = append(decks["every engine"], string(e.ID))
		engines[string(e.ID)] = true
	}
	for name, ids := range decks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config(t, append(slices.Clone(ids), "gateway", "dcgm")...)
			if !engines[name] && len(ids) == 1 {
				c.Cases = nil // one dialect of an engine is enough
			}
			files, _, err := pack.Rules(c)
			must.Succeed(t, err)
			var prefixes []string
			for _, scope := range []indicator.Scope{indicator.Model, indicator.GPU, indicator.Gateway} {
				own, _ := c.Deployment.Subjects(scope)
				prefixes = append(prefixes, own...)
			}
			there := map[string]bool{}
			for _, f := range files {
				var doc struct{ Groups []rulefmt.RuleGroup }
				if f.Path != "rules.yaml" {
					continue
				}
				must.Succeed(t, yaml.Unmarshal(f.Content, &doc))
				for _, g := range doc.Groups {
					for _, r := range g.Rules {
						if there[r.Alert] = true; r.Alert == "" {
							continue
						}
						if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(r.Alert, p) }) {
							t.Errorf("the alert %s begins with none of %v", r.Alert, prefixes)
						}
						if text := r.Alert + r.Annotations["description"] + r.Annotations["summary"]; !slices.Contains(prefixes, "VLLM") && strings.Contains(text, "VLLM") {
							t.Errorf("an alert without a vLLM server says VLLM: %s", text)
						}
					}
				}
			}
			if len(there) < 20 {
				t.Fatalf("only %d alerts", len(there))
			}
			for _, f := range files {
				if strings.HasPrefix(f.Path, "tests/") {
					for _, m := range testedAlert.FindAllSubmatch(f.Content, -1) {
						if !there[string(m[1])] {
							t.Errorf("%s asks for %s, which no rule raises", f.Path, m[1])
						}
					}
				}
			}
			checkReferences(t, &c, files, there)
		})
	}
}

// checkReferences looks at the names in what belongs to Alertmanager: a pathology that these servers cannot
// tell has a name, too, and the burn rates are matched by how theirs begin.
func checkReferences(t *testing.T, c *pack.Config, files []generate.File, there map[string]bool) {
	t.Helper()
	known := map[string]bool{}
	for _, p := range c.Pathologies {
		for _, name := range generate.AlertNames(&c.Deployment, p) {
			known[name] = true
		}
	}
	n := 0
	for _, f := range files {
		if !strings.HasPrefix(f.Path, "alertmanager/") {
			continue
		}
		for _, m := range matchedAlert.FindAllSubmatch(f.Content, -1) {
			for name := range strings.SplitSeq(string(m[1]), "|") {
				n++
				begins, family := strings.CutSuffix(name, ".*")
				if family {
					found := false
					for alert := range there {
						found = found || strings.HasPrefix(alert, begins)
					}
					if !found {
						t.Errorf("%s matches %s, and no alert begins so", f.Path, name)
					}
				} else if !there[name] && !known[name] {
					t.Errorf("%s names %s, which is no alert", f.Path, name)
				}
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d references", n)
	}
}

// TestEveryEngineNamesItsAlerts: names of two engines' servers cannot be taken for each other's.
func TestEveryEngineNamesItsAlerts(t *testing.T) {
	all := dialect.AlertPrefixes(indicator.Model, func(engine.ID) bool { return true })
	if len(all) < 1+len(dialect.Others()) {
		t.Errorf("%d engines share %v", 1+len(dialect.Others()), all)
	}
	for _, scope := range []indicator.Scope{indicator.GPU, indicator.Gateway} {
		all = append(all, dialect.AlertPrefixes(scope, func(engine.ID) bool { return true })...)
	}
	for i, prefix := range all {
		if !regexp.MustCompile(`^[A-Z][A-Za-z]+$`).MatchString(prefix) {
			t.Errorf("%q begins no alert's name: give the engine Alerts", prefix)
		}
		for k, other := range all {
			if i != k && strings.HasPrefix(other, prefix) {
				t.Errorf("what matches %s.* matches the alerts of %s", prefix, other)
			}
		}
	}
}
