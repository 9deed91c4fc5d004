package sim

import (
	"runtime"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// seeing hides that a router does not look at the loads.
type seeing struct{ Router }

// Engines that are simulated each by itself end as they do together, on one core as on several, and what is kept in
// brief is what the full results say.
func TestReplicasApartAreReplicasTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := drawDeployment(t)
		requests := drawRequests(t, replicas[0].Config.BlockSize)
		router := rapid.SampledFrom([]func() Router{RoundRobin,
			func() Router { return Weighted([]float64{3, 1, 2}) }}).Draw(t, "router")
		together := mustRun(t, replicas, seeing{router()}, requests, Options{SampleEvery: 1e6})
		for _, cores := range []int{1, 4} {
			before := runtime.GOMAXPROCS(cores)
			apart := mustRun(t, replicas, router(), requests, Options{SampleEvery: 1e6})
			runtime.GOMAXPROCS(before)
			if diff := gocmp.Diff(together, apart, withoutHistogram); diff != "" {
				t.Fatalf("%d cores (-together +apart):\n%s", cores, diff)
			}
			if !apart.itl.Equals(together.itl) {
				t.Fatal("the gaps between tokens differ")
			}
		}
		brief := mustRun(t, replicas, router(), requests, Options{Brief: true})
		if brief.Requests != nil {
			t.Fatal("brief, and with all results in full")
		}
		for i := range together.Requests {
			if together.Requests[i].Record() != brief.Records[i] {
				t.Fatalf("request %d: %+v, in brief %+v", i, together.Requests[i], brief.Records[i])
			}
		}
	})
}

// A router that looks at the loads sees each engine as it is at that time, though engines in which nothing changes are
// not brought up to it.
func TestTheRouterSeesTheLoads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := drawDeployment(t)
		requests := drawRequests(t, replicas[0].Config.BlockSize)
		var lazy, eager [][]Load
		mustRun(t, replicas, watching{LeastLoaded(), &lazy}, requests, Options{})
		late := Request{Pause: time.Hour, PromptTokens: 1, OutputTokens: 1,
			After: 1} // its loop brings all engines up to date
		mustRun(t, replicas, watching{LeastLoaded(), &eager}, append(requests, late), Options{})
		if diff := gocmp.Diff(eager, lazy); diff != "" {
			t.Fatalf("(-all up to date +as they are):\n%s", diff)
		}
	})
}

type watching struct {
	Router
	seen *[][]Load
}

func (w watching) Pick(r *Request, replicas []Load) int {
	if r.Pause == 0 {
		*w.seen = append(*w.seen, append([]Load(nil), replicas...))
	}
	return w.Router.Pick(r, replicas)
}
