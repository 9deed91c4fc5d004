package monitor_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/monitor"
)

// TestTheDocumentedConfiguration: the examples of the monitor's pages say what is written beside them.
func TestTheDocumentedConfiguration(t *testing.T) {
	example := func(page, begins string) *monitor.Config {
		text := must.ReadFile(t, "../../docs/"+page)
		_, block, _ := strings.Cut(string(text), "```yaml\n"+begins)
		block, _, _ = strings.Cut(block, "```")
		c, err := monitor.ParseConfig([]byte(begins+block), 0, slog.New(slog.DiscardHandler))
		must.Succeed(t, err)
		return c
	}
	if c := example("access.md", "sixty:\n  access:"); c.Sixty.Access == nil || len(c.Sixty.Access.Grants) != 3 {
		t.Errorf("who may see what: %+v", c.Sixty.Access)
	}
	c := example("serve.md", "global:")
	if len(c.Sixty.Receivers) != 2 || c.Sixty.Heartbeat != c.Sixty.Receivers[1].Name ||
		len(c.Prometheus.ScrapeConfigs) != 1 || len(c.Prometheus.RemoteWriteConfigs) != 1 ||
		c.Sixty.Alerts.Severities["page"] != "critical" {
		t.Errorf("%+v", c.Sixty)
	}
}

// TestScrapeIntervals: jobs of a file have the monitor's default and not Prometheus', and what
// the command line says, unless they have one of their own.
func TestScrapeIntervals(t *testing.T) {
	const jobs = "scrape_configs:\n- job_name: inherits\n- {job_name: own, scrape_interval: 30s}\n"
	for name, tt := range map[string]struct {
		text                    string
		every                   time.Duration
		inherits, timeout, said time.Duration
	}{
		"default": {jobs, 0, 5 * time.Second, 5 * time.Second, 5 * time.Second},
		"of the file": {"global: {scrape_interval: 20s}\n" + jobs, 0, 20 * time.Second, 10 * time.Second,
			20 * time.Second},
		"of the command line": {"global: {scrape_interval: 20s, scrape_timeout: 7s}\n" + jobs, 2 * time.Second,
			2 * time.Second, 2 * time.Second, 2 * time.Second},
		"a long timeout": {"global:\n  scrape_timeout: 7s\n" + jobs, 0, 5 * time.Second, 5 * time.Second,
			5 * time.Second},
	} {
		c, err := monitor.ParseConfig([]byte(tt.text), tt.every, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		scrapes, err := c.Prometheus.GetScrapeConfigs()
		must.Succeed(t, err)
		got := [4]time.Duration{time.Duration(scrapes[0].ScrapeInterval), time.Duration(scrapes[0].ScrapeTimeout),
			time.Duration(scrapes[1].ScrapeInterval), time.Duration(c.Prometheus.GlobalConfig.ScrapeInterval)}
		if want := [4]time.Duration{tt.inherits, tt.timeout, 30 * time.Second, tt.said}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestWhoMaySeeWhatIsChecked: a section that would let in the wrong people, or nobody, is refused.
func TestWhoMaySeeWhatIsChecked(t *testing.T) {
	const good = "grants: [{users: [ann], role: viewer, match: '{team=\"a\"}'}]"
	for text, want := range map[string]string{
		good: "",
		"proxy: {trusted: [10.0.0.0/8], user_header: X-User}\n    " + good: "",
		"proxy: {user_header: X-User}\n    " + good:                        "trusted",
		"proxy: {trusted: [10.0.0], user_header: X-User}\n    " + good:     "10.0.0",
		"oidc: {issuer: https://example.com}\n    " + good:                 "no longer a setting",
		"audit_log: x":                                                 "no role is granted",
		"grants: [{users: [ann], role: root}]":                         "viewer, operator and admin",
		"grants: [{users: [ann], role: none}]":                         "viewer, operator and admin",
		"grants: [{users: [ann]}]":                                     "number 1 needs a role",
		"grants: [{role: viewer}]":                                     "number 1 needs a role",
		"grants: [{users: [ann], role: viewer, match: 'team=a'}]":      "match",
		"grants: [{users: [ann], role: viewer, match: ''}]":            "match",
		"grants: [{users: [ann], role: viewer, match: '{}'}]":          "match",
		"grants: [{users: [ann], role: viewer, match: 'up{a=\"b\"}'}]": "names a metric",
		"grants: [{users: [ann], role: viewer, matches: '{a=\"b\"}'}]": "matches",
	} {
		_, err := monitor.ParseConfig([]byte("sixty:\n  access:\n    "+text+"\n"), 0, slog.New(slog.DiscardHandler))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestAFormerSettingIsNoError keeps files working that were written when the generated rules could be switched off.
func TestAFormerSettingIsNoError(t *testing.T) {
	var said strings.Builder
	if _, err := monitor.ParseConfig([]byte("sixty: {rules: true}\n"), 0,
		slog.New(slog.NewTextHandler(&said, nil))); err != nil || !strings.Contains(said.String(), "rule_files") {
		t.Errorf("error %v; said %q", err, said.String())
	}
}
