// Package receivers notifies people of alerts without an Alertmanager, with Alertmanager's own dispatcher, notification
// log, notifiers and configuration.
//
// Alerts of one fault that differ in severity form a group ([Notifier.Notify]). The dispatcher passes each group to
// every integration on a route of its own, so that a hanging receiver delays no other. A stage chooses the worst alert
// of the group, and notifies once when it begins, changes its severity, and ends. A failed notification is tried again.
// Alerts and notification log are stored in one file, so that a restart repeats nothing.
//
// The package decides neither which findings are alerts nor when they end: package monitor does.
package receivers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amalert "github.com/prometheus/alertmanager/alert"
	amconfig "github.com/prometheus/alertmanager/config"
	amcommon "github.com/prometheus/alertmanager/config/common"
	"github.com/prometheus/alertmanager/config/receiver"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/alertmanager/eventrecorder"
	"github.com/prometheus/alertmanager/featurecontrol"
	"github.com/prometheus/alertmanager/nflog"
	"github.com/prometheus/alertmanager/nflog/nflogpb"
	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/alertmanager/notify/pagerduty"
	"github.com/prometheus/alertmanager/pkg/labels"
	"github.com/prometheus/alertmanager/provider/mem"
	"github.com/prometheus/alertmanager/template"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/semaphore"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/unanswered"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/monitor/pair"
)

// Settings of Alertmanager's parts.
const (
	checkEvery     = 5 * time.Second      // between two checks of an alert for changes
	attemptTimeout = 12 * time.Second     // for one notification, before it is tried again
	maxWorking     = 1 << 30              // concurrent notifications: no bound
	maxStuck       = 3                    // attempts of one integration that ignore their timeout
	beatEvery      = time.Minute          // between two heartbeats
	retryFor       = time.Hour            // an alert that begins and ends while a receiver fails for longer is lost
	restoreFor     = time.Hour            // after its end, an alert in the file is not restored
	grace          = 2 * time.Second      // for running attempts when the Notifier stops
	repeatAfter    = 365 * 24 * time.Hour // repeat interval of an active alert
	forgetEndAfter = time.Hour            // until a notified end is forgotten; ends are sent for a shorter time
	sweepEvery     = 24 * time.Hour       // between two removals of ended alerts
	maxSameName    = 1000                 // alerts with one name
	maxState       = 64 << 20             // bytes of the file
)

// fault is an internal label for grouping: alerts of one fault with different severities have the same value.
const fault = "__fault__"

// templates replace those of Alertmanager's templates that name an Alertmanager, or list all labels and annotations.
// The text of a notification is the alert's description and its link.
var templates = `
{{ define "__alertmanager" }}sixty{{ end }}
{{ define "__alertmanagerURL" }}{{ range .Alerts }}{{ .GeneratorURL }}{{ end }}{{ end }}
{{ define "__subject" }}[{{ .Status | toUpper }}] {{ .CommonLabels.alertname }}{{ with .CommonLabels.model_name }} {{ . }}{{ end }}: {{ .CommonAnnotations.summary }}{{ end }}
{{ define "__text_alert_list" }}{{ range . }}{{ if eq .Status "firing" }}{{ with .Annotations.description }}{{ . }}
{{ end }}{{ end }}{{ .GeneratorURL }}{{ end }}{{ end }}
{{ define "__text_alert_list_markdown" }}{{ template "__text_alert_list" . }}{{ end }}
{{ define "__lines" }}{{ template "__text_alert_list" .Alerts }}{{ end }}
` + defineLines(
	"slack.default.text", "rocketchat.default.text", "opsgenie.default.description", "victorops.default.state_message",
	"pushover.default.message", "sns.default.message", "webex.default.message", "telegram.default.message",
	"discord.default.message", "wechat.default.message", "msteams.default.text", "msteamsv2.default.text", "mattermost.default.text", "jira.default.description") + `
{{ define "email.default.html" }}<p><b>{{ template "__subject" . }}</b></p><p style="white-space: pre-line">{{ template "__lines" . }}</p>{{ end }}
`

// defineLines defines templates as __lines.
func defineLines(names ...string) (out string) {
	for _, name := range names {
		out += fmt.Sprintf("{{ define %q }}{{ template \"__lines\" . }}{{ end }}\n", name)
	}
	return out
}

// discardLog is the logger of Alertmanager's parts: their messages may contain keys.
var discardLog = slog.New(slog.DiscardHandler)

// A Notifier notifies receivers of alerts. It is safe for concurrent use.
type Notifier struct {
	file     string
	external *url.URL
	log      *slog.Logger
	failed   *prometheus.CounterVec
	rank     func(severity string) int
	leads    func() bool               // whether this monitor leads a cluster
	clients  []config.HTTPClientOption // options of notifiers' clients

	alerts   *mem.Alerts
	restored []*amalert.Alert // from the file
	notified *nflog.Log
	metrics  *notify.Metrics

	mu           sync.Mutex
	dispatcher   *dispatch.Dispatcher  // nil without receivers
	integrations []*watchedIntegration // the integrations of the dispatcher's receivers
	beats        bool                  // one of them gets heartbeats
	working      *semaphore.Weighted   // one for each running notification
	saving       sync.Mutex
	saved        bool // whether the last save succeeded; guarded by saving
}

// state is the content of the file.
type state struct {
	Alerts []*amalert.Alert `json:"alerts"`
	Told   []byte           `json:"told"` // Alertmanager's log of notifications
}

// New returns a Notifier that stores its notification log in a file. Failed deliveries are logged without addresses and
// keys. rank orders severities, the worst highest. An alert with an unknown severity, whose rank is negative, has a
// group of its own.
func New(file string, external *url.URL, rank func(string) int, log *slog.Logger,
	registry prometheus.Registerer) (*Notifier, error) {
	t := &Notifier{
		file: file, external: external, log: log, rank: rank, leads: func() bool { return true },
		working: semaphore.NewWeighted(maxWorking), saved: true,
		failed: promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
			Name: "sixty_notifications_failed_total", Help: "Failed notifications to receivers, each attempt counted.",
		}, []string{"receiver"}),
	}
	var kept state
	text, err := fileio.Read(file, maxState)
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	own := prometheus.NewRegistry() // Alertmanager's own metrics are not exposed
	told, broken := nflog.New(nflog.Options{Retention: repeatAfter, Metrics: own,
		SnapshotReader: bytes.NewReader(kept.Told)})
	if t.notified = told; broken != nil || err != nil && !errors.Is(err, os.ErrNotExist) {
		// The notification log is lost. Notifying twice is better than not at all.
		t.log.Warn("the notification log is lost: notifications may be repeated", "err", errors.Join(err, broken))
	}
	t.metrics = notify.NewMetrics(own, featurecontrol.NoopFlags{})
	if t.alerts, err = mem.NewAlerts(context.Background(), sweepEvery, maxSameName, nil, discardLog,
		eventrecorder.NopRecorder(), own, nil); err != nil {
		return nil, err
	}
	for _, a := range kept.Alerts {
		// New computes the fingerprint, which the file lacks
		t.restored = append(t.restored, amalert.New(a.Alert, a.UpdatedAt, a.Timeout))
	}
	return t, t.alerts.Put(context.Background(), t.restored...)
}

// Restored returns the alerts that were active when the file was last written.
func (t *Notifier) Restored() (out []collect.Alert) {
	for _, a := range t.restored {
		if !a.EndsAt.After(a.UpdatedAt) || time.Since(a.EndsAt) > restoreFor {
			continue
		}
		b := collect.Alert{Labels: map[string]string{}, Annotations: map[string]string{}, Began: a.StartsAt,
			Ends: a.EndsAt}
		for name, v := range a.Labels {
			if name != fault {
				b.Labels[string(name)] = string(v)
			}
		}
		for name, v := range a.Annotations {
			b.Annotations[string(name)] = string(v)
		}
		b.Path = strings.TrimPrefix(a.GeneratorURL, strings.TrimSuffix(t.external.String(), "/"))
		out = append(out, b)
	}
	return out
}

// Share lets the leader of a cluster notify alone. All members share the notification log. It is called before
// SetReceivers.
func (t *Notifier) Share(p *pair.Pair) {
	t.leads = p.Leads
	t.notified.SetBroadcast(p.Share("notifications", t.notified))
}

// errFollows makes a notification retry until the log shows that the leader sent it.
var errFollows = errors.New("another monitor notifies the receivers")

// Heartbeat is the name of the alert that is sent while sixty judges. The receiver of heartbeats gets it every minute
// and nothing else: a dead man's switch, which alerts when heartbeats stop.
const Heartbeat = "SixtyHeartbeat"

// Failing is the name of the alert that a receiver does not accept notifications. The other receivers get it. The label
// receiver names the failing one.
const Failing = "SixtyReceiverFailing"

// SetReceivers replaces the receivers. The notification log of receivers that stay is kept. heartbeat names the
// receiver of a heartbeat every minute; "" means none.
func (t *Notifier) SetReceivers(list []amconfig.Receiver, heartbeat string) error {
	tmpl, err := template.FromGlobs(nil)
	if err == nil {
		err = tmpl.Parse(strings.NewReader(templates))
	}
	if err != nil {
		return err
	}
	tmpl.ExternalURL = t.external
	var routes, beats []*amconfig.Route
	var integrated []*watchedIntegration
	stages := notify.RoutingStage{}
	wait, interval, repeat, beat := model.Duration(0), model.Duration(checkEvery), model.Duration(repeatAfter),
		model.Duration(beatEvery)
	for _, r := range list {
		for _, c := range r.PagerdutyConfigs {
			if c.Details["firing"] == pagerduty.DefaultPagerdutyDetails["firing"] {
				c.Details["firing"] = `{{ template "__text_alert_list" .Alerts.Firing }}`
				c.Details["resolved"] = `{{ template "__text_alert_list" .Alerts.Resolved }}`
			}
		}
		integrations, err := receiver.BuildReceiverIntegrations(r, tmpl, discardLog, t.clients...)
		if err != nil {
			return fmt.Errorf("sixty.receivers: %s: %w", r.Name, err)
		}
		for _, i := range integrations {
			// Each integration has a route of its own: one that hangs delays no other.
			w := &watchedIntegration{Integration: i, id: fmt.Sprintf("%s/%s/%d", r.Name, i.Name(), i.Index()),
				receiver: r.Name,
				notifier: t, stuck: make(chan struct{}, maxStuck)}
			integrated, stages[w.id] = append(integrated, w), t.newStage(w)
			if r.Name == heartbeat {
				beats = append(beats, &amconfig.Route{Receiver: w.id, Continue: true, RepeatInterval: &beat})
			} else {
				routes = append(routes, &amconfig.Route{Receiver: w.id, Continue: true})
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop()
	t.integrations, t.beats = integrated, len(beats) > 0
	if len(integrated) == 0 {
		return nil
	}
	beatsOnly, err := labels.NewMatcher(labels.MatchEqual, model.AlertNameLabel, Heartbeat)
	if err != nil {
		return err
	}
	root := dispatch.NewRoute(&amconfig.Route{
		GroupBy: []model.LabelName{fault}, GroupWait: &wait, GroupInterval: &interval, RepeatInterval: &repeat,
		Routes: append([]*amconfig.Route{{Matchers: amcommon.Matchers{beatsOnly}, Routes: beats}}, routes...),
	}, nil)
	stages[""] = notify.StageFunc(func(ctx context.Context, _ *slog.Logger, _ ...*amalert.Alert) (context.Context,
		[]*amalert.Alert, error) {
		return ctx, nil, nil // alerts without a route
	})
	t.dispatcher = dispatch.NewDispatcher(t.alerts, root, stages, nil,
		func(time.Duration) time.Duration { return retryFor },
		time.Minute, nil, discardLog, eventrecorder.NopRecorder(), nil, tmpl)
	go t.dispatcher.Run(time.Now())
	t.dispatcher.WaitForLoading()
	return nil
}

// newStage returns the stage that notifies one integration of a group of alerts.
func (t *Notifier) newStage(w *watchedIntegration) notify.Stage {
	i, name := w.Integration, w.receiver
	recv := &nflogpb.Receiver{GroupName: name, Integration: i.Name(), Idx: uint32(i.Index())}
	way := notify.MultiStage{
		notify.NewDedupStage(&i, t.notified, recv),
		notify.NewRetryStage(notify.NewIntegration(w, &i, i.Name(), i.Index(), name), name, t.metrics,
			eventrecorder.NopRecorder()),
		notify.NewSetNotifiesStage(t.notified, recv, featurecontrol.NoopFlags{}),
	}
	return notify.StageFunc(func(ctx context.Context, l *slog.Logger, alerts ...*amalert.Alert) (context.Context,
		[]*amalert.Alert, error) {
		if err := t.working.Acquire(ctx, 1); err != nil {
			return ctx, nil, err // the Notifier stops
		}
		defer t.working.Release(1)
		if !t.leads() {
			return ctx, nil, errFollows
		}
		a := t.worstAlert(alerts)
		switch {
		case a.Name() == Heartbeat && a.Resolved():
			return ctx, nil, nil // the end of heartbeats is silence
		case a.Name() == Failing && string(a.Labels["receiver"]) == w.id:
			return ctx, nil, nil // about itself
		}
		group := model.LabelSet{}
		for _, n := range []model.LabelName{"alertname", "cluster", "namespace", "model_name"} {
			if v := a.Labels[n]; v != "" {
				group[n] = v
			}
		}
		ctx = notify.WithGroupLabels(notify.WithReceiverName(ctx, name), group)
		if a.Resolved() {
			ctx = notify.WithRepeatInterval(ctx, forgetEndAfter/2) // the log retains an entry for twice this
		}
		ctx, told, err := way.Exec(ctx, l, a)
		if err == nil && len(told) > 0 {
			t.save()
		}
		return ctx, told, err
	})
}

// worstAlert returns the alert that stands for a group: the active one with the worst severity, or else the last one
// that ended.
func (t *Notifier) worstAlert(alerts []*amalert.Alert) *amalert.Alert {
	now := time.Now()
	last := func(a *amalert.Alert) time.Time {
		if a.Resolved() {
			return a.EndsAt
		}
		return now
	}
	rankOf := func(a *amalert.Alert) int { return t.rank(string(a.Labels["severity"])) }
	worst := slices.MaxFunc(alerts, func(a, b *amalert.Alert) int {
		return cmp.Or(last(a).Compare(last(b)), rankOf(a)-rankOf(b))
	})
	a := worst.Alert
	a.Labels = a.Labels.Clone()
	delete(a.Labels, fault)
	return amalert.New(a, worst.UpdatedAt, worst.Timeout)
}

// A watchedIntegration bounds the attempts of an integration, and notes its failures.
type watchedIntegration struct {
	notify.Integration
	id, receiver string
	notifier     *Notifier
	failure      atomic.Pointer[Failure] // since the last accepted notification; nil without one
	stuck        chan struct{}           // has an element for each running attempt
}

// A Failure describes a receiver that does not accept notifications.
type Failure struct {
	Receiver string // NAME/KIND/INDEX
	Since    time.Time
	Why      string
}

func (f Failure) String() string {
	return fmt.Sprintf("notifications do not reach %s since %s: %s", f.Receiver, f.Since.UTC().Format("15:04:05 UTC"),
		f.Why)
}

// Failures returns the receivers that accepted no notification since their failure.
func (t *Notifier) Failures() (out []Failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.integrations {
		if f := w.failure.Load(); f != nil {
			out = append(out, *f)
		}
	}
	return out
}

// Notify makes one attempt at a notification. The retry stage repeats a failed one.
func (w *watchedIntegration) Notify(ctx context.Context, alerts ...*amalert.Alert) notify.NotifyVerdict {
	verdict := w.attempt(ctx, alerts...)
	err := verdict.Err()
	if err == nil {
		w.failure.Store(nil)
		return verdict
	}
	w.notifier.failed.WithLabelValues(w.receiver).Inc()
	f := Failure{Receiver: w.id, Since: time.Now(), Why: unanswered.Cause(err).Error()}
	last := w.failure.Load()
	if last != nil {
		f.Since = last.Since
	}
	if w.failure.Store(&f); last == nil || last.Why != f.Why {
		w.notifier.log.Warn("a notification failed and will be retried", "receiver", w.id, "err", f.Why)
	}
	return verdict
}

// errNoAnswer is the error of an attempt with an unknown outcome.
var errNoAnswer = fmt.Errorf("no answer within %s", attemptTimeout)

// attempt makes one attempt, within attemptTimeout. Some notifiers, such as mail's, ignore their context once they are
// connected: up to maxStuck such attempts are abandoned. When ctx ends, the attempt has some time to finish, because
// the outcome of a cancelled one is unknown.
func (w *watchedIntegration) attempt(ctx context.Context, alerts ...*amalert.Alert) notify.NotifyVerdict {
	select {
	case w.stuck <- struct{}{}:
	default:
		return notify.Retry(0, fmt.Errorf("%d notifications are still waiting for an answer", maxStuck),
			notify.DefaultReason)
	}
	late, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), attemptTimeout, errNoAnswer)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-late.Done():
		case <-time.After(grace):
			cancel()
		}
	})()
	done := make(chan notify.NotifyVerdict, 1)
	go func() {
		defer func() { <-w.stuck }()
		done <- w.Integration.Notify(late, alerts...)
	}()
	select {
	case verdict := <-done:
		if verdict.Err() != nil && late.Err() != nil {
			return notify.Retry(0, context.Cause(late), verdict.Reason())
		}
		return verdict
	case <-late.Done():
		return notify.Retry(0, context.Cause(late), notify.ContextDeadlineExceededReason)
	}
}

// Notify takes alerts, as they are sent to Alertmanagers, repeatedly. Informative alerts are dropped: without routes
// they would reach every receiver.
func (t *Notifier) Notify(alerts ...collect.Alert) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*amalert.Alert
	for _, a := range alerts {
		severityRank := t.rank(a.Labels["severity"])
		if severityRank == int(catalog.Info) {
			continue
		}
		b := model.Alert{
			Labels: labelSet(a.Labels), Annotations: labelSet(a.Annotations), StartsAt: a.Began, EndsAt: a.Ends,
			GeneratorURL: strings.TrimSuffix(t.external.String(), "/") + a.Path,
		}
		group := b.Labels.Clone()
		if severityRank >= 0 {
			group["severity"] = "" // the group ignores the severity
		}
		b.Labels[fault] = model.LabelValue(group.Fingerprint().String())
		out = append(out, amalert.New(b, time.Now(), true))
	}
	if len(out) == 0 {
		return
	}
	if err := t.alerts.Put(context.Background(), out...); err != nil {
		t.log.Warn("receivers are not notified", "err", err)
	}
	t.save()
}

// Beat takes the alert Heartbeat. It drops it without a receiver of heartbeats.
func (t *Notifier) Beat(a collect.Alert) {
	t.mu.Lock()
	beats := t.beats
	t.mu.Unlock()
	if beats {
		t.Notify(a)
	}
}

func labelSet(m map[string]string) model.LabelSet {
	out := model.LabelSet{}
	for k, v := range m {
		out[model.LabelName(k)] = model.LabelValue(v)
	}
	return out
}

// Close stops the Notifier. Pending notifications are sent after the next start.
func (t *Notifier) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop()
	t.alerts.Close()
}

// stop stops the dispatcher and waits for running attempts. The caller holds the lock.
func (t *Notifier) stop() {
	t.dispatcher.Stop()
	t.dispatcher = nil
	if err := t.working.Acquire(context.Background(), maxWorking); err == nil { // all attempts have ended
		t.working.Release(maxWorking)
	}
}

// save writes the alerts and the notification log.
func (t *Notifier) save() {
	t.saving.Lock()
	defer t.saving.Unlock()
	var now state
	it := t.alerts.GetPending()
	for a := range it.Next() {
		now.Alerts = append(now.Alerts, a.Data)
	}
	it.Close()
	_, err := t.notified.GC()
	if err == nil {
		now.Told, err = t.notified.MarshalBinary()
	}
	if err == nil {
		err = fileio.Write(t.file, func(w io.Writer) error { return json.NewEncoder(w).Encode(now) })
	}
	if err != nil && t.saved {
		t.log.Warn("the notification log is not saved", "file", filepath.Base(t.file), "err", err)
	}
	t.saved = err == nil
}
