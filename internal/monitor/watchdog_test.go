package monitor

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/monitor/receivers"
	"github.com/sixty-dev/sixty/internal/pathologies/targetdown"
)

// A sentry is a watchdog over what a test says.
type sentry struct {
	*Watchdog
	unstored string
	full     string
	targets  []collect.Target
	failures []receivers.Failure
	said     []string // since the last look
	beats    int
	now      time.Time
}

func newSentry() *sentry {
	s := &sentry{now: time.Unix(1_700_000_000, 0)}
	s.Watchdog = &Watchdog{
		Monitor:  New(Options{Diagnose: diagnose.Options{Pathologies: []*catalog.Pathology{targetdown.Pathology}}}),
		Alerter:  &Alerter{},
		Unstored: func() string { return s.unstored },
		Targets:  func() []collect.Target { return s.targets },
		Full:     func() string { return s.full },
		Failures: func() []receivers.Failure { return s.failures },
		Beat:     func(collect.Alert) { s.beats++ },
		Send: func(alerts ...collect.Alert) {
			for _, a := range alerts {
				state := "firing"
				if !a.Ends.After(s.now) {
					state = "resolved"
				}
				s.said = append(s.said, fmt.Sprint(state, " ", a.Labels["severity"], " ", a.Labels["alertname"], " ",
					a.Labels["model_name"], a.Labels["receiver"], " ", a.Began.Unix()-1_700_000_000))
			}
		},
	}
	return s
}

// look lets some time pass, with an evaluation every 15 s where there is one, and returns what is said at its end.
func (s *sentry) look(span time.Duration, evaluate func(time.Time) *Evaluation) []string {
	s.beats = 0
	for end := s.now.Add(span); s.now.Before(end); {
		s.now = s.now.Add(15 * time.Second)
		if evaluate != nil {
			s.Monitor.latest.Store(evaluate(s.now))
		}
		s.said = nil
		s.Check(s.now)
	}
	slices.Sort(s.said)
	return s.said
}

// evaluated is an evaluation of two servers of a model.
func evaluated(at time.Time) *Evaluation {
	d := diagnose.Diagnosis{Verdicts: []diagnose.Verdict{{Model: "m", All: []string{"a:1", "b:1"}}}}
	for _, name := range d.Verdicts[0].All {
		d.Targets = append(d.Targets, diagnose.Target{Name: name,
			Labels: map[string]string{"job": "vllm", "instance": name, "model_name": "m"}})
	}
	return &Evaluation{At: at, Diagnosis: d}
}

func (s *sentry) scrapes(down ...string) {
	s.targets = nil
	for _, name := range []string{"a:1", "b:1"} {
		t := collect.Target{Labels: map[string]string{"job": "vllm", "instance": name}, Health: "up"}
		if slices.Contains(down, name) {
			t.Health = "down"
		}
		s.targets = append(s.targets, t)
	}
}

func wantSaid(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: said %q, want %q", when, got, want)
	}
}

// TestBlind: a minute without judgement is a page, whatever it comes from; servers that do not answer
// meanwhile are reported by the scrapes alone; both end. A server that does not answer even then is no end.
func TestBlind(t *testing.T) {
	for name, blind := range map[string]func(s *sentry) func(time.Time) *Evaluation{
		"no room": func(s *sentry) func(time.Time) *Evaluation {
			s.unstored = "no space left on device"
			return evaluated
		},
		"no answer": func(*sentry) func(time.Time) *Evaluation {
			return func(at time.Time) *Evaluation { return &Evaluation{At: at, Err: errors.New("the store is away")} }
		},
		"overload": func(*sentry) func(time.Time) *Evaluation { return nil },
	} {
		s := newSentry()
		s.scrapes()
		wantSaid(t, name+": well", s.look(5*time.Minute, evaluated))
		if s.beats != 20 || s.Blind() {
			t.Errorf("%s: %d heartbeats in five minutes, blind %v", name, s.beats, s.Blind())
		}
		evaluate := blind(s)
		s.scrapes("a:1")
		wantSaid(t, name+": 45 s", s.look(45*time.Second, evaluate))
		wantSaid(t, name+": 90 s", s.look(45*time.Second, evaluate), "firing page SixtyBlind  300",
			"firing ticket VLLMTargetDown m 390")
		s.scrapes("a:1", "b:1")
		got := s.look(2*time.Minute, evaluate)
		wantSaid(t, name+": nobody answers", got, "firing page SixtyBlind  300", "firing page VLLMTargetDown m 480")
		if s.beats > 0 || !s.Blind() {
			t.Errorf("%s: %d heartbeats of one who is blind (%v)", name, s.beats, s.Blind())
		}
		s.unstored = ""
		s.scrapes()
		wantSaid(t, name+": over", s.look(15*time.Second, evaluated), "resolved page SixtyBlind  300",
			"resolved page VLLMTargetDown m 480")
		wantSaid(t, name+": later", s.look(time.Minute, evaluated))
		evaluate = blind(s)
		s.scrapes("a:1")
		s.look(2*time.Minute, evaluate)
		s.unstored = ""
		wantSaid(t, name+": still down", s.look(15*time.Second, evaluated), "resolved page SixtyBlind  "+
			fmt.Sprint(s.now.Unix()-1_700_000_000-135))
	}
}

// TestReceiversThatFail: the others hear of it after a minute, and when it is over.
func TestReceiversThatFail(t *testing.T) {
	s := newSentry()
	s.look(time.Minute, evaluated)
	s.failures = []receivers.Failure{{Receiver: "pager/pagerduty/0", Since: s.now, Why: "no answer within 12s"}}
	wantSaid(t, "at first", s.look(time.Minute, evaluated))
	s.full = "the disk is full"
	wantSaid(t, "disk", s.look(15*time.Second, evaluated)[:1], "firing ticket SixtyDiskFull  135")
	s.full = ""
	wantSaid(t, "room", s.look(15*time.Second, evaluated)[1:], "resolved ticket SixtyDiskFull  135")
	wantSaid(t, "later", s.look(15*time.Second, evaluated), "firing ticket SixtyReceiverFailing pager/pagerduty/0 60")
	s.failures = nil
	wantSaid(t, "over", s.look(15*time.Second, evaluated), "resolved ticket SixtyReceiverFailing pager/pagerduty/0 60")
}

// TestClockIsSet: samples are refused after a step back, which is a page after a minute, with the servers that do
// not answer, until the clock has caught up; a step ahead is nothing.
func TestClockIsSet(t *testing.T) {
	c, err := collect.Open(collect.Options{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
		Registry: prometheus.NewRegistry()})
	must.Succeed(t, err)
	defer c.Close()
	s, w := newSentry(), c.NewWriter()
	judge := func(at time.Time) *Evaluation {
		s.unstored = ""
		if err := w.Write(t.Context(), at, []collect.Sample{
			{Labels: map[string]string{"__name__": "sixty_evaluation_success"}, Value: 1}}); err != nil {
			s.unstored = err.Error()
		}
		return evaluated(at)
	}
	s.scrapes()
	wantSaid(t, "well", s.look(5*time.Minute, judge))
	s.now = s.now.Add(time.Hour)
	wantSaid(t, "the look before an evaluation", s.look(15*time.Second, nil))
	wantSaid(t, "ahead", s.look(30*time.Second, judge))
	if s.lastJudged != s.now || s.beats != 2 {
		t.Errorf("ahead: judged at %s, want %s; %d heartbeats", s.lastJudged, s.now, s.beats)
	}
	s.now = s.now.Add(-10 * time.Minute)
	s.scrapes("a:1")
	wantSaid(t, "back, 60 s", s.look(time.Minute, judge))
	wantSaid(t, "back, 90 s", s.look(30*time.Second, judge), "firing page SixtyBlind  3360",
		"firing ticket VLLMTargetDown m 3435")
	s.scrapes()
	wantSaid(t, "back, 9 minutes", s.look(450*time.Second, judge), "firing page SixtyBlind  3360")
	if !strings.Contains(s.unstored, "set back") {
		t.Errorf("refused for %q", s.unstored)
	}
	wantSaid(t, "caught up", s.look(75*time.Second, judge)) // what ended was said meanwhile
	if s.Blind() || s.lastJudged != s.now {
		t.Errorf("caught up: blind %v, judged at %s", s.Blind(), s.lastJudged)
	}

	s.unstored = ""
	wantSaid(t, "blind for another reason", s.look(2*time.Minute, nil)[:1],
		fmt.Sprint("firing page SixtyBlind  ", s.lastJudged.Unix()-1_700_000_000))
	s.now = s.now.Add(-time.Hour)
	s.said = nil
	s.Check(s.now)
	wantSaid(t, "it ends before it began", s.said, fmt.Sprint("resolved page SixtyBlind  ", s.now.Unix()-1_700_000_000))
}
