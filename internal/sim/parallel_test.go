package sim

import (
	"runtime"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// seeing makes a router that ignores the loads look like one that uses them.
type seeing struct{ Router }

// Engines that are simulated separately have the results of a common simulation, on one core and on several. The
// records of a brief run equal those of the full results.
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

// A router that uses the loads sees each engine's present load, although engines whose load does not change are not
// simulated up to that time.
func TestTheRouterSeesTheLoads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := drawDeployment(t)
		requests := drawRequests(t, replicas[0].Config.BlockSize)
		var lazy, eager [][]Load
		mustRun(t, replicas, watching{LeastLoaded(), &lazy}, requests, Options{})
		// The loop for dependent requests brings all engines up to date.
		late := Request{Pause: time.Hour, PromptTokens: 1, OutputTokens: 1, After: 1}
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
