package sim

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// drawDeployment draws one to three engines of a configuration.
func drawDeployment(t *rapid.T) []Replica {
	rep := Replica{drawConfig(t), propertyCost}
	return slices.Repeat([]Replica{rep}, rapid.IntRange(1, 3).Draw(t, "replicas"))
}

func drawRouter(t *rapid.T) func() Router {
	return rapid.SampledFrom([]func() Router{RoundRobin, LeastLoaded,
		func() Router { return Weighted([]float64{3, 1, 2}) }}).Draw(t, "router")
}

func mustRun(t *rapid.T, replicas []Replica, router Router, requests []Request, o Options) *Result {
	res, err := RunReplicas(replicas, router, requests, o)
	must.Succeed(t, err)
	return res
}

// withoutHistogram leaves the histogram of gaps out of comparisons, because it has unexported fields.
var withoutHistogram = gocmp.Options{
	gocmp.FilterPath(func(p gocmp.Path) bool { return p.Last().String() == ".itl" }, gocmp.Ignore()),
	gocmp.AllowUnexported(Record{}),
}

// A closed loop never has more requests in flight than clients. All requests end, and they are sent in the given order.
// The result is the same if steps are simulated one by one.
func TestAClosedLoopHoldsItsClients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas, router := drawDeployment(t), drawRouter(t)
		requests := drawRequests(t, replicas[0].Config.BlockSize)
		for i := range requests {
			pause := rapid.SampledFrom([]int{0, 0, 3, 50}).Draw(t, "pause")
			requests[i].Pause = time.Duration(pause) * 100 * time.Microsecond
		}
		o := Options{
			Clients:  rapid.IntRange(1, 8).Draw(t, "clients"),
			Frontend: Frontend{PerRequest: rapid.SampledFrom([]float64{0, 2e-3}).Draw(t, "frontend"), PerToken: 1e-6},
		}
		res := mustRun(t, replicas, router(), requests, o)
		if len(res.Requests) != len(requests) {
			t.Fatalf("%d of %d requests were sent", len(res.Requests), len(requests))
		}
		type change struct {
			at time.Duration
			by int
		}
		var changes []change
		for i, r := range res.Requests {
			if r.Outcome == Unfinished || r.Finish < r.Arrival {
				t.Fatalf("request %d: %+v", i, r)
			}
			changes = append(changes, change{r.Arrival, 1}, change{r.Finish, -1})
		}
		slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), a.by-b.by) })
		under := 0
		for _, c := range changes {
			if under += c.by; under > o.Clients {
				t.Fatalf("%d requests under way at %v, %d clients", under, c.at, o.Clients)
			}
		}
		if diff := gocmp.Diff(res, mustRun(t, replicas, router(), requests, o), withoutHistogram); diff != "" {
			t.Fatalf("another result (-first +second):\n%s", diff)
		}
		o.StepByStep = true
		if diff := gocmp.Diff(res, mustRun(t, replicas, router(), requests, o), withoutHistogram); diff != "" {
			t.Fatalf("step by step differs (-fast +slow):\n%s", diff)
		}
	})
}

// One dependent request, sent after all others have ended, makes the simulation use its other loop. The results of the
// others stay the same.
func TestTheTwoLoopsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas, router := drawDeployment(t), drawRouter(t)
		requests := drawRequests(t, replicas[0].Config.BlockSize)
		o := Options{Frontend: Frontend{
			PerToken: rapid.SampledFrom([]float64{0, 1e-5}).Draw(t, "frontend"),
			Reading:  rapid.SampledFrom([]float64{0, 2e-3}).Draw(t, "reading"),
			Serial:   rapid.SampledFrom([]float64{0, 1e-3}).Draw(t, "serial"),
		}}
		open := mustRun(t, replicas, router(), requests, o)
		late := Request{Pause: time.Hour, PromptTokens: 1, OutputTokens: 1, After: 1}
		dependent := mustRun(t, replicas, router(), append(slices.Clone(requests), late), o)
		if diff := gocmp.Diff(open.Requests, dependent.Requests[:len(requests)]); diff != "" {
			t.Fatalf("(-open +dependent):\n%s", diff)
		}
		if got := dependent.Requests[len(requests)]; got.Arrival != open.Requests[0].Finish+time.Hour {
			t.Fatalf("the last came at %v", got.Arrival)
		}
	})
}

func TestConversationsWaitForTheirAnswers(t *testing.T) {
	cfg := Config{MaxNumSeqs: 8, MaxNumBatchedTokens: 64, MaxModelLen: 256, BlockSize: 4, NumBlocks: 100,
		ChunkedPrefill: true}
	requests := []Request{
		{PromptTokens: 40, OutputTokens: 20},
		{PromptTokens: 60, OutputTokens: 20, After: 1, Pause: 5 * time.Millisecond},
		{PromptTokens: 80, OutputTokens: 20, After: 2, Pause: 7 * time.Millisecond},
		{PromptTokens: 30, OutputTokens: 90, Arrival: time.Millisecond},
	}
	res, err := Run(cfg, propertyCost, requests, Options{})
	must.Succeed(t, err)
	for i := 1; i <= 2; i++ {
		if want := res.Requests[i-1].Finish + requests[i].Pause; res.Requests[i].Arrival != want {
			t.Errorf("turn %d came at %v, want %v", i, res.Requests[i].Arrival, want)
		}
	}
	requests[2].Arrival = time.Minute
	if res, err = Run(cfg, propertyCost, requests, Options{}); err != nil || res.Requests[2].Arrival != time.Minute {
		t.Errorf("the last turn came at %v, its trace says a minute; error %v", res.Requests[2].Arrival, err)
	}
	for name, bad := range map[string]struct {
		requests []Request
		o        Options
	}{
		"a request after itself": {[]Request{{PromptTokens: 1, OutputTokens: 1, After: 1}}, Options{}},
		"a turn in a loop":       {requests, Options{Clients: 2}},
		"negative clients":       {requests[:1], Options{Clients: -1}},
		"a negative frontend":    {requests[:1], Options{Frontend: Frontend{PerRequest: -1}}},
	} {
		if _, err := Run(cfg, propertyCost, bad.requests, bad.o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestClientsStopSending(t *testing.T) {
	cfg := Config{MaxNumSeqs: 8, MaxNumBatchedTokens: 64, MaxModelLen: 256, BlockSize: 4, NumBlocks: 100,
		ChunkedPrefill: true}
	requests := slices.Repeat([]Request{{PromptTokens: 40, OutputTokens: 20}}, 1000)
	until := 500 * time.Millisecond
	res, err := Run(cfg, propertyCost, requests, Options{Clients: 3, Until: until})
	must.Succeed(t, err)
	n := len(res.Requests)
	if n < 20 || n == 1000 || res.Requests[n-1].Arrival >= until || res.End < until {
		t.Errorf("%d requests were sent, the last at %v; the end was at %v", n, res.Requests[n-1].Arrival, res.End)
	}
	if got := res.Summary().Outcomes[Finished]; got != n {
		t.Errorf("%d of %d finished", got, n)
	}
}

// The frontend delays the first token. Its time does not count as queue.
func TestTheFrontendTakesItsTime(t *testing.T) {
	cfg := Config{MaxNumSeqs: 8, MaxNumBatchedTokens: 64, MaxModelLen: 256, BlockSize: 4, NumBlocks: 100,
		ChunkedPrefill: true}
	requests := []Request{{PromptTokens: 40, OutputTokens: 20, Arrival: time.Second}}
	run := func(f Frontend) RequestResult {
		res, err := Run(cfg, propertyCost, requests, Options{Frontend: f})
		must.Succeed(t, err)
		return res.Requests[0]
	}
	without, with := run(Frontend{}), run(Frontend{PerRequest: 3e-3, PerToken: 1e-4})
	if with.TTFT()-without.TTFT() != 7*time.Millisecond || with.Queue() != without.Queue() ||
		with.TPOT() != without.TPOT() || with.Arrival != time.Second {
		t.Errorf("without %+v, with %+v", without, with)
	}
}

func TestWeightedSpreadsByWeight(t *testing.T) {
	for _, tt := range []struct {
		name    string
		weights []float64
		want    []int // of 1000
	}{
		{"equal", []float64{1, 1}, []int{500, 500}},
		{"most to one", []float64{0.92, 0.08}, []int{920, 80}},
		{"none to one", []float64{2, 0, 3}, []int{400, 0, 600}},
	} {
		r, got := Weighted(tt.weights), make([]int, len(tt.want))
		for range 1000 {
			got[r.Pick(nil, make([]Load, len(tt.want)))]++
		}
		if diff := gocmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	if k := Weighted(nil).Pick(nil, make([]Load, 2)); k != -1 {
		t.Errorf("nobody has a weight, and %d is picked", k)
	}
}
