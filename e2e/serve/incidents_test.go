//go:build e2e

package serve_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// The timing of the long siege.
const (
	attackFor   = time.Minute     // the length of an attack
	attackEvery = 3 * time.Minute // from the beginning of one attack to the next
	lastFault   = 6 * time.Minute // before the end: by then the fault is over and its end notified
	backAgain   = time.Minute     // in which the monitor is back after a kill -9
)

// A trouble is a fault that comes and goes, of a model that has no other.
type trouble struct {
	model, scenario string // whose second phase is the fault
	replicas, only  int
	alert           string
	first           time.Duration // of health, before the first fault
	fault, well     time.Duration
}

var troubles = []trouble{
	{model: "killed", scenario: "target-down", replicas: 1, alert: "VLLMTargetDown", first: 3 * time.Minute, fault: 4 * time.Minute, well: 7 * time.Minute},
	{model: "one-of-three", scenario: "target-down", replicas: 3, only: 2, alert: "VLLMTargetDown", first: 5 * time.Minute, fault: 3 * time.Minute, well: 10 * time.Minute},
	{model: "hung", scenario: "engine-hung", replicas: 1, alert: "VLLMEngineHung", first: 4 * time.Minute, fault: 4 * time.Minute, well: 8 * time.Minute},
	{model: "saturated", scenario: "saturation", replicas: 1, alert: "VLLMSaturation", first: 6 * time.Minute, fault: 4 * time.Minute, well: 9 * time.Minute},
	{model: "restarted", scenario: "engine-restart", replicas: 1, alert: "VLLMTargetDown", first: 7 * time.Minute, fault: 50 * time.Second, well: 10 * time.Minute},
}

// A fault is one occurrence of a trouble.
type fault struct {
	*trouble
	begin, end time.Time
	named      time.Time // the first evaluation with it as the verdict
}

// start serves the model until the end, and returns its faults.
func (x *trouble) start(t *testing.T, length time.Duration) (urls []string, faults []*fault) {
	sc, err := fleet.FindScenario(pathologies.All(), x.scenario)
	must.Succeed(t, err)
	sc = sc.Over(x.replicas)
	well, sick := sc.Phases[0], sc.Phases[1]
	well.Traffic.Patience, sick.Traffic.Patience = 20*time.Second, 20*time.Second
	well.For, sick.For, sick.Faults.Only = x.first, x.fault, x.only
	const warm = time.Minute
	began := time.Now().Add(-warm)
	sc.Phases = []fleet.Phase{well}
	for at := x.first; at+x.fault < length-lastFault; at += x.fault + x.well {
		well.For = x.well
		sc.Phases = append(sc.Phases, sick, well)
		faults = append(faults, &fault{trouble: x, begin: began.Add(at), end: began.Add(at + x.fault)})
	}
	fl, err := fleet.Start(fleet.Config{Addr: "127.0.0.1:0", Replicas: x.replicas, Scenario: sc, Model: x.model,
		Warm: warm})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = fl.Close() })
	return fl.URLs(), faults
}

// stall runs clients that request everything and read ten bytes a second, until a time.
func (m *monitored) stall(end time.Time) {
	var clients sync.WaitGroup
	defer clients.Wait()
	for range 24 {
		clients.Go(func() {
			c, err := net.Dial("tcp", strings.TrimPrefix(m.url, "http://"))
			if err != nil {
				return
			}
			defer c.Close()
			_ = c.SetDeadline(end)
			_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
			fmt.Fprintf(c, "GET /api/v1/query_range?query=%%7B__name__%%3D~%%22.%%2B%%22%%7D&step=1&start=%d&end=%d HTTP/1.1\r\nHost: sixty\r\n\r\n", time.Now().Unix()-300, time.Now().Unix())
			for p := make([]byte, 10); err == nil; _, err = c.Read(p) {
				<-time.After(time.Second)
			}
		})
	}
}

// export runs clients that send spans, until a time.
func (m *monitored) export(end time.Time) {
	var clients sync.WaitGroup
	defer clients.Wait()
	for k := range 4 {
		clients.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				spans := make([]string, 1000)
				for i := range spans {
					at := time.Now().UnixNano()
					spans[i] = fmt.Sprintf(`{"traceId":"%032x","spanId":"%016x","name":"llm_request","kind":2,"startTimeUnixNano":"%d","endTimeUnixNano":"%d"}`, at+int64(i), i+1, at-1e9, at)
				}
				body := fmt.Sprintf(`{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"s%d"}}]},"scopeSpans":[{"spans":[%s]}]}]}`, k, strings.Join(spans, ","))
				if res, err := http.Post(m.url+"/v1/traces", "application/json", strings.NewReader(body)); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			}
		})
	}
}

// TestIncidents attacks the monitor while servers die, hang, are overloaded and restart. A healthy receiver must be
// notified of each fault once, within two evaluations of the one that named it, and of its end. Two other receivers
// hang and fail.
func TestIncidents(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("SIXTY_BESIEGED"))
	if err != nil {
		t.Skip("SIXTY_BESIEGED is not how long the siege goes, such as 2h")
	}
	well := newListener(t, func(n *notice) { t.Logf("told: %v", n) })
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(func() { hangs.CloseClientConnections(); hangs.Close() })
	fails := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(fails.Close)
	heart := newListener(t, func(*notice) {})
	file := textFile(t, "sixty.yaml", fmt.Sprintf(`sixty:
  receivers:
  - {name: well, webhook_configs: [{url: %q}]}
  - {name: hangs, webhook_configs: [{url: %q}]}
  - {name: fails, webhook_configs: [{url: %q}]}
  - {name: heart, webhook_configs: [{url: %q}]}
  heartbeat: heart
`, well.URL, hangs.URL, fails.URL, heart.URL))
	began := time.Now()
	end := began.Add(length)
	var targets []string
	var faults []*fault
	for i := range troubles {
		urls, of := troubles[i].start(t, length)
		targets, faults = append(targets, urls...), append(faults, of...)
	}
	if len(faults) == 0 {
		t.Fatalf("SIXTY_BESIEGED=%s is too short for a fault", length)
	}
	for _, page := range []http.HandlerFunc{bomb(t), flood(), markup} {
		s := httptest.NewServer(page)
		t.Cleanup(s.Close)
		targets = append(targets, s.URL)
	}
	m := sixtyServe(t, append([]string{"--data", t.TempDir(), "--no-host-metrics", "--trace-buffer", "32MB", "--config",
		file}, targets...)...)

	var answered, refused, cut atomic.Int64
	attacks := []struct {
		name string
		do   func(end time.Time)
	}{
		{"queries", func(end time.Time) { m.queries(end, &answered, &refused) }},
		{"trickles", func(end time.Time) { m.trickles(end, &cut) }},
		{"stalled readers", m.stall},
		{"spans", m.export},
		{"kill -9", nil},
	}
	var attackers sync.WaitGroup
	var last, next, calm time.Time
	var gap, killedGap time.Duration
	var peak int64
	next = began.Add(attackEvery)
	var kills []time.Time
	evaluations, state := 0, view.State("")
	for turn := 0; time.Now().Before(end); <-time.After(time.Second) {
		if now := time.Now(); now.After(next) && next.Before(end.Add(-attackEvery)) {
			next = next.Add(attackEvery)
			a := attacks[turn%len(attacks)]
			turn++
			t.Logf("%s attack: %s; longest gap %.1f s, peak %d MB", now.Format(time.TimeOnly), a.name, gap.Seconds(),
				max(peak, highWater(t, m.cmd.Process.Pid))>>20)
			if a.do != nil {
				attackers.Go(func() { a.do(now.Add(attackFor)) })
			} else {
				peak = max(peak, highWater(t, m.cmd.Process.Pid))
				m.stop(syscall.SIGKILL)
				m.start()
				kills, calm = append(kills, time.Now()), time.Now().Add(backAgain)
			}
		}
		o := m.overview()
		if o.State != state && o.State != "" {
			t.Logf("%s state %s %.300q", time.Now().Format(time.TimeOnly), o.State, o.Problems)
			state = o.State
		}
		if !o.At.After(last) {
			continue
		}
		switch since := o.At.Sub(last); {
		case last.IsZero():
		case time.Now().Before(calm):
			killedGap = max(killedGap, since)
		default:
			gap = max(gap, since)
		}
		last, evaluations = o.At, evaluations+1
		for _, f := range faults {
			if f.named.IsZero() && o.At.After(f.begin) && o.At.Before(f.end.Add(time.Minute)) &&
				slices.ContainsFunc(o.Models, func(x view.Model) bool {
					return x.Model == f.model && x.Verdict.Status == view.Firing && x.Verdict.Severity != "info"
				}) {
				f.named = o.At
			}
		}
	}
	attackers.Wait()
	peak = max(peak, highWater(t, m.cmd.Process.Pid))

	once, missed, doubled, unended := 0, 0, 0, 0
	var latestTold time.Duration
	slices.SortFunc(faults, func(a, b *fault) int { return a.begin.Compare(b.begin) })
	for _, f := range faults {
		var firing, ended []notice
		var also []string
		for _, n := range well.of(f.model, f.begin, f.end.Add(f.well)) {
			switch {
			case n.alert != f.alert:
				also = append(also, n.Status+" "+n.alert+" "+n.Labels["severity"])
			case n.Status == "firing":
				firing = append(firing, n)
			default:
				ended = append(ended, n)
			}
		}
		line := fmt.Sprintf("%-12s %s to %s: named after %.0f s", f.model, f.begin.Format(time.TimeOnly),
			f.end.Format(time.TimeOnly), f.named.Sub(f.begin).Seconds())
		if f.named.IsZero() {
			line = fmt.Sprintf("%-12s %s to %s: never named", f.model, f.begin.Format(time.TimeOnly),
				f.end.Format(time.TimeOnly))
		}
		for _, n := range firing {
			line += fmt.Sprintf(", told %.0f s after the begin (%s)", n.at.Sub(f.begin).Seconds(), n.Labels["severity"])
		}
		for _, n := range ended {
			line += fmt.Sprintf(", resolved %.0f s after the end", n.at.Sub(f.end).Seconds())
		}
		t.Logf("RESULT %s; also %q", line, also)
		switch len(firing) {
		case 0:
			missed++
			t.Errorf("nobody is told of %s", line)
		case 1:
			once++
			from := f.named
			for _, k := range kills { // a fault that was not notified before a kill must be found again
				if k.After(from) && k.Before(firing[0].at) {
					from = k
				}
			}
			late := firing[0].at.Sub(from)
			if late > latest {
				t.Errorf("told %s after the evaluation: %s", late, line)
			}
			latestTold = max(latestTold, late)
		default:
			doubled++
			t.Errorf("told %d times: %s", len(firing), line)
		}
		if len(ended) != len(firing) {
			unended++
			t.Errorf("told of %d ends: %s", len(ended), line)
		}
	}
	repeated := map[string]int{}
	for _, n := range well.got {
		repeated[fmt.Sprint(n.Status, n.Labels, n.StartsAt)]++
	}
	for what, n := range repeated {
		if n > 1 {
			t.Errorf("told %d times: %s", n, what)
		}
	}
	var silence time.Duration
	for i := 1; i < len(heart.got); i++ {
		silence = max(silence, heart.got[i].at.Sub(heart.got[i-1].at))
	}
	t.Logf("RESULT %s: %d faults, told once %d, the latest %.1f s after the evaluation that named it, missed %d, doubled %d, without an end %d; %d notices; %d evaluations, the longest time between two %.1f s, over a kill %.1f s (%d kills); %d heartbeats, the longest time between two %.0f s; %d heavy queries answered, %d refused, %d slow clients cut off; peak %d MB",
		length, len(faults), once, latestTold.Seconds(), missed, doubled, unended, len(well.got), evaluations, gap.Seconds(), killedGap.Seconds(), len(kills), len(heart.got), silence.Seconds(), answered.Load(), refused.Load(), cut.Load(), peak>>20)
	if gap > latest {
		t.Errorf("an evaluation was late: %s after the one before", gap)
	}
	if peak > memoryLimit {
		t.Errorf("it took %d MB, which the pod does not have", peak>>20)
	}
	if log := m.output(); strings.Contains(log, "panic") || strings.Contains(log, "fatal error") {
		t.Errorf("log: %s", log)
	}
}
