package receivers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sixty-dev/sixty/internal/base/memnet"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/outputtest"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/receivers"
)

// An endpoint is one of somebody who takes notifications.
type endpoint struct {
	status atomic.Int64
	mu     sync.Mutex
	got    []map[string]any
	tried  int
}

// newEndpoint is one at http://HOST.
func newEndpoint(t *testing.T, network *memnet.Network, host string) *endpoint {
	e := &endpoint{}
	e.status.Store(http.StatusOK)
	network.Serve(t, host+":80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		doc := map[string]any{}
		if err == nil {
			err = json.Unmarshal(body, &doc)
		}
		if err != nil {
			t.Errorf("%v: %s", err, body)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.tried++
		status := int(e.status.Load())
		if status/100 == 2 {
			e.got = append(e.got, doc)
		}
		w.WriteHeader(status)
		if _, err := io.WriteString(w, "ok"); err != nil {
			t.Log(err)
		}
	}))
	return e
}

func (e *endpoint) seen(pick func(map[string]any) string) (out []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.got {
		out = append(out, pick(d))
	}
	return out
}

func (e *endpoint) tries() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tried
}

const secret = "T0PS3CR3T"

// A desk is a Notifier with several kinds of receivers.
type desk struct {
	t                         *testing.T
	network                   memnet.Network
	away                      string // host:port at which nobody is
	hook, slack, pager, teams *endpoint
	file, config              string
	log                       *outputtest.Buffer
	teller                    *receivers.Notifier
	registry                  *prometheus.Registry
	began                     time.Time
}

func newDesk(t *testing.T) *desk {
	dir := t.TempDir()
	d := &desk{t: t, log: &outputtest.Buffer{}, began: time.Now().Add(-time.Minute)}
	d.hook, d.slack = newEndpoint(t, &d.network, "hook"), newEndpoint(t, &d.network, "slack")
	d.pager, d.teams = newEndpoint(t, &d.network, "pager"), newEndpoint(t, &d.network, "teams")
	d.file, d.config = filepath.Join(dir, "receivers.json"), filepath.Join(dir, "sixty.yaml")
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "teams-url"), []byte("http://teams/"+secret), 0o600))
	text := fmt.Sprintf(`sixty:
  receivers:
  - name: web
    webhook_configs:
    - url: http://hook/%s
  - name: chat
    slack_configs:
    - api_url: http://slack/services/%s
      channel: '#inference'
      send_resolved: true
  - name: pager
    pagerduty_configs:
    - routing_key: %s
      url: http://pager/v2/enqueue
  - name: team
    msteamsv2_configs:
    - webhook_url_file: teams-url
`, secret, secret, secret)
	must.Succeed(t, os.WriteFile(d.config, []byte(text), 0o600))
	d.start()
	t.Cleanup(func() { d.teller.Close() })
	return d
}

func (d *desk) start() {
	d.t.Helper()
	log := slog.New(slog.NewTextHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg, err := monitor.LoadConfig(d.config, 0, log)
	must.Succeed(d.t, err)
	external, err := url.Parse("https://sixty.example.com")
	must.Succeed(d.t, err)
	d.registry = prometheus.NewRegistry()
	d.teller, err = receivers.New(d.file, external, (monitor.AlertSettings{}).Rank, log, d.registry)
	must.Succeed(d.t, err)
	d.teller.Dial(func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == d.away {
			address = "nobody"
		}
		return d.network.DialContext(ctx, network, address)
	})
	must.Succeed(d.t, d.teller.SetReceivers(cfg.Sixty.Receivers, cfg.Sixty.Heartbeat))
}

// see sends an alert that ends after a while.
func (d *desk) see(severity string, ends time.Duration) {
	d.teller.Notify(collect.Alert{
		Labels: map[string]string{"alertname": "VLLMKVCacheThrashing", "model_name": "qwen", "severity": severity},
		Annotations: map[string]string{"summary": "the cache is full", "description": threeLines,
			"runbook_url": "https://example.com/runbook"},
		Began: d.began, Ends: time.Now().Add(ends), Path: "/incident/1",
	})
}

func (d *desk) webhook() []string {
	return d.hook.seen(func(m map[string]any) string {
		labels, _ := m["commonLabels"].(map[string]any)
		return fmt.Sprint(m["status"], " ", labels["severity"])
	})
}

// told is what the webhook was told some flushes later.
func (d *desk) told(want ...string) {
	d.t.Helper()
	<-time.After(time.Minute)
	if got := d.webhook(); !slices.Equal(got, want) {
		d.t.Fatalf("told %q, want %q; log: %s", got, want, d.log)
	}
}

// TestReceivers: a beginning, what is worse, and an end are told, each once.
func TestReceivers(t *testing.T) { synctest.Test(t, testReceivers) }

func testReceivers(t *testing.T) {
	d := newDesk(t)
	d.see("ticket", time.Hour)
	d.told("firing ticket")
	for range 5 {
		d.see("ticket", time.Hour) // sent again, as to an Alertmanager
	}
	d.told("firing ticket")
	d.see("page", time.Hour)
	d.told("firing ticket", "firing page")
	d.see("ticket", -time.Second) // the lower one ended: the alert goes on
	d.told("firing ticket", "firing page")
	d.see("page", -time.Second)
	d.told("firing ticket", "firing page", "resolved page")
	d.see("page", -time.Second)
	d.told("firing ticket", "firing page", "resolved page")

	keys := d.pager.seen(func(m map[string]any) string { return fmt.Sprint(m["event_action"], " ", m["dedup_key"]) })
	if len(keys) != 3 || !strings.HasPrefix(keys[0], "trigger ") || !strings.HasPrefix(keys[2], "resolve ") ||
		strings.TrimPrefix(keys[0], "trigger ") != strings.TrimPrefix(keys[2], "resolve ") {
		t.Errorf("PagerDuty: %q", keys)
	}
	if cards := d.teams.seen(func(m map[string]any) string { return fmt.Sprint(m["attachments"]) }); len(cards) != 3 ||
		!strings.Contains(cards[0], "KVCacheThrashing") {
		t.Errorf("Teams: %q", cards)
	}
	texts := d.slack.seen(func(m map[string]any) string { return fmt.Sprint(m["attachments"]) })
	if len(texts) != 3 || !strings.Contains(texts[0], "the cache is full") ||
		!strings.Contains(texts[0], "https://sixty.example.com/incident/1") {
		t.Errorf("Slack: %q", texts)
	}
	// Whom it hurts, what to do, where to look, and nothing else; of what is over where to look.
	const link = "https://sixty.example.com/incident/1"
	field := func(of *endpoint, path ...string) string {
		all := of.seen(func(m map[string]any) string {
			var v any = m
			for _, name := range path {
				if list, ok := v.([]any); ok {
					v = list[0]
				}
				next, _ := v.(map[string]any)
				v = next[name]
			}
			return strings.TrimSpace(fmt.Sprint(v))
		})
		if last := all[len(all)-1]; strings.Contains(last, "Now: ") {
			t.Errorf("an end says what to do: %q", last)
		}
		return all[0]
	}
	for who, got := range map[string]string{
		"Slack":     field(d.slack, "attachments", "text"),
		"PagerDuty": field(d.pager, "payload", "custom_details", "firing"),
		"mail":      receivers.Mail(t, threeLines, link),
	} {
		if want := threeLines + "\n" + link; got != want {
			t.Errorf("%s: %q, want %q", who, got, want)
		}
	}
	if cards := d.teams.seen(func(m map[string]any) string { return fmt.Sprint(m["attachments"]) }); strings.Contains(
		cards[0], "runbook") || !strings.Contains(cards[0], "Now: ") {
		t.Errorf("Teams: %q", cards[0])
	}
	if strings.Contains(d.log.String(), secret) {
		t.Errorf("a secret in the log: %s", d.log)
	}
}

// threeLines are the first two of a notification.
const threeLines = "12 of 40 requests late in 6 min. On a:8000.\nNow: Cap this model at 6 requests in flight."

// TestSeveritiesOfRules: rules call severities as they like, or have none. Each that the
// configuration does not name is an alert of its own, and all of them end.
func TestSeveritiesOfRules(t *testing.T) { synctest.Test(t, testSeveritiesOfRules) }

func testSeveritiesOfRules(t *testing.T) {
	d := newDesk(t)
	see := func(ends time.Duration, severity ...string) {
		labels := map[string]string{"alertname": "Mine"}
		for _, s := range severity {
			labels["severity"] = s
		}
		d.teller.Notify(collect.Alert{Labels: labels, Began: d.began, Ends: time.Now().Add(ends), Path: "/"})
	}
	see(time.Hour)
	d.told("firing <nil>")
	see(time.Hour, "warning")
	d.told("firing <nil>", "firing warning")
	see(time.Hour, "critical") // is not known to be worse
	d.told("firing <nil>", "firing warning", "firing critical")
	see(time.Hour, "page")
	d.told("firing <nil>", "firing warning", "firing critical", "firing page")
	see(time.Hour)
	see(-time.Second, "warning")
	d.told("firing <nil>", "firing warning", "firing critical", "firing page", "resolved warning")
	see(-time.Second)
	want := []string{"firing <nil>", "firing warning", "firing critical", "firing page", "resolved warning",
		"resolved <nil>"}
	d.told(want...)
	see(-time.Second, "critical")
	d.told(append(want, "resolved critical")...)
}

// TestReceiversThatAreAway: nothing is lost, nothing comes twice, one does not hold up
// another, a restart in between does not matter, and nobody reads secrets in the log.
func TestReceiversThatAreAway(t *testing.T) { synctest.Test(t, testReceiversThatAreAway) }

func testReceiversThatAreAway(t *testing.T) {
	d := newDesk(t)
	d.hook.status.Store(http.StatusServiceUnavailable)
	d.away = "pager:80" // the error has the address in it
	d.see("page", time.Hour)
	<-time.After(time.Minute)
	if slack, tries := len(d.slack.seen(func(map[string]any) string { return "" })),
		d.hook.tries(); slack != 1 || tries < 2 {
		t.Errorf("Slack was told %d times, and a webhook that fails was tried %d times", slack, tries)
	}
	if n, err := testutil.GatherAndCount(d.registry, "sixty_notifications_failed_total"); n != 2 || err != nil {
		t.Errorf("failures of %d receivers are counted, %v, want the webhook's and PagerDuty's", n, err)
	}
	d.teller.Close()
	d.start()
	d.see("page", 2*time.Minute) // ends because nobody sends it again
	<-time.After(3 * time.Minute)
	d.hook.status.Store(http.StatusOK)
	<-time.After(2 * time.Minute) // its trials are up to a minute and a half apart by now
	d.told("firing page", "resolved page")
	if got := d.slack.seen(func(m map[string]any) string {
		return fmt.Sprintf("%.60s",
			fmt.Sprint(m["attachments"]))
	}); len(got) != 2 {
		t.Errorf("Slack was told %q, want of the beginning and the end; log: %s", got, d.log)
	}
	if log := d.log.String(); strings.Contains(log, secret) || !strings.Contains(log, "pager/pagerduty/0") {
		t.Errorf("the log: %s", log)
	}
}

// TestARestart: what was told is not told again, and what ended meanwhile is told, though
// nobody sends it any more.
func TestARestart(t *testing.T) { synctest.Test(t, testRestart) }

func testRestart(t *testing.T) {
	d := newDesk(t)
	d.see("ticket", time.Hour)
	d.told("firing ticket")
	d.see("page", 91*time.Second)
	d.told("firing ticket", "firing page")
	d.teller.Close()
	d.start()
	d.told("firing ticket", "firing page", "firing ticket") // it is less bad
	d.see("ticket", time.Hour)
	d.told("firing ticket", "firing page", "firing ticket")
	d.see("ticket", time.Second)
	d.teller.Close()
	<-time.After(time.Minute)
	d.start()
	d.told("firing ticket", "firing page", "firing ticket", "resolved ticket")
}

// TestAFollower: a monitor that does not lead tells nobody, and keeps what was not told until it leads.
func TestAFollower(t *testing.T) { synctest.Test(t, testFollower) }

func testFollower(t *testing.T) {
	d := newDesk(t)
	var leads atomic.Bool
	d.teller.Lead(leads.Load)
	d.see("ticket", time.Hour)
	d.told()
	leads.Store(true)
	d.told("firing ticket")
	leads.Store(false)
	d.see("ticket", -time.Second)
	d.told("firing ticket")
	leads.Store(true)
	d.told("firing ticket", "resolved ticket")
}

// TestHeartbeat: the receiver of heartbeats hears of them every minute and of nothing else, the others
// of everything else; and when they stop it hears nothing.
func TestHeartbeat(t *testing.T) { synctest.Test(t, testHeartbeat) }

func testHeartbeat(t *testing.T) {
	d := newDesk(t)
	text, err := os.ReadFile(d.config)
	if err == nil {
		err = os.WriteFile(d.config, append(text, "  heartbeat: web\n"...), 0o600)
	}
	must.Succeed(t, err)
	d.teller.Close()
	d.start()
	d.see("page", time.Hour)
	for range 20 { // five minutes
		d.teller.Beat(collect.Alert{Labels: map[string]string{"alertname": receivers.Heartbeat}, Began: time.Now(),
			Ends: time.Now().Add(30 * time.Second)})
		<-time.After(15 * time.Second)
	}
	beats := d.webhook()
	if len(beats) < 4 || len(beats) > 6 || slices.ContainsFunc(beats,
		func(s string) bool { return s != "firing <nil>" }) {
		t.Errorf("in five minutes the receiver of heartbeats heard %q, want about five of them; log: %s", beats, d.log)
	}
	if texts := d.slack.seen(func(m map[string]any) string { return fmt.Sprint(m["attachments"]) }); len(texts) != 1 ||
		strings.Contains(texts[0], receivers.Heartbeat) {
		t.Errorf("Slack heard %q, want the page", texts)
	}
	<-time.After(10 * time.Minute)
	if after := d.webhook(); len(after) > len(beats)+1 {
		t.Errorf("after the last heartbeat it heard %q", after[len(beats):])
	}
}

func TestReceiversAreParsedStrictly(t *testing.T) {
	const head = "global: {scrape_interval: 5s}\nsixty:\n  use_case: chat\n  receivers:\n"
	for name, tt := range map[string]struct{ text, err string }{
		"unknown field": {"  - name: a\n    webhook_configs:\n    - url: http://x\n      urls: y\n",
			"line 5: receiver \"a\": field urls not found"},
		"no address": {"  - name: a\n    webhook_configs: [{send_resolved: true}]\n",
			"line 5: receiver \"a\": one of url or url_file"},
		"the second": {"  - name: a\n    webhook_configs: [{url: http://x}]\n  - name: b\n    pagerduty_configs: [{}]\n", "line 7: receiver \"b\": missing service or routing key"},
		"no name":    {"  - webhook_configs: [{url: http://x}]\n", "line 5: receiver \"\": missing name"},
		"twice":      {"  - name: a\n  - name: a\n", "line 6: receiver \"a\": the name is not unique"},
		"a kind that is not": {"  - name: a\n    pigeon_configs: []\n",
			"line 5: receiver \"a\": field pigeon_configs not found"},
		"slack without secret": {"  - name: a\n    slack_configs: [{channel: x}]\n", "line 5: receiver \"a\": no "},
		"after it":             {"  - name: a\n    webhook_configs: [{url: http://x}]\n  only: 3\n", "line 7"},
		"no such heartbeat": {"  - name: a\n    webhook_configs: [{url: http://x}]\n  heartbeat: b\n",
			"sixty.heartbeat: there is no receiver \"b\""},
		"in braces": {"    [{name: a, sms_configs: []}]\n", "line 5: receiver \"a\": field sms_configs"},
	} {
		_, err := monitor.ParseConfig([]byte(head+tt.text), 0, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", name, err, tt.err)
		}
	}
	c, err := monitor.ParseConfig([]byte(head+"  - name: a\n    webhook_configs:\n    - url_file: x # of a secret\n    email_configs: [{to: a@example.com, from: b@example.com, smarthost: 'mail:25'}]\n  anomalies: true\nremote_write: []\n"), 0, slog.New(slog.DiscardHandler))
	if err != nil || len(c.Sixty.Receivers) != 1 || len(c.Sixty.Receivers[0].EmailConfigs) != 1 ||
		!c.Sixty.Anomalies.On {
		t.Errorf("%+v, %v", c, err)
	}
}
