package hostmetrics

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics/gpu"
)

// fakeProcesses are processes as a test says they are.
type fakeProcesses struct {
	listens  map[string][]int
	parents  map[int]int
	commands map[int]string
}

func (f *fakeProcesses) listeningProcesses(port string) []int { return f.listens[port] }
func (f *fakeProcesses) parentProcess(pid int) int            { return f.parents[pid] }
func (f *fakeProcesses) commandName(pid int) string           { return f.commands[pid] }

// gpus are four GPUs, of which some are in use.
func gpus(used map[int]int) []gpu.Reading {
	var out []gpu.Reading
	for i := range 4 {
		g := gpu.Reading{Index: i}
		if pid := used[i]; pid != 0 {
			g.Processes = []int{pid}
		}
		out = append(out, g)
	}
	return out
}

func shares(divided map[string][]gpu.Reading) map[string]string {
	out := map[string]string{}
	for name, readings := range divided {
		var at []string
		for _, g := range readings {
			at = append(at, string(rune('0'+g.Index)))
		}
		out[name] = strings.Join(at, " ")
	}
	return out
}

// TestGPUsAreLentToTheServerThatUsesThem follows a GPU's processes up to the one that
// listens on the port that is scraped.
func TestGPUsAreLentToTheServerThatUsesThem(t *testing.T) {
	a, b := Server{Name: "a", URL: "http://localhost:8000/metrics"}, Server{Name: "b", URL: "http://localhost:8001/metrics"}
	// Server a: 100 listens, 101 is its engine and 102 and 103 the engine's workers; server b: 200, which computes itself.
	seen := fakeProcesses{
		listens: map[string][]int{"8000": {100}, "8001": {200}},
		parents: map[int]int{100: 1, 101: 100, 102: 101, 103: 101, 200: 1, 300: 1},
	}
	for name, tt := range map[string]struct {
		used map[int]int
		p    fakeProcesses
		want map[string]string
	}{
		"each its own":                {map[int]int{0: 102, 1: 103, 3: 200}, seen, map[string]string{"a": "0 1", "b": "3"}},
		"one is not seen":             {map[int]int{0: 102, 1: 103, 3: 300}, seen, map[string]string{"a": "0 1", "b": "2 3"}},
		"none is seen":                {nil, seen, map[string]string{"a": "0 1 2 3", "b": "0 1 2 3"}},
		"nobody is seen to listen":    {map[int]int{0: 102, 3: 200}, fakeProcesses{parents: seen.parents}, map[string]string{"a": "0 1 2 3", "b": "0 1 2 3"}},
		"a parent holds the socket":   {map[int]int{0: 102, 1: 103}, fakeProcesses{listens: map[string][]int{"8000": {99, 100}, "8001": {200}}, parents: map[int]int{100: 99, 101: 99, 102: 101, 103: 101}}, map[string]string{"a": "0 1", "b": "2 3"}},
		"one is forwarded":            {map[int]int{0: 102, 3: 300}, fakeProcesses{seen.listens, seen.parents, map[int]string{200: "kubectl"}}, map[string]string{"a": "0"}},
		"parents that never end":      {map[int]int{2: 7}, fakeProcesses{parents: map[int]int{7: 8, 8: 7}}, map[string]string{"a": "0 1 2 3", "b": "0 1 2 3"}},
		"one computes on all of them": {map[int]int{0: 102, 1: 102, 2: 102, 3: 102}, seen, map[string]string{"a": "0 1 2 3"}},
	} {
		var c claims
		if diff := cmp.Diff(tt.want, shares(c.divideReadings(gpus(tt.used), []Server{a, b}, &tt.p))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	// A server that restarts keeps its GPUs while it has no process on them.
	var c claims
	c.divideReadings(gpus(map[int]int{0: 102, 1: 103, 3: 200}), []Server{a, b}, &seen)
	if diff := cmp.Diff(map[string]string{"a": "0 1", "b": "3"}, shares(c.divideReadings(gpus(map[int]int{3: 200}), []Server{a, b}, &seen))); diff != "" {
		t.Errorf("a restart (-want +got):\n%s", diff)
	}
}
