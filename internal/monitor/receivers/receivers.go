// Package receivers tells people of alerts where there is no Alertmanager: by Alertmanager's
// own notifiers, in Alertmanager's own configuration. It tells that an alert begins, that
// it became worse and that it ended, each once; what cannot be delivered is tried again, and
// is kept in a file over restarts.
package receivers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	amalert "github.com/prometheus/alertmanager/alert"
	amconfig "github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/alertmanager/notify/pagerduty"
	"github.com/prometheus/alertmanager/notify/slack"
	"github.com/prometheus/alertmanager/notify/webhook"
	"github.com/prometheus/alertmanager/template"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/fileio"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/unanswered"
)

// How long a notification may take, when one that failed is tried again, and for how long.
const (
	notifyTime = 20 * time.Second
	grace      = 2 * time.Second // at the end
	firstRetry = time.Second
	lastRetry  = time.Minute
	forgetting = 7 * 24 * time.Hour // of what could not be delivered since
	maxState   = 64 << 20
)

// none stands for the severity of an alert that has none.
const none = "none"

// words are what Alertmanager's templates say of an Alertmanager, and sixty of itself.
const words = `
{{ define "__alertmanager" }}sixty{{ end }}
{{ define "__alertmanagerURL" }}{{ range .Alerts }}{{ .GeneratorURL }}{{ end }}{{ end }}
{{ define "__subject" }}[{{ .Status | toUpper }}] {{ .CommonLabels.alertname }}{{ with .CommonLabels.model_name }} {{ . }}{{ end }}: {{ .CommonAnnotations.summary }}{{ end }}
{{ define "slack.default.text" }}{{ .CommonAnnotations.description }}{{ with .CommonAnnotations.runbook_url }} <{{ . }}|Runbook>{{ end }}{{ end }}
`

// A Teller tells receivers of alerts. It is safe for concurrent use.
type Teller struct {
	file     string
	external *url.URL
	log      *slog.Logger
	failed   *prometheus.CounterVec
	rank     func(severity string) int

	mu      sync.Mutex
	lines   []*line
	known   map[string]*entry // by keyOf their labels
	changed chan struct{}     // closed when something is new
}

// A line is one notifier of one receiver.
type line struct {
	id       string // of the receiver, with the kind and the number
	receiver string
	ends     bool // are told
	notify.Notifier
}

// An entry is an alert and who knows of it.
type entry struct {
	Alert collect.Alert
	Ends  map[string]time.Time // by severity: one that is not sent again ends then
	Told  map[string]string    // by line: the severity that it was told of, "" of an end
}

// New returns a Teller that keeps what it told in a file. The log hears of what cannot be
// delivered, without addresses and keys. Rank orders severities, the worst highest; those that
// it does not know are negative, and each is an alert of its own.
func New(file string, external *url.URL, rank func(string) int, log *slog.Logger, registry prometheus.Registerer) (*Teller, error) {
	t := &Teller{
		file: file, external: external, log: log, rank: rank, known: map[string]*entry{}, changed: make(chan struct{}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sixty_notifications_failed_total", Help: "Notifications of receivers that were not delivered, each trial counted.",
		}, []string{"receiver"}),
	}
	if registry != nil {
		registry.MustRegister(t.failed)
	}
	text, err := fileio.Read(file, maxState)
	if errors.Is(err, os.ErrNotExist) {
		return t, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &t.known)
	}
	if err != nil {
		// Who was told is lost; who is not told would be worse.
		t.log.Warn("what receivers were told is not known: they may be told again", "err", err)
		t.known = map[string]*entry{}
	}
	return t, nil
}

// SetReceivers replaces the receivers. What those that stay were told is known still.
func (t *Teller) SetReceivers(list []amconfig.Receiver) error {
	tmpl, err := template.FromGlobs(nil)
	if err == nil {
		err = tmpl.Parse(strings.NewReader(words))
	}
	if err != nil {
		return err
	}
	tmpl.ExternalURL = t.external
	var lines []*line
	for _, r := range list {
		add := func(kind string, i int, ends bool, n notify.Notifier, err error) error {
			lines = append(lines, &line{id: fmt.Sprintf("%s/%s/%d", r.Name, kind, i), receiver: r.Name, ends: ends, Notifier: n})
			return err
		}
		quiet := slog.New(slog.DiscardHandler) // their logs may have keys
		for i, c := range r.WebhookConfigs {
			n, err := webhook.New(c, tmpl, quiet)
			if err := add("webhook", i, c.SendResolved(), n, err); err != nil {
				return fmt.Errorf("sixty.receivers: %s: webhook: %w", r.Name, err)
			}
		}
		for i, c := range r.SlackConfigs {
			n, err := slack.New(c, tmpl, quiet)
			if err := add("slack", i, c.SendResolved(), n, err); err != nil {
				return fmt.Errorf("sixty.receivers: %s: slack: %w", r.Name, err)
			}
		}
		for i, c := range r.PagerdutyConfigs {
			n, err := pagerduty.New(c, tmpl, quiet)
			if err := add("pagerduty", i, c.SendResolved(), n, err); err != nil {
				return fmt.Errorf("sixty.receivers: %s: pagerduty: %w", r.Name, err)
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = lines
	t.wake()
	return nil
}

func (t *Teller) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// See takes alerts as they are sent to Alertmanagers, again and again. For what is only worth
// knowing nobody is called: Alertmanagers, which have routes, are told of it, and receivers
// are not.
func (t *Teller) See(alerts ...collect.Alert) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == 0 {
		return
	}
	for _, a := range alerts {
		id, severity := t.keyOf(a.Labels), cmp.Or(a.Labels["severity"], none)
		if t.rank(severity) == int(catalog.Info) {
			continue
		}
		e := t.known[id]
		if e == nil {
			if !a.Ends.After(time.Now()) {
				continue // the end of what nobody was told of
			}
			e = &entry{Ends: map[string]time.Time{}, Told: map[string]string{}}
			t.known[id] = e
		}
		if e.Alert.Labels == nil || t.rank(severity) >= t.rank(e.Alert.Labels["severity"]) || e.severity(t.rank, time.Now()) == "" {
			e.Alert = a
		}
		e.Ends[severity] = a.Ends
	}
	t.save()
	t.wake()
}

// keyOf is that of an alert whatever its severity, if it is one of those that have an order.
func (t *Teller) keyOf(l map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if name != "severity" {
			fmt.Fprintf(&b, "%s=%q,", name, l[name])
		}
	}
	if s := l["severity"]; t.rank(s) < 0 {
		fmt.Fprintf(&b, "severity=%q,", s)
	}
	return b.String()
}

// severity is the worst that goes on, "" where it ended.
func (e *entry) severity(rank func(string) int, now time.Time) string {
	worst := ""
	for s, ends := range e.Ends {
		if ends.After(now) && (worst == "" || rank(s) > rank(worst)) {
			worst = s
		}
	}
	return worst
}

// news is what a line does not know of an alert: that it is of a severity, or that it ended
// ("").
func (t *Teller) news(e *entry, l *line, now time.Time) (severity string, is bool) {
	severity = e.severity(t.rank, now)
	told, known := e.Told[l.id]
	switch {
	case !known:
		// One that came and went meanwhile is told too, and its end after it.
		return cmp.Or(severity, e.Alert.Labels["severity"], none), true
	case severity == "":
		return "", told != "" && l.ends
	case told == "":
		return severity, true
	}
	return severity, t.rank(severity) > t.rank(told)
}

// Run tells until the context ends.
func (t *Teller) Run(ctx context.Context) {
	failures, next := map[string]int{}, map[string]time.Time{}
	var busy sync.Map // lines that are at work: one that hangs holds up no other
	var working sync.WaitGroup
	defer working.Wait()
	tick := time.NewTicker(time.Second) // for ends, and retries
	defer tick.Stop()
	var mu sync.Mutex // of failures and next
	for {
		t.mu.Lock()
		changed := t.changed
		t.forget(time.Now())
		for _, l := range t.lines {
			mu.Lock()
			wait := time.Now().Before(next[l.id])
			mu.Unlock()
			if wait || !t.anything(l) {
				continue
			}
			if _, at := busy.LoadOrStore(l.id, true); at {
				continue
			}
			working.Go(func() {
				defer busy.Delete(l.id)
				err := t.tell(ctx, l)
				if ctx.Err() != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					delete(failures, l.id)
					return
				}
				wait := min(firstRetry<<min(failures[l.id], 10), lastRetry)
				failures[l.id]++
				next[l.id] = time.Now().Add(wait)
				t.failed.WithLabelValues(l.receiver).Inc()
				t.log.Warn("a receiver was not told, and will be", "receiver", l.id, "again_in", wait, "err", unanswered.Cause(err).Error())
			})
		}
		t.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
	}
}

func (t *Teller) anything(l *line) bool {
	for _, e := range t.known {
		if _, is := t.news(e, l, time.Now()); is {
			return true
		}
	}
	return false
}

// forget drops what ended and is told, or could not be for long. It holds the lock.
func (t *Teller) forget(now time.Time) {
	before := len(t.known)
	maps.DeleteFunc(t.known, func(_ string, e *entry) bool {
		last := time.Time{}
		for _, ends := range e.Ends {
			last = later(last, ends)
		}
		if last.After(now) {
			return false
		}
		for _, l := range t.lines {
			if _, is := t.news(e, l, now); is {
				return now.Sub(last) > forgetting
			}
		}
		return true
	})
	if len(t.known) != before {
		t.save()
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// tell tells a line what it does not know, the oldest first, until one fails.
func (t *Teller) tell(ctx context.Context, l *line) error {
	for ctx.Err() == nil {
		t.mu.Lock()
		id, severity, a := t.oldest(l)
		t.mu.Unlock()
		if id == "" {
			return nil
		}
		if err := t.notify(ctx, l, id, a); err != nil {
			return err
		}
		t.mu.Lock()
		if e := t.known[id]; e != nil {
			e.Told[l.id] = severity
			t.save()
		}
		t.mu.Unlock()
	}
	return ctx.Err()
}

// oldest is the alert that a line must know of first. It holds the lock.
func (t *Teller) oldest(l *line) (id, severity string, a amalert.Alert) {
	now := time.Now()
	var first *entry
	for k, e := range t.known {
		s, is := t.news(e, l, now)
		if !is || first != nil && (e.Alert.Began.After(first.Alert.Began) || e.Alert.Began.Equal(first.Alert.Began) && k > id) {
			continue
		}
		first, id, severity = e, k, s
	}
	if first == nil {
		return "", "", a
	}
	a.Labels, a.Annotations = model.LabelSet{}, model.LabelSet{}
	for k, v := range first.Alert.Labels {
		a.Labels[model.LabelName(k)] = model.LabelValue(v)
	}
	for k, v := range first.Alert.Annotations {
		a.Annotations[model.LabelName(k)] = model.LabelValue(v)
	}
	a.StartsAt, a.UpdatedAt, a.GeneratorURL = first.Alert.Began, now, strings.TrimSuffix(t.external.String(), "/")+first.Alert.Path
	if severity == "" {
		for _, ends := range first.Ends {
			a.EndsAt = later(a.EndsAt, ends)
		}
	} else if a.Labels["severity"] != "" {
		a.Labels["severity"] = model.LabelValue(severity)
	}
	return id, severity, a
}

func (t *Teller) notify(ctx context.Context, l *line, id string, a amalert.Alert) error {
	// One on its way at the end is let through: whether it came would not be known.
	asked := ctx
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTime)
	defer cancel()
	defer context.AfterFunc(asked, func() {
		select {
		case <-ctx.Done():
		case <-time.After(grace):
			cancel()
		}
	})()
	group := model.LabelSet{}
	for _, name := range []model.LabelName{"alertname", "cluster", "namespace", "model_name"} {
		if v := a.Labels[name]; v != "" {
			group[name] = v
		}
	}
	ctx = notify.WithGroupKey(ctx, id)
	ctx = notify.WithGroupLabels(ctx, group)
	ctx = notify.WithReceiverName(ctx, l.receiver)
	ctx = notify.WithNow(ctx, time.Now())
	_, err := l.Notify(ctx, &a)
	return err
}

// save keeps who knows what. It holds the lock.
func (t *Teller) save() {
	err := fileio.Write(t.file, func(w io.Writer) error { return json.NewEncoder(w).Encode(t.known) })
	if err != nil {
		t.log.Warn("what receivers were told is not kept", "file", filepath.Base(t.file), "err", err)
	}
}
