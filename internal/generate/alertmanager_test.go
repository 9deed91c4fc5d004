package generate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amconfig "github.com/prometheus/alertmanager/config/common"
	amlabels "github.com/prometheus/alertmanager/pkg/labels"
	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/generate/replaytest"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/metrics/metricstest"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// readInhibitions reads the rules that Inhibitions writes as Alertmanager does.
func readInhibitions(t *testing.T, cfg generate.RulesConfig) []amconfig.InhibitRule {
	t.Helper()
	content, err := generate.Inhibitions(cfg)
	must.Succeed(t, err)
	var doc struct {
		Rules []amconfig.InhibitRule `yaml:"inhibit_rules"`
	}
	must.Succeed(t, yaml.Unmarshal(content, &doc))
	return doc.Rules
}

// inhibits reports whether one of the rules lets a source silence a target: it matches both, and they have the same
// values of the labels that must be equal, those that neither has among them.
func inhibits(rules []amconfig.InhibitRule, source, target map[string]string) bool {
	holds := func(ms amconfig.Matchers, ls map[string]string) bool {
		return !slices.ContainsFunc(ms, func(m *amlabels.Matcher) bool { return !m.Matches(ls[m.Name]) })
	}
	return slices.ContainsFunc(rules, func(r amconfig.InhibitRule) bool {
		return holds(r.SourceMatchers, source) && holds(r.TargetMatchers, target) &&
			!slices.ContainsFunc(r.Equal, func(l string) bool { return source[l] != target[l] })
	})
}

// A pair is two alerts of one server that fire at once.
type pair struct {
	source, target                 *catalog.Pathology
	sourceSeverity, targetSeverity catalog.Severity
}

func (p *pair) String() string {
	return fmt.Sprintf("%s as %s beside %s as %s", p.source.Alert, p.sourceSeverity, p.target.Alert, p.targetSeverity)
}

// explained is what must happen to the target.
func (p *pair) explained() bool {
	return p.source.Inhibits(p.target) && p.targetSeverity <= p.sourceSeverity
}

// pairs are all pairs of alerts, at all their severities.
func pairs() (out []pair) {
	for _, a := range pathologies.All() {
		for _, b := range pathologies.All() {
			if a == b {
				continue
			}
			for _, sa := range a.Severities() {
				for _, sb := range b.Severities() {
					out = append(out, pair{a, b, sa, sb})
				}
			}
		}
	}
	return out
}

// labelled are an alert's labels, as Prometheus sends them, on a server of its own that
// serves a model of its own, alone behind a gateway.
func labelled(cfg *generate.RulesConfig, p *catalog.Pathology, s catalog.Severity, server string) map[string]string {
	out := map[string]string{
		"alertname": generate.AlertNames(&cfg.Deployment, p)[0], "severity": cfg.SeverityName(s), "pathology": p.ID,
		"namespace": "prod", "job": "vllm", "instance": server + ":8000", "host": server, "model_name": "m of " + server,
	}
	if p.Scope() == indicator.Gateway {
		out["job"], out["gateway"] = "gateway", server+":8081"
		delete(out, "host")
		if p.Per() != indicator.PerUpstream {
			out["instance"] = out["gateway"]
		}
	}
	return out
}

// TestATicketNeverSilencesAPage holds the written rules to what the catalogue explains.
func TestATicketNeverSilencesAPage(t *testing.T) {
	renamed := usual(t)
	renamed.Severities = map[catalog.Severity]string{catalog.Page: "critical", catalog.Ticket: "warning"}
	for name, cfg := range map[string]generate.RulesConfig{"usual names": usual(t), "renamed": renamed} {
		t.Run(name, func(t *testing.T) {
			rules := readInhibitions(t, cfg)
			for _, p := range pairs() {
				source, target := labelled(&cfg, p.source, p.sourceSeverity, "a"), labelled(&cfg, p.target, p.targetSeverity, "a")
				got := inhibits(rules, source, target)
				if got != p.explained() {
					t.Errorf("%s: inhibited is %v", &p, got)
				}
				target = labelled(&cfg, p.target, p.targetSeverity, "b")
				if inhibits(rules, source, target) {
					t.Errorf("%s on another server: inhibited", &p)
				}
				delete(source, "host")
				delete(target, "host")
				if inhibits(rules, source, target) {
					t.Errorf("%s on another server, without a label of the host: inhibited", &p)
				}
			}
		})
	}
}

// TestCausesDoNotComeLate compares how long alerts wait: a cause that inhibits its symptom
// fires no later.
func TestCausesDoNotComeLate(t *testing.T) {
	for _, p := range pathologies.All() {
		for _, symptom := range p.Symptoms(pathologies.All()) {
			if p.For > symptom.For {
				t.Errorf("%s waits %s, and %s, which it explains, %s", p.Alert, p.For, symptom.Alert, symptom.For)
			}
		}
	}
}

// TestOneFaultAtAGatewayIsOnePage has a pool of two servers behind a gateway.
func TestOneFaultAtAGatewayIsOnePage(t *testing.T) {
	cfg := usual(t)
	rules := readInhibitions(t, cfg)
	find := func(id string) *catalog.Pathology {
		return pathologies.All()[slices.IndexFunc(pathologies.All(), func(p *catalog.Pathology) bool { return p.ID == id })]
	}
	alert := func(id, instance, model string) map[string]string {
		l := labelled(&cfg, find(id), find(id).Severity, "a")
		l["model_name"] = model
		if l["gateway"] == "" || id == "upstream-down" {
			l["instance"] = instance
		}
		return l
	}
	for _, tt := range []struct {
		name           string
		source, target map[string]string
		inhibited      bool
	}{
		{"a server is dead", alert("target-down", "a:8000", "m"), alert("upstream-down", "a:8000", "m"), true},
		{"another one is dead", alert("target-down", "b:8000", "m"), alert("upstream-down", "a:8000", "m"), false},
		{"one of two is dead, and the other one fails", alert("target-down", "b:8000", "m"), alert("gateway-errors", "", "m"), false},
		{"one of two is unreachable, and the other one fails", alert("upstream-down", "b:8000", "m"), alert("gateway-errors", "", "m"), false},
		{"no server is left", alert("no-upstream", "", "m"), alert("gateway-errors", "", "m"), true},
		{"what names the servers", alert("upstream-down", "a:8000", "m"), alert("no-upstream", "", "m"), true},
		{"the engine says so itself", alert("http-errors", "b:8000", "m"), alert("gateway-errors", "", "m"), true},
		{"another model's engine", alert("http-errors", "b:8000", "other"), alert("gateway-errors", "", "m"), false},
		{"a gateway whose model nobody knows", alert("http-errors", "b:8000", ""), alert("gateway-errors", "", ""), false},
	} {
		if got := inhibits(rules, tt.source, tt.target); got != tt.inhibited {
			t.Errorf("%s: %s beside %s: inhibited is %v", tt.name, tt.target["alertname"], tt.source["alertname"], got)
		}
	}
}

func TestTwoSeveritiesCannotShareAName(t *testing.T) {
	cfg := usual(t)
	cfg.Severities = map[catalog.Severity]string{catalog.Page: "critical", catalog.Ticket: "critical"}
	if _, err := generate.NewRules(cfg); err == nil || !strings.Contains(err.Error(), "critical") {
		t.Errorf("got %v", err)
	}
}

// alertmanager is a real Alertmanager with the generated inhibitions and routes. It keeps the notifications for each
// receiver.
type alertmanager struct {
	url  string
	mu   sync.Mutex
	sent map[string][]string // by receiver: the alerts of each notification
}

func startAlertmanager(t *testing.T, cfg generate.RulesConfig) *alertmanager {
	t.Helper()
	program := ""
	for _, name := range []string{"alertmanager", "prometheus-alertmanager"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("no alertmanager on PATH (Debian: apt-get install prometheus-alertmanager)")
	}
	am := &alertmanager{sent: map[string][]string{}}
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var note struct {
			Receiver string
			Alerts   []struct {
				Status string
				Labels map[string]string
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&note); err != nil {
			t.Error(err)
		}
		var names []string
		for _, a := range note.Alerts {
			if a.Status == "firing" {
				names = append(names, a.Labels["alertname"])
			}
		}
		slices.Sort(names)
		am.mu.Lock()
		defer am.mu.Unlock()
		am.sent[note.Receiver] = append(am.sent[note.Receiver], strings.Join(names, " "))
	}))
	t.Cleanup(hook.Close)
	config := map[string]any{}
	for _, render := range []func(generate.RulesConfig) ([]byte, error){generate.Inhibitions, generate.Routing} {
		content, err := render(cfg)
		must.Succeed(t, err)
		must.Succeed(t, yaml.Unmarshal(bytes.ReplaceAll(content, []byte("group_wait: 30s"), []byte("group_wait: 2s")), &config))
	}
	for _, r := range config["receivers"].([]any) {
		r.(map[string]any)["webhook_configs"] = []map[string]any{{"url": hook.URL}}
	}
	content, err := yaml.Marshal(config)
	must.Succeed(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "alertmanager.yml")
	must.Succeed(t, os.WriteFile(file, content, 0o600))
	if amtool, err := exec.LookPath("amtool"); err == nil {
		if out, err := exec.Command(amtool, "check-config", file).CombinedOutput(); err != nil {
			t.Fatalf("amtool: %v\n%s", err, out)
		}
	}
	am.url = metricstest.Daemon(t, program, "--config.file="+file, "--storage.path="+dir, "--cluster.listen-address=")
	return am
}

// post tells Alertmanager that some alerts fire, and that others are over.
func (am *alertmanager) post(t *testing.T, firing, over []map[string]string) {
	t.Helper()
	type alert struct {
		Labels   map[string]string `json:"labels"`
		StartsAt time.Time         `json:"startsAt"`
		EndsAt   time.Time         `json:"endsAt"`
	}
	var list []alert
	now := time.Now()
	for _, l := range firing {
		list = append(list, alert{l, now, now.Add(time.Hour)})
	}
	for _, l := range over {
		list = append(list, alert{l, now.Add(-time.Minute), now.Add(-time.Millisecond)})
	}
	body, err := json.Marshal(list)
	must.Succeed(t, err)
	res, err := http.Post(am.url+"/api/v2/alerts", "application/json", bytes.NewReader(body))
	must.Succeed(t, err)
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		t.Fatalf("Alertmanager: %s: %s", res.Status, text)
	}
}

// active returns the alerts that nothing inhibits, as instance, name and severity.
func (am *alertmanager) active(t *testing.T) map[[3]string]bool {
	t.Helper()
	res, err := http.Get(am.url + "/api/v2/alerts?active=true&inhibited=false&silenced=false")
	must.Succeed(t, err)
	defer res.Body.Close()
	var alerts []struct{ Labels map[string]string }
	must.Succeed(t, json.NewDecoder(res.Body).Decode(&alerts))
	out := map[[3]string]bool{}
	for _, a := range alerts {
		out[[3]string{a.Labels["instance"], a.Labels["alertname"], a.Labels["severity"]}] = true
	}
	return out
}

// TestAlertmanagerOnEveryPair lets a real Alertmanager decide on every pair of alerts.
func TestAlertmanagerOnEveryPair(t *testing.T) {
	cfg := usual(t)
	am := startAlertmanager(t, cfg)
	var firing []map[string]string
	all := pairs()
	for i, p := range all {
		server := fmt.Sprintf("server-%d", i)
		firing = append(firing, labelled(&cfg, p.source, p.sourceSeverity, server), labelled(&cfg, p.target, p.targetSeverity, server))
	}
	for part := range slices.Chunk(firing, 200) {
		am.post(t, part, nil)
	}
	active, inhibited := am.active(t), 0
	for i, p := range all {
		server := fmt.Sprintf("server-%d", i)
		instance := func(q *catalog.Pathology) string { return labelled(&cfg, q, q.Severity, server)["instance"] }
		name := func(q *catalog.Pathology) string { return generate.AlertNames(&cfg.Deployment, q)[0] }
		target := active[[3]string{instance(p.target), name(p.target), p.targetSeverity.String()}]
		if target == p.explained() {
			t.Errorf("%s: active is %v", &p, target)
		}
		if !target {
			inhibited++
		}
		back := pair{p.target, p.source, p.targetSeverity, p.sourceSeverity}
		if source := active[[3]string{instance(p.source), name(p.source), p.sourceSeverity.String()}]; source == back.explained() {
			t.Errorf("%s: the first is active: %v", &p, source)
		}
	}
	t.Logf("%d pairs, %d inhibited", len(all), inhibited)
}

// created are the lives of a server's counters that begin after some scrapes, one every
// 15 s.
func created(scrapes ...int) string {
	line, last, begins := `vllm:generation_tokens_created{model_name="m",engine="0"}`, 0, history.Start.Add(-time.Hour)
	for _, n := range append(scrapes, 120) {
		line += fmt.Sprintf(" %dx%d", begins.Unix(), n-last-1)
		last, begins = n, history.Start.Add(time.Duration(n)*15*time.Second-7*time.Second)
	}
	return line + "\n"
}

// TestAlertmanagerOnACrashLoop plays a server that serves for four minutes, with every
// second request failing, and is away for one, again and again: whenever a page fires,
// one reaches somebody.
func TestAlertmanagerOnACrashLoop(t *testing.T) {
	cfg := usual(t)
	cfg.Interval = 15 * time.Second
	cfg.Deployment.Window, cfg.Deployment.Short = generate.Windows(cfg.Interval)
	am := startAlertmanager(t, cfg)
	c, err := history.Parse(os.DirFS("."), `every 15s for 1800s
like healthy
rate http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 1
rate http_requests_total{handler="/v1/chat/completions",method="POST",status="5xx"} 1
restart 16 4
restart 36 4
restart 56 4
restart 76 4
restart 96 4
`+created(20, 40, 60, 80, 100))
	must.Succeed(t, err)
	store := embeddedtest.New(t)
	rules, err := store.Rules(rulesOf(t, cfg).Groups())
	must.Succeed(t, err)
	before := map[string]map[string]string{}
	var texts []string
	pages := replaytest.NewPages(c.Series()[history.UsualInstance])
	heard, fired := map[string]bool{}, map[string]bool{}
	for i := range c.Scrapes {
		at := history.Start.Add(time.Duration(i) * cfg.Interval)
		target := embedded.Target{Instance: history.UsualInstance, Job: "vllm"}
		if c.Down(history.UsualInstance, i) {
			err = store.AppendFailure(target, at)
		} else {
			_, err = store.Append(target, at, pages.At(i), "", time.Millisecond)
		}
		must.Succeed(t, err)
		must.Succeed(t, rules.Eval(t.Context(), at))
		now := map[string]map[string]string{}
		page := false
		for _, a := range rules.Alerts() {
			texts = append(texts, a.Name+": "+a.Annotations["description"])
		}
		for _, a := range rules.Alerts() {
			if a.Firing {
				now[a.Name+a.Labels["severity"]] = a.Labels
				fired[a.Name] = true
				page = page || a.Labels["severity"] == catalog.Page.String()
			}
		}
		var over []map[string]string
		for key, l := range before {
			if now[key] == nil {
				over = append(over, l)
			}
		}
		before = now
		am.post(t, slices.Collect(maps.Values(now)), over)
		active := am.active(t)
		reaches := false
		for a := range active {
			if a[2] == catalog.Page.String() {
				reaches = true
				heard[a[1]] = true
			}
		}
		if page && !reaches {
			t.Errorf("%s: pages fire, and none reaches anybody: %v", at.Sub(history.Start), slices.Collect(maps.Keys(now)))
		}
	}
	for _, want := range []string{"VLLMHTTPErrors: .*Explained by VLLMTargetDown", "VLLMHTTPErrors: HTTP 5xx share 50%. .*sixty diagnose a:8000$"} {
		if !slices.ContainsFunc(texts, regexp.MustCompile(want).MatchString) {
			t.Errorf("no text like %q, but %q", want, slices.Compact(slices.Sorted(slices.Values(texts))))
		}
	}
	t.Logf("fired %v, heard %v", slices.Sorted(maps.Keys(fired)), slices.Sorted(maps.Keys(heard)))
	for _, want := range []string{"VLLMTargetDown", "VLLMEngineRestart", "VLLMHTTPErrors"} {
		if !fired[want] {
			t.Errorf("%s never fires: the crash loop proves nothing", want)
		}
	}
	for _, want := range []string{"VLLMTargetDown", "VLLMHTTPErrors"} {
		if !heard[want] {
			t.Errorf("nobody hears of %s", want)
		}
	}
}

// TestAlertmanagerOnFaultsTogether sends what fires in one fault, and in two at once.
func TestAlertmanagerOnFaultsTogether(t *testing.T) {
	cfg := usual(t)
	all := map[string]*catalog.Pathology{}
	for _, p := range pathologies.All() {
		all[p.ID] = p
	}
	alert := func(id string, s catalog.Severity) map[string]string { return labelled(&cfg, all[id], s, "a") }
	burn := func(s catalog.Severity) map[string]string {
		return map[string]string{"alertname": "VLLMErrorBudgetBurnTTFTP95", "slo": "ttft-p95", "severity": s.String(), "namespace": "prod", "model_name": "m of a"}
	}
	for name, tt := range map[string]struct {
		fires  []map[string]string
		paged  string // the one notification
		ticket string
	}{
		"a page with its symptoms and the budget": {
			[]map[string]string{alert("kv-cache-thrashing", catalog.Page), alert("saturation", catalog.Page), alert("slow-decode", catalog.Ticket), burn(catalog.Page), burn(catalog.Ticket)},
			"VLLMErrorBudgetBurnTTFTP95 VLLMKVCacheThrashing", "",
		},
		"a ticket explains a page": {
			[]map[string]string{alert("prefix-cache-misses", catalog.Ticket), alert("saturation", catalog.Page), alert("slow-decode", catalog.Ticket)},
			"VLLMSaturation", "VLLMPrefixCacheMisses",
		},
		"two faults": {
			[]map[string]string{alert("kv-cache-thrashing", catalog.Page), alert("http-errors", catalog.Page), alert("saturation", catalog.Page)},
			"VLLMHTTPErrors VLLMKVCacheThrashing", "",
		},
		"the server behind a gateway is dead": {
			[]map[string]string{
				alert("target-down", catalog.Page), alert("upstream-down", catalog.Page), alert("no-upstream", catalog.Page), alert("gateway-errors", catalog.Page),
				alert("retry-storm", catalog.Ticket), alert("gateway-cancellations", catalog.Ticket),
			},
			"VLLMTargetDown", "",
		},
		"only the gateway sees it": {
			[]map[string]string{alert("gateway-errors", catalog.Page), alert("client-cancellations", catalog.Ticket), alert("retry-storm", catalog.Ticket)},
			"LLMGatewayErrors", "",
		},
		"a restart and another fault": {
			[]map[string]string{alert("engine-restart", catalog.Ticket), alert("http-errors", catalog.Page), alert("saturation", catalog.Page), alert("client-cancellations", catalog.Ticket)},
			"VLLMHTTPErrors VLLMSaturation", "VLLMEngineRestart",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			am := startAlertmanager(t, cfg)
			am.post(t, tt.fires, nil)
			got := func(receiver string) string {
				am.mu.Lock()
				defer am.mu.Unlock()
				return strings.Join(am.sent[receiver], "; ")
			}
			polltest.True(func() bool { return got("pager") != "" && (got("tickets") != "" || tt.ticket == "") })
			<-time.After(500 * time.Millisecond) // nothing more comes
			if got("pager") != tt.paged || got("tickets") != tt.ticket {
				t.Errorf("the pager got %q, want %q; tickets %q, want %q", got("pager"), tt.paged, got("tickets"), tt.ticket)
			}
		})
	}
}
