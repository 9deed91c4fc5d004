// Package receivers notifies people of alerts without an Alertmanager, with Alertmanager's own dispatcher,
// notification log, notifiers and configuration. It notifies once each when an alert begins, changes its severity,
// and ends. The notification log is kept in a file over restarts.
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

// How Alertmanager's machinery is set.
const (
	flushing    = 5 * time.Second  // between two checks of an alert for changes
	attempt     = 12 * time.Second // for one notification; then it is sent again
	mostWorking = 1 << 30          // notifications at a time, which nothing bounds
	mostStuck   = 3                // attempts of a receiver that go on though their time is over
	beating     = time.Minute      // between two heartbeats
	// an alert that began and ended while a receiver was away for longer is not sent to it
	retrying   = time.Hour
	keeping    = time.Hour            // after which an alert of a monitor that was away is not taken up again
	grace      = 2 * time.Second      // for attempts in progress at the end
	never      = 365 * 24 * time.Hour // until an alert that goes on is told again
	afterEnd   = time.Hour            // until it is forgotten who was told of an end, which is sent for less
	forgetting = 24 * time.Hour       // between two sweeps of what ended
	mostAlike  = 1000                 // alerts of one name
	maxState   = 64 << 20             // bytes of the file
)

// fault is the label by which alerts are grouped, which nobody outside sees: the severities
// of one fault are one group.
const fault = "__fault__"

// words are what Alertmanager's templates say of an Alertmanager, and sixty of itself: whom it hurts, what to do
// and where to look, a line each, in the place of all labels and annotations.
var words = `
{{ define "__alertmanager" }}sixty{{ end }}
{{ define "__alertmanagerURL" }}{{ range .Alerts }}{{ .GeneratorURL }}{{ end }}{{ end }}
{{ define "__subject" }}[{{ .Status | toUpper }}] {{ .CommonLabels.alertname }}{{ with .CommonLabels.model_name }} {{ . }}{{ end }}: {{ .CommonAnnotations.summary }}{{ end }}
{{ define "__text_alert_list" }}{{ range . }}{{ if eq .Status "firing" }}{{ with .Annotations.description }}{{ . }}
{{ end }}{{ end }}{{ .GeneratorURL }}{{ end }}{{ end }}
{{ define "__text_alert_list_markdown" }}{{ template "__text_alert_list" . }}{{ end }}
{{ define "__lines" }}{{ template "__text_alert_list" .Alerts }}{{ end }}
` + linesOf("slack.default.text", "rocketchat.default.text", "opsgenie.default.description", "victorops.default.state_message", "pushover.default.message",
	"sns.default.message", "webex.default.message", "telegram.default.message", "discord.default.message",
	"wechat.default.message",
	"msteams.default.text", "msteamsv2.default.text", "mattermost.default.text", "jira.default.description") + `
{{ define "email.default.html" }}<p><b>{{ template "__subject" . }}</b></p><p style="white-space: pre-line">{{ template "__lines" . }}</p>{{ end }}
`

// linesOf makes templates say no more than the lines.
func linesOf(names ...string) (out string) {
	for _, name := range names {
		out += fmt.Sprintf("{{ define %q }}{{ template \"__lines\" . }}{{ end }}\n", name)
	}
	return out
}

// quiet is the logger of Alertmanager's parts, which drops everything, because their messages may contain keys.
var quiet = slog.New(slog.DiscardHandler)

// A Notifier tells receivers of alerts. It is safe for concurrent use.
type Notifier struct {
	file     string
	external *url.URL
	log      *slog.Logger
	failed   *prometheus.CounterVec
	rank     func(severity string) int
	leads    func() bool               // whether this monitor leads a cluster
	clients  []config.HTTPClientOption // options of notifiers' clients

	alerts  *mem.Alerts
	kept    []*amalert.Alert // alerts of the file
	told    *nflog.Log
	metrics *notify.Metrics

	mu         sync.Mutex
	dispatcher *dispatch.Dispatcher // nil where there are no receivers
	watched    []*watched           // the integrations of the dispatcher's receivers
	beats      bool                 // one of them wants heartbeats
	working    *semaphore.Weighted  // one for each notification; the dispatcher may begin one while it is stopped
	saving     sync.Mutex
	saved      bool // the last time; guarded by saving
}

// state is what the file holds.
type state struct {
	Alerts []*amalert.Alert `json:"alerts"`
	Told   []byte           `json:"told"` // Alertmanager's log of notifications
}

// New returns a Notifier that keeps its notification log in a file. Failed deliveries are logged without addresses
// and keys. rank orders severities, the worst highest; unknown severities are negative, and each is an alert of its
// own.
func New(file string, external *url.URL, rank func(string) int, log *slog.Logger,
	registry prometheus.Registerer) (*Notifier, error) {
	t := &Notifier{
		file: file, external: external, log: log, rank: rank, leads: func() bool { return true },
		working: semaphore.NewWeighted(mostWorking), saved: true,
		failed: promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
			Name: "sixty_notifications_failed_total", Help: "Failed notifications to receivers, each attempt counted.",
		}, []string{"receiver"}),
	}
	var kept state
	text, err := fileio.Read(file, maxState)
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	own := prometheus.NewRegistry() // Alertmanager's metrics of itself are not ours
	told, broken := nflog.New(nflog.Options{Retention: never, Metrics: own, SnapshotReader: bytes.NewReader(kept.Told)})
	if t.told = told; broken != nil || err != nil && !errors.Is(err, os.ErrNotExist) {
		// The notification log is lost. Notifying twice is better than not at all.
		t.log.Warn("the notification log is lost: notifications may be repeated", "err", errors.Join(err, broken))
	}
	t.metrics = notify.NewMetrics(own, featurecontrol.NoopFlags{})
	if t.alerts, err = mem.NewAlerts(context.Background(), forgetting, mostAlike, nil, quiet,
		eventrecorder.NopRecorder(), own, nil); err != nil {
		return nil, err
	}
	for _, a := range kept.Alerts {
		// New computes the fingerprint, which the file lacks
		t.kept = append(t.kept, amalert.New(a.Alert, a.UpdatedAt, a.Timeout))
	}
	return t, t.alerts.Put(context.Background(), t.kept...)
}

// Kept are the alerts that went on when the file was last written.
func (t *Notifier) Kept() (out []collect.Alert) {
	for _, a := range t.kept {
		if !a.EndsAt.After(a.UpdatedAt) || time.Since(a.EndsAt) > keeping {
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

// Share makes several monitors tell receivers as one: the leader tells, and all know who was told. It is
// called before SetReceivers.
func (t *Notifier) Share(p *pair.Pair) {
	t.leads = p.Leads
	t.told.SetBroadcast(p.Share("notifications", t.told))
}

// errFollows keeps what another monitor tells of until it is known to be told.
var errFollows = errors.New("another monitor notifies the receivers")

// Heartbeat is the name of the alert that says that sixty judges. The receiver of heartbeats gets it every
// minute and nothing else: a dead man's switch, which calls when it stops.
const Heartbeat = "SixtyHeartbeat"

// Failing is the name of the alert that says that a receiver does not take notifications. All others
// get it; the label receiver names the one that fails.
const Failing = "SixtyReceiverFailing"

// SetReceivers replaces the receivers. The notification log of receivers that stay is kept. heartbeat names the
// receiver of a heartbeat every minute; "" means none.
func (t *Notifier) SetReceivers(list []amconfig.Receiver, heartbeat string) error {
	tmpl, err := template.FromGlobs(nil)
	if err == nil {
		err = tmpl.Parse(strings.NewReader(words))
	}
	if err != nil {
		return err
	}
	tmpl.ExternalURL = t.external
	var routes, beats []*amconfig.Route
	var integrated []*watched
	stages := notify.RoutingStage{}
	wait, interval, repeat, beat := model.Duration(0), model.Duration(flushing), model.Duration(never),
		model.Duration(beating)
	for _, r := range list {
		for _, c := range r.PagerdutyConfigs {
			if c.Details["firing"] == pagerduty.DefaultPagerdutyDetails["firing"] {
				c.Details["firing"] = `{{ template "__text_alert_list" .Alerts.Firing }}`
				c.Details["resolved"] = `{{ template "__text_alert_list" .Alerts.Resolved }}`
			}
		}
		integrations, err := receiver.BuildReceiverIntegrations(r, tmpl, quiet, t.clients...)
		if err != nil {
			return fmt.Errorf("sixty.receivers: %s: %w", r.Name, err)
		}
		for _, i := range integrations {
			// Each has a route of its own: one that hangs holds up no other.
			w := &watched{Integration: i, id: fmt.Sprintf("%s/%s/%d", r.Name, i.Name(), i.Index()), receiver: r.Name,
				t: t, stuck: make(chan struct{}, mostStuck)}
			integrated, stages[w.id] = append(integrated, w), t.stage(w)
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
	t.watched, t.beats = integrated, len(beats) > 0
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
		return ctx, nil, nil // nobody is told
	})
	t.dispatcher = dispatch.NewDispatcher(t.alerts, root, stages, nil,
		func(time.Duration) time.Duration { return retrying },
		time.Minute, nil, quiet, eventrecorder.NopRecorder(), nil, tmpl)
	go t.dispatcher.Run(time.Now())
	t.dispatcher.WaitForLoading()
	return nil
}

// stage is the way of an alert to one receiver.
func (t *Notifier) stage(w *watched) notify.Stage {
	i, name := w.Integration, w.receiver
	recv := &nflogpb.Receiver{GroupName: name, Integration: i.Name(), Idx: uint32(i.Index())}
	way := notify.MultiStage{
		notify.NewDedupStage(&i, t.told, recv),
		notify.NewRetryStage(notify.NewIntegration(w, &i, i.Name(), i.Index(), name), name, t.metrics,
			eventrecorder.NopRecorder()),
		notify.NewSetNotifiesStage(t.told, recv, featurecontrol.NoopFlags{}),
	}
	return notify.StageFunc(func(ctx context.Context, l *slog.Logger, alerts ...*amalert.Alert) (context.Context,
		[]*amalert.Alert, error) {
		if err := t.working.Acquire(ctx, 1); err != nil {
			return ctx, nil, err // it was stopped, and does not wait for what begins now
		}
		defer t.working.Release(1)
		if !t.leads() {
			return ctx, nil, errFollows
		}
		a := t.worstAlert(alerts)
		switch {
		case a.Name() == Heartbeat && a.Resolved():
			return ctx, nil, nil // that sixty judges no more is said by silence
		case a.Name() == Failing && string(a.Labels["receiver"]) == w.id:
			return ctx, nil, nil // a receiver is not told of its own failures
		}
		group := model.LabelSet{}
		for _, n := range []model.LabelName{"alertname", "cluster", "namespace", "model_name"} {
			if v := a.Labels[n]; v != "" {
				group[n] = v
			}
		}
		ctx = notify.WithGroupLabels(notify.WithReceiverName(ctx, name), group)
		if a.Resolved() {
			ctx = notify.WithRepeatInterval(ctx, afterEnd/2) // the log's retention is twice this
		}
		ctx, told, err := way.Exec(ctx, l, a)
		if err == nil && len(told) > 0 {
			t.save()
		}
		return ctx, told, err
	})
}

// worstAlert returns the alert to notify of for a fault: the active one with the worst severity, or the last one that
// ended.
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

// watched is a notifier whose attempts end, and whose failures are counted and told of.
type watched struct {
	notify.Integration
	id, receiver string
	t            *Notifier
	failure      atomic.Pointer[Failure] // since the last notification that it took; nil where that was the last one
	stuck        chan struct{}           // holds one for each attempt that goes on
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
	for _, w := range t.watched {
		if f := w.failure.Load(); f != nil {
			out = append(out, *f)
		}
	}
	return out
}

// Notify sends one notification, which fails after the time of an attempt: the retry stage sends it
// again. An attempt that is on its way when the notifier stops has a moment to end: whether it arrived
// would not be known.
func (w *watched) Notify(ctx context.Context, alerts ...*amalert.Alert) notify.NotifyVerdict {
	verdict := w.try(ctx, alerts...)
	err := verdict.Err()
	if err == nil {
		w.failure.Store(nil)
		return verdict
	}
	w.t.failed.WithLabelValues(w.receiver).Inc()
	f := Failure{Receiver: w.id, Since: time.Now(), Why: unanswered.Cause(err).Error()}
	last := w.failure.Load()
	if last != nil {
		f.Since = last.Since
	}
	if w.failure.Store(&f); last == nil || last.Why != f.Why {
		w.t.log.Warn("a notification failed and will be retried", "receiver", w.id, "err", f.Why)
	}
	return verdict
}

// errNoAnswer is the error of an attempt with an unknown outcome.
var errNoAnswer = fmt.Errorf("no answer within %s", attempt)

// try makes one attempt. Some notifiers, such as mail's, ignore their context once they are connected. Such attempts
// are abandoned, a few at most.
func (w *watched) try(ctx context.Context, alerts ...*amalert.Alert) notify.NotifyVerdict {
	select {
	case w.stuck <- struct{}{}:
	default:
		return notify.Retry(0, fmt.Errorf("%d notifications are still waiting for an answer", mostStuck),
			notify.DefaultReason)
	}
	late, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), attempt, errNoAnswer)
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

// Notify processes alerts in the form in which they are sent to Alertmanagers, repeatedly. Informative alerts go to
// Alertmanagers, which have routes, but not to receivers.
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
			group["severity"] = "" // no alert has this value
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

// Beat takes the alert that is sent while sixty judges; see Heartbeat.
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

// stop ends what runs. It needs the lock.
func (t *Notifier) stop() {
	t.dispatcher.Stop()
	t.dispatcher = nil
	if err := t.working.Acquire(context.Background(), mostWorking); err == nil { // all attempts have ended
		t.working.Release(mostWorking)
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
	_, err := t.told.GC()
	if err == nil {
		now.Told, err = t.told.MarshalBinary()
	}
	if err == nil {
		err = fileio.Write(t.file, func(w io.Writer) error { return json.NewEncoder(w).Encode(now) })
	}
	if err != nil && t.saved {
		t.log.Warn("the notification log is not saved", "file", filepath.Base(t.file), "err", err)
	}
	t.saved = err == nil
}
