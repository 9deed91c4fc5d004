package generate_test

import (
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/alert"
	amconfig "github.com/prometheus/alertmanager/config"
	amcommon "github.com/prometheus/alertmanager/config/common"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/alertmanager/eventrecorder"
	"github.com/prometheus/alertmanager/inhibit"
	"github.com/prometheus/alertmanager/labelset"
	"github.com/prometheus/alertmanager/provider/mem"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// An alertmanager decides about alerts with Alertmanager's own code, by the generated inhibitions and routes.
type alertmanager struct {
	rules []amcommon.InhibitRule
	route *dispatch.Route
}

func newAlertmanager(t *testing.T, cfg generate.RulesConfig) *alertmanager {
	t.Helper()
	inhibitions, err := generate.Inhibitions(cfg)
	must.Succeed(t, err)
	routes, err := generate.Routing(cfg)
	must.Succeed(t, err)
	c, err := amconfig.Load(string(inhibitions) + string(routes))
	must.Succeed(t, err)
	return &alertmanager{c.InhibitRules, dispatch.NewRoute(c.Route, nil)}
}

// muted reports for each of the alerts that fire at once whether it is inhibited.
func (am *alertmanager) muted(t *testing.T, firing ...map[string]string) (out []bool) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	alerts, err := mem.NewAlerts(t.Context(), time.Hour, 0, nil, quiet, eventrecorder.NopRecorder(), prometheus.NewRegistry(), nil)
	must.Succeed(t, err)
	defer alerts.Close()
	now := time.Now()
	for _, labels := range firing {
		fires := model.Alert{Labels: labelSet(labels), StartsAt: now, EndsAt: now.Add(time.Hour)}
		must.Succeed(t, alerts.Put(t.Context(), alert.New(fires, now, false)))
	}
	inhibitor := inhibit.NewInhibitor(alerts, am.rules, quiet, eventrecorder.NopRecorder())
	go inhibitor.Run()
	defer inhibitor.Stop()
	inhibitor.WaitForLoading()
	for _, labels := range firing {
		out = append(out, inhibitor.Mutes(t.Context(), labelset.FromModel(labelSet(labels))))
	}
	return out
}

// notified returns the names of the alerts in each notification that a receiver gets if alerts fire at once.
func (am *alertmanager) notified(t *testing.T, receiver string, firing ...map[string]string) string {
	t.Helper()
	groups := map[string][]string{}
	for i, muted := range am.muted(t, firing...) {
		for _, route := range am.route.Match(labelSet(firing[i])) {
			if muted || route.RouteOpts.Receiver != receiver {
				continue
			}
			var key []string
			for name := range route.RouteOpts.GroupBy {
				key = append(key, string(name)+"="+firing[i][string(name)])
			}
			slices.Sort(key)
			groups[fmt.Sprint(key)] = append(groups[fmt.Sprint(key)], firing[i]["alertname"])
		}
	}
	var out []string
	for _, names := range groups {
		out = append(out, strings.Join(slices.Sorted(slices.Values(names)), " "))
	}
	return strings.Join(slices.Sorted(slices.Values(out)), "; ")
}

func labelSet(labels map[string]string) model.LabelSet {
	out := model.LabelSet{}
	for name, value := range labels {
		out[model.LabelName(name)] = model.LabelValue(value)
	}
	return out
}

// A pair is two alerts of one server that fire at once.
type pair struct {
	source, target                 *catalog.Pathology
	sourceSeverity, targetSeverity catalog.Severity
}

func (p *pair) String() string {
	return fmt.Sprintf("%s as %s beside %s as %s", p.source.Alert, p.sourceSeverity, p.target.Alert, p.targetSeverity)
}

// explained reports whether the source must inhibit the target.
func (p *pair) explained() bool {
	return p.source.Inhibits(p.target) && p.targetSeverity <= p.sourceSeverity
}

// pairs returns all pairs of alerts, at all their severities.
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

// labelled returns an alert's labels as Prometheus sends them. Each server has a model of its own and is alone behind a
// gateway.
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

// TestATicketNeverSilencesAPage holds the written rules to what the catalogue explains: each pair of alerts fires on a
// server of its own, and once more on two servers without a label of the host.
func TestATicketNeverSilencesAPage(t *testing.T) {
	renamed := usual(t)
	renamed.Severities = map[catalog.Severity]string{catalog.Page: "critical", catalog.Ticket: "warning"}
	for name, cfg := range map[string]generate.RulesConfig{"usual names": usual(t), "renamed": renamed} {
		t.Run(name, func(t *testing.T) {
			am, all := newAlertmanager(t, cfg), pairs()
			var together, apart []map[string]string
			for i, p := range all {
				here, there := fmt.Sprintf("here-%d", i), fmt.Sprintf("there-%d", i)
				source, target := labelled(&cfg, p.source, p.sourceSeverity, here), labelled(&cfg, p.target, p.targetSeverity, there)
				delete(source, "host")
				delete(target, "host")
				apart = append(apart, source, target)
				together = append(together, labelled(&cfg, p.source, p.sourceSeverity, here), labelled(&cfg, p.target, p.targetSeverity, here))
			}
			muted, mutedApart := am.muted(t, together...), am.muted(t, apart...)
			for i, p := range all {
				back := pair{p.target, p.source, p.targetSeverity, p.sourceSeverity}
				if muted[2*i+1] != p.explained() || muted[2*i] != back.explained() {
					t.Errorf("%s: inhibited is %v, the first %v", &p, muted[2*i+1], muted[2*i])
				}
				if mutedApart[2*i] || mutedApart[2*i+1] {
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
	am := newAlertmanager(t, cfg)
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
		if got := am.muted(t, tt.source, tt.target)[1]; got != tt.inhibited {
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

// created returns the line of a case for the creation time of a counter, on a server that restarts after these scrapes,
// one every 15 s.
func created(scrapes ...int) string {
	line, last, begins := `vllm:generation_tokens_created{model_name="m",engine="0"}`, 0, history.Start.Add(-time.Hour)
	for _, n := range append(scrapes, 120) {
		line += fmt.Sprintf(" %dx%d", begins.Unix(), n-last-1)
		last, begins = n, history.Start.Add(time.Duration(n)*15*time.Second-7*time.Second)
	}
	return line + "\n"
}

// TestAlertmanagerOnACrashLoop plays a server that is down for one minute of every five, and fails every second
// request. Whenever a page fires, one page must be notified.
func TestAlertmanagerOnACrashLoop(t *testing.T) {
	cfg := usual(t)
	cfg.Interval = 15 * time.Second
	cfg.Deployment.Window, cfg.Deployment.Short = generate.Windows(cfg.Interval)
	am := newAlertmanager(t, cfg)
	c, err := history.Parse(nil, `every 15s for 1800s
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
	var texts []string
	heard, fired := map[string]bool{}, map[string]bool{}
	server, series := embedded.Target{Instance: history.UsualInstance, Job: "vllm"}, c.Series()[history.UsualInstance]
	for i := range c.Scrapes {
		at := history.Start.Add(time.Duration(i) * c.Every)
		if page := pageOf(series, i); len(page) > 0 {
			_, err = store.Append(server, at, page, "", time.Millisecond)
		} else {
			err = store.AppendFailure(server, at)
		}
		must.Succeed(t, err)
		must.Succeed(t, rules.Eval(t.Context(), at))
		var firing []map[string]string
		page, reaches := false, false
		for _, a := range rules.Alerts() {
			texts = append(texts, a.Name+": "+a.Annotations["description"])
			if a.Firing {
				firing = append(firing, a.Labels)
				fired[a.Name] = true
				page = page || a.Labels["severity"] == catalog.Page.String()
			}
		}
		for i, muted := range am.muted(t, firing...) {
			if !muted && firing[i]["severity"] == catalog.Page.String() {
				reaches = true
				heard[firing[i]["alertname"]] = true
			}
		}
		if page && !reaches {
			t.Errorf("%s: pages fire, and none reaches anybody: %v", at.Sub(history.Start), firing)
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
			am := newAlertmanager(t, cfg)
			pager, tickets := am.notified(t, "pager", tt.fires...), am.notified(t, "tickets", tt.fires...)
			if pager != tt.paged || tickets != tt.ticket {
				t.Errorf("the pager got %q, want %q; tickets %q, want %q", pager, tt.paged, tickets, tt.ticket)
			}
		})
	}
}
