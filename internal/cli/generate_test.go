package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// fourObjectives is what a team with four models promises.
const fourObjectives = `objectives:
- {model: "meta-llama/*", namespace: prod, use_case: chat, availability: 99.9%}
- {model: "qwen/*", use_case: code-completion, availability: 99.5%}
- {model: small, use_case: rag, availability: 99%}
- {use_case: batch, availability: 99%}
`

// generated runs sixty generate rules and returns the directory with its files.
func generated(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	if _, _, err := sixty(t, append([]string{"generate", "rules", "--out", dir}, args...)...); err != nil {
		t.Fatalf("%v: %v (%s)", args, err, hint.Of(err))
	}
	return dir
}

// ruleGroups reads the groups of a file of any format.
func ruleGroups(t *testing.T, file string) []rulefmt.RuleGroup {
	t.Helper()
	content := must.ReadFile(t, file)
	var doc struct {
		Groups []rulefmt.RuleGroup
		Spec   struct{ Groups []rulefmt.RuleGroup }
	}
	must.Succeed(t, yaml.Unmarshal(content, &doc))
	return append(doc.Groups, doc.Spec.Groups...)
}

// alertNames lists the alerts of a rule file, each once.
func alertNames(t *testing.T, file string) (names []string) {
	t.Helper()
	for _, g := range ruleGroups(t, file) {
		for _, r := range g.Rules {
			if r.Alert != "" && !slices.Contains(names, r.Alert) {
				names = append(names, r.Alert)
			}
		}
	}
	return names
}

func fourModels(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "slo.yaml")
	must.Succeed(t, os.WriteFile(file, []byte(fourObjectives), 0o600))
	return file
}

func TestOnlyAndSkipDoWhatTheySay(t *testing.T) {
	rules := filepath.Join(generated(t, "--only", "kv-cache-thrashing,http-errors"), "rules.yaml")
	if got := strings.Join(alertNames(t, rules), " "); got != "VLLMKVCacheThrashing VLLMHTTPErrors" {
		t.Errorf("--only: %s", got)
	}
	all := alertNames(t, filepath.Join(generated(t), "rules.yaml"))
	left := alertNames(t, filepath.Join(generated(t, "--skip", "workload-shift,watchdog"), "rules.yaml"))
	for _, name := range all {
		if want := name != "VLLMWorkloadShift" && name != "VLLMWatchdog"; slices.Contains(left, name) != want {
			t.Errorf("--skip: %s is there: %v", name, !want)
		}
	}
}

// TestAGatewayIsAskedFor: alerts on what a gateway sees come with one, and with nothing else.
func TestAGatewayIsAskedFor(t *testing.T) {
	without := alertNames(t, filepath.Join(generated(t), "rules.yaml"))
	with := alertNames(t, filepath.Join(generated(t, "--dialect", "gateway"), "rules.yaml"))
	for _, name := range without {
		if !slices.Contains(with, name) {
			t.Errorf("with a gateway %s is gone", name)
		}
	}
	want := []string{"LLMGatewayDown", "LLMGatewayAbsent"}
	for _, p := range pathologies.All() {
		if p.Scope() == indicator.Gateway {
			want = append(want, "LLMGateway"+p.Alert)
		}
	}
	for _, name := range want {
		if !slices.Contains(with, name) || slices.Contains(without, name) {
			t.Errorf("%s is there with a gateway: %v, without: %v", name, slices.Contains(with, name), slices.Contains(without, name))
		}
	}
	if len(with) != len(without)+len(want) {
		t.Errorf("%d alerts with a gateway, %d without", len(with), len(without))
	}
	only := ruleGroups(t, filepath.Join(generated(t, "--dialect", "gateway", "--only", "gateway-timeouts"), "rules.yaml"))
	rules := 0
	for _, g := range only {
		rules += len(g.Rules)
	}
	if rules != 4 { // the alert, its signal, and which model is behind the gateway
		t.Errorf("%d rules for one alert", rules)
	}
	dir := generated(t, "--dialect", "gateway", "--set", "outside_engine=250ms", "--slo", fourModels(t))
	text := must.ReadFile(t, filepath.Join(dir, "rules.yaml"))
	for _, want := range []string{"gateway_outside > 250 ms (set by hand)", "gateway_error_share > 14.4 % (the objective (batch))"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestSeveritiesHaveTheNamesThatWereGiven(t *testing.T) {
	dir := generated(t, "--severity", "page=critical,ticket=warning", "--use-case", "chat", "--keep-firing-for", "5m")
	seen := map[string]int{}
	for _, g := range ruleGroups(t, filepath.Join(dir, "rules.yaml")) {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			seen[r.Labels["severity"]]++
			if r.KeepFiringFor.String() != "5m" && !strings.HasPrefix(r.Alert, "VLLMErrorBudgetUnknown") {
				t.Errorf("%s goes on for %s", r.Alert, r.KeepFiringFor)
			}
		}
	}
	if len(seen) != 3 || seen["critical"] == 0 || seen["warning"] == 0 || seen["info"] == 0 {
		t.Errorf("severities %v", seen)
	}
	for _, name := range []string{"alertmanager/inhibit.yaml", "alertmanager/route.yaml"} {
		content := must.ReadFile(t, filepath.Join(dir, name))
		if text := string(content); !strings.Contains(text, `severity="critical"`) || strings.Contains(text, `"page"`) || strings.Contains(text, `"ticket`) {
			t.Errorf("%s has other severities:\n%s", name, text)
		}
	}
}

// Limits of those who take the rules: kubectl's annotation with the whole object, Mimir's
// rules of a group and groups of a tenant.
const (
	annotationLimit = 262_144
	mimirRules      = 20
	mimirGroups     = 70
)

var objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

func TestObjectsFit(t *testing.T) {
	for _, format := range []string{"prometheusrule", "vmrule"} {
		dir := generated(t, "--slo", fourModels(t), "--output", format, "--namespace", "monitoring")
		files, err := filepath.Glob(filepath.Join(dir, "rules-*.yaml"))
		if err != nil || len(files) < 6 {
			t.Fatalf("%s: %v, %v", format, files, err)
		}
		names := map[string]bool{}
		for _, file := range files {
			content := must.ReadFile(t, file)
			var object map[string]any
			must.Succeed(t, yaml.Unmarshal(content, &object))
			text, err := json.Marshal(object)
			must.Succeed(t, err)
			if len(text) >= annotationLimit {
				t.Errorf("%s: %d bytes", file, len(text))
			}
			name, _ := object["metadata"].(map[string]any)["name"].(string)
			if names[name] || !objectName.MatchString(name) {
				t.Errorf("%s: the name %q", file, name)
			}
			names[name] = true
		}
		content := must.ReadFile(t, filepath.Join(dir, "kustomization.yaml"))
		var k struct{ Resources []string }
		must.Succeed(t, yaml.Unmarshal(content, &k))
		if len(k.Resources) != len(files) {
			t.Errorf("kustomization.yaml lists %v of %v", k.Resources, files)
		}
		if kubectl, err := exec.LookPath("kubectl"); err != nil {
			t.Log("kubectl is not on PATH: its kustomize is left out")
		} else if out, err := exec.Command(kubectl, "kustomize", dir).CombinedOutput(); err != nil {
			t.Errorf("kubectl kustomize: %v: %.500s", err, out)
		}
	}
	groups := ruleGroups(t, filepath.Join(generated(t, "--slo", fourModels(t), "--output", "mimir"), "rules.yaml"))
	if len(groups) > mimirGroups {
		t.Errorf("%d groups, and Mimir allows a tenant %d", len(groups), mimirGroups)
	}
	names := map[string]bool{}
	for _, g := range groups {
		if len(g.Rules) > mimirRules || names[g.Name] {
			t.Errorf("group %s has %d rules, or is there twice", g.Name, len(g.Rules))
		}
		names[g.Name] = true
	}
	for _, g := range ruleGroups(t, filepath.Join(generated(t, "--max-rules-per-group", "7"), "rules.yaml")) {
		if len(g.Rules) > 7 {
			t.Errorf("group %s has %d rules", g.Name, len(g.Rules))
		}
	}
}

// TestADescriptionIsShort counts what is evaluated for each alert's text.
func TestADescriptionIsShort(t *testing.T) {
	for _, g := range ruleGroups(t, filepath.Join(generated(t, "--use-case", "chat"), "rules.yaml")) {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			if n := strings.Count(r.Annotations["description"], "| query"); n > 4 {
				t.Errorf("%s asks %d queries for its text", r.Alert, n)
			}
			if r.Annotations["runbook_url"] == "" || r.Annotations["dashboard_url"] == "" && r.Labels["pathology"] != "" {
				t.Errorf("%s leads nowhere: %v", r.Alert, r.Annotations)
			}
		}
	}
}

// TestRulesPassPromtoolInEveryShape lets promtool check the rules, and run their tests, in
// the shapes that flags give them.
func TestRulesPassPromtoolInEveryShape(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not on PATH (Debian: apt-get install prometheus)")
	}
	const two, gauge = "http-errors,concurrency-limit", "concurrency-limit" // promtool takes seconds for each
	one := filepath.Join(t.TempDir(), "one.yaml")
	must.Succeed(t, os.WriteFile(one, []byte("objectives:\n- {model: \"meta-llama/*\", ttft_p95: 1s}\n"), 0o600))
	for name, args := range map[string][]string{
		"matchers":                 {"--only", gauge, "--match", "namespace=prod", "--match", "job=~vllm-.+|ray"},
		"a dialect":                {"--only", gauge, "--dialect", "vllm-v1-ray"},
		"an old release":           {"--only", gauge, "--dialect", "vllm-v0"},
		"a gateway":                {"--only", "gateway-errors,upstream-down", "--dialect", "gateway"},
		"a gateway elsewhere":      {"--only", "gateway-cancellations,slow-outside-engine", "--dialect", "vllm-v1,gateway", "--match", "namespace=prod", "--instance-labels", "namespace,pod", "--interval", "1m"},
		"several dialects":         {"--only", gauge, "--dialect", "vllm-v1,vllm-0.9,sglang"},
		"objectives":               {"--only", gauge, "--slo", one, "--slo-period", "7d"},
		"a threshold out of reach": {"--only", two, "--set", "http_5xx_share=0.99"},
		"objects":                  {"--only", gauge, "--output", "prometheusrule"},
		"other labels":             {"--only", two, "--instance-labels", "namespace,pod", "--gpu-labels", "node", "--label", "team=ml", "--severity", "page=critical,ticket=warning"},
		"scraped every minute":     {"--only", gauge, "--interval", "1m"},
		"what is not there":        {"--skip", two, "--max-rules-per-group", "0", "--keep-firing-for", "0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withTests := !slices.Contains(args, "--skip") && !slices.Contains(args, "--slo") && name != "a dialect" && name != "an old release" // their cases are told in the newest names
			if withTests {
				args = append(args, "--tests")
			}
			dir := generated(t, args...)
			rules := filepath.Join(dir, "rules.yaml")
			if slices.Contains(args, "prometheusrule") {
				rules = filepath.Join(dir, "tests", "rules.yaml")
			}
			if out, err := exec.Command(promtool, "check", "rules", rules).CombinedOutput(); err != nil {
				t.Fatalf("promtool check: %v\n%s", err, out)
			}
			if !withTests {
				return
			}
			tests, err := filepath.Glob(filepath.Join(dir, "tests", "*.yaml"))
			must.Succeed(t, err)
			tests = slices.DeleteFunc(tests, func(f string) bool { return filepath.Base(f) == "rules.yaml" })
			if len(tests) == 0 {
				t.Fatal("no tests")
			}
			cmd := exec.Command(promtool, append([]string{"test", "rules"}, tests...)...)
			cmd.Dir = filepath.Join(dir, "tests")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("promtool test: %v\n%.2000s", err, out)
			}
		})
	}
}
