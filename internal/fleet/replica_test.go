package fleet

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/sim"
)

// A listener is a client that stores its events.
type listener struct {
	tokens int
	last   time.Duration
	done   bool
	dead   bool
}

func (l *listener) onToken(_ *call, at time.Duration, done bool) {
	l.tokens++
	l.last, l.done = at, done
}
func (l *listener) onBroken(*call, time.Duration) { l.dead = true }

func testReplica(t *testing.T, release engine.Release, s Settings) *replica {
	t.Helper()
	server, err := s.Server(release, "m")
	must.Succeed(t, err)
	start := time.Unix(1_700_000_000, 0)
	r := newReplica(server, 0, func(d time.Duration) time.Time { return start.Add(d) })
	err = r.startServer(0)
	must.Succeed(t, err)
	return r
}

func ask(r *replica, at time.Duration, prompt, output int) (*call, *listener) {
	l := &listener{}
	c := &call{handler: "/v1/completions", prompt: prompt, output: output, limit: output, caller: l}
	r.submitCall(c, at)
	return c, l
}

func TestARequestIsCountedWhenVLLMCountsIt(t *testing.T) {
	r := testReplica(t, DefaultRelease, Settings{})
	_, l := ask(r, 0, 1000, 5)
	m := r.metrics
	if m.prompt != 0 || readHistogram(m.ttft).GetSampleCount() != 0 {
		t.Errorf("before the first token: %d prompt tokens, %d first tokens", m.prompt,
			readHistogram(m.ttft).GetSampleCount())
	}
	r.advanceTo(70 * time.Millisecond) // prefill of a thousand tokens takes some 55 ms
	if m.prompt != 1000 || readHistogram(m.ttft).GetSampleCount() != 1 || readHistogram(m.e2e).GetSampleCount() != 0 ||
		m.success[byLength] != 0 {
		t.Errorf("after the first token: %d prompt tokens, %d first tokens, %d ends", m.prompt,
			readHistogram(m.ttft).GetSampleCount(), readHistogram(m.e2e).GetSampleCount())
	}
	r.advanceTo(time.Second)
	if !l.done || l.tokens != 5 || m.generation != 5 || readHistogram(m.itl).GetSampleCount() != 4 ||
		readHistogram(m.e2e).GetSampleCount() != 1 || m.success[byLength] != 1 {
		t.Errorf("at the end: %+v, %d generated, %d gaps, %d ends", l, m.generation,
			readHistogram(m.itl).GetSampleCount(), readHistogram(m.e2e).GetSampleCount())
	}
	if m.running != 0 || m.usage != 0 {
		t.Errorf("an idle engine has %d running and %v of its cache in use", m.running, m.usage)
	}
	if n := testutil.CollectAndCount(r.api.requests); n != 1 || testutil.ToFloat64(r.api.requests) != 1 ||
		r.api.connections != 0 {
		t.Errorf("http: %d series, %d connections", n, r.api.connections)
	}
}

func TestAbandonedRequestsLeaveNoTraceButTheirTokens(t *testing.T) {
	r := testReplica(t, DefaultRelease, Settings{})
	c, _ := ask(r, 0, 100, 1000)
	r.advanceTo(time.Second)
	r.abortCall(c, time.Second)
	r.advanceTo(2 * time.Second)
	m := r.metrics
	if m.generation == 0 || readHistogram(m.ttft).GetSampleCount() != 1 {
		t.Errorf("%d tokens, %d first tokens", m.generation, readHistogram(m.ttft).GetSampleCount())
	}
	if m.success != [5]int64{} || readHistogram(m.e2e).GetSampleCount() != 0 ||
		readHistogram(m.queue).GetSampleCount() != 0 {
		t.Errorf("an abandoned request finished: %v, %d, %d", m.success, readHistogram(m.e2e).GetSampleCount(),
			readHistogram(m.queue).GetSampleCount())
	}
	if testutil.ToFloat64(r.api.requests.WithLabelValues("/v1/completions", "POST", "2xx")) != 1 {
		t.Error("it is not counted as answered")
	}
}

// Without asynchronous scheduling, the last step that reports still counts its requests as running. With it, one more
// step reports, as in recordings of 0.23.
func TestGaugesFreezeWhenEverybodyLeavesAtOnce(t *testing.T) {
	for release, frozen := range map[engine.Release]bool{"0.12.0": true, "0.23.0": false} {
		r := testReplica(t, release, Settings{})
		var calls []*call
		for range 10 {
			c, _ := ask(r, 0, 200, 2000)
			calls = append(calls, c)
		}
		r.advanceTo(time.Second)
		for _, c := range calls {
			r.abortCall(c, time.Second)
		}
		r.advanceTo(time.Minute)
		if r.engine.Stats().Running != 0 {
			t.Fatal("the engine still runs something")
		}
		if got := r.metrics.running == 10 && r.metrics.usage > 0; got != frozen {
			t.Errorf("%s: %d running, usage %v", release, r.metrics.running, r.metrics.usage)
		}
	}
}

func TestAHangIsSilent(t *testing.T) {
	r := testReplica(t, DefaultRelease, Settings{})
	_, first := ask(r, 0, 100, 500)
	r.advanceTo(time.Second)
	before := *r.metrics
	ttft := readHistogram(before.ttft).GetSampleCount()
	r.setHung(true, time.Second)
	for i := range 20 {
		ask(r, time.Second+time.Duration(i)*time.Second, 100, 10)
	}
	r.advanceTo(30 * time.Second)
	if r.metrics.running != before.running || r.metrics.waiting != 0 || r.metrics.generation != before.generation ||
		readHistogram(r.metrics.ttft).GetSampleCount() != ttft {
		t.Errorf("something moved: %d running, %d waiting", r.metrics.running, r.metrics.waiting)
	}
	if r.api.connections != 21 {
		t.Errorf("%d connections are open, want 21", r.api.connections)
	}
	if _, err := r.metricsPage(); err != nil {
		t.Errorf("the page fails: %v", err)
	}
	r.setHung(false, 30*time.Second)
	r.advanceTo(60 * time.Second)
	if !first.done || r.metrics.success[byLength] != 21 {
		t.Errorf("after the hang %d requests ended", r.metrics.success[byLength])
	}
}

func TestALongStepBlocksArrivalsThatNoQueueShows(t *testing.T) {
	s := Settings{NoChunkedPrefill: true, MaxNumBatchedTokens: 16384, MaxModelLen: 16384,
		Cost: sim.StepCost{Base: 10e-3, Mixed: 1e-3, PerSeq: 20e-6, PerToken: 150e-6, PerKV: 80e-9, PerPair: 3e-9,
			Knee: 256}}
	r := testReplica(t, DefaultRelease, s)
	ask(r, 0, 12000, 5)
	ask(r, 10*time.Millisecond, 50, 5)
	r.advanceTo(20 * time.Second)
	m := r.metrics
	if readHistogram(m.ttft).GetSampleSum() < 2 || readHistogram(m.queue).GetSampleSum() > 0.1 {
		t.Errorf("first tokens took %v s, of which %v s in the queue", readHistogram(m.ttft).GetSampleSum(),
			readHistogram(m.queue).GetSampleSum())
	}
}

func TestARestartForgetsEverything(t *testing.T) {
	r := testReplica(t, DefaultRelease, Settings{})
	_, l := ask(r, 0, 100, 5000)
	r.advanceTo(time.Second)
	r.stopServer(time.Second)
	if _, err := r.metricsPage(); err == nil {
		t.Error("a dead server shows metrics")
	}
	if !l.dead {
		t.Error("its client was not told")
	}
	must.Succeed(t, r.startServer(10*time.Second))
	if r.metrics.generation != 0 || r.born != 10*time.Second {
		t.Errorf("%d tokens, born %v", r.metrics.generation, r.born)
	}
}

func TestTheQueueLimitRefuses(t *testing.T) {
	r := testReplica(t, "0.32.0", Settings{})
	r.cfg.Engine.MaxQueuedRequests = 2
	for i := range 3 {
		c := &call{prompt: 10, output: 5, limit: 5, caller: &listener{}}
		if got, want := r.submitCall(c, 0), []int{200, 200, 503}[i]; got != want {
			t.Errorf("request %d: %d, want %d", i, got, want)
		}
	}
	if r.metrics.rejections[byRequests] != 1 {
		t.Errorf("%d rejections are counted", r.metrics.rejections[byRequests])
	}
}

func TestReleasesCountDifferently(t *testing.T) {
	for _, tt := range []struct {
		release engine.Release
		step    float64 // tokens of the second request's first step, which finds 96 in the cache
	}{{"0.20.0", 101}, {"0.23.0", 5}} {
		r := testReplica(t, tt.release, Settings{})
		blocks := []uint64{1, 2, 3, 4, 5, 6}
		for i := range 2 {
			c := &call{prompt: 100, output: 1, limit: 1, blocks: blocks, caller: &listener{}}
			r.submitCall(c, time.Duration(i)*time.Second)
			before := readHistogram(r.metrics.iteration).GetSampleSum()
			r.advanceTo(time.Duration(i)*time.Second + 500*time.Millisecond)
			if got := readHistogram(r.metrics.iteration).GetSampleSum() - before; i == 1 && got != tt.step {
				t.Errorf("%s: the step has %v tokens, want %v", tt.release, got, tt.step)
			}
		}
		if r.metrics.cached != 96 {
			t.Errorf("%s: %d cached tokens", tt.release, r.metrics.cached)
		}
	}
}
