//go:build e2e

package e2e

import (
	"hash/fnv"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// A Scenario is what is done to servers while they are scraped.
type Scenario struct {
	Name    string   `json:"name"`
	Servers []string `json:"servers"` // arguments of each server; successive scenarios with equal ones share servers
	Seed    uint64   `json:"-"`       // added to the one that the name gives
	Fresh   bool     `json:"fresh"`   // starts its own servers and does not warm them up
	Induced string   `json:"induced"` // what is done, for the truth
	// Accept are the verdicts that are right at the end, with the verdict of the last phase; MustNotBe are those that
	// would mislead.
	Accept    []string `json:"accept"`
	MustNotBe []string `json:"must_not_be"`
	Phases    []Phase  `json:"phases"`
}

// readScenarios reads testdata/scenarios.yaml.
func readScenarios(t *testing.T) []Scenario {
	t.Helper()
	content := must.ReadFile(t, "testdata/scenarios.yaml")
	var file struct {
		Lengths   []Traffic  `json:"lengths"`   // those that scenarios have in common
		Arguments []string   `json:"arguments"` // of the servers that scenarios have in common
		Scenarios []Scenario `json:"scenarios"`
	}
	must.Succeed(t, yaml.UnmarshalStrict(content, &file))
	return file.Scenarios
}

// A Phase is a stretch of a scenario with its traffic and faults.
type Phase struct {
	Name    string            `json:"name"`
	Seconds float64           `json:"seconds"` // 0: until the faults have ended
	Traffic []Traffic         `json:"traffic"`
	Faults  []Fault           `json:"faults"`
	Verdict string            `json:"verdict"` // the right verdict at its end
	Accept  []string          `json:"accept"`  // other right verdicts at its end; for the last phase, Scenario.Accept
	Targets map[string]string `json:"targets"` // verdicts on single targets, if they differ
	Calls   []Calls           `json:"calls"`
}

// Verdict returns the verdict at the end of the last phase.
func (sc *Scenario) Verdict() string { return sc.Phases[len(sc.Phases)-1].Verdict }

// seed differs by scenario, so that no prompt is found in the prefix cache of a server that scenarios share.
func (sc *Scenario) seed() uint64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(sc.Name))
	return uint64(h.Sum32()) + sc.Seed
}

func healthy(seconds float64, ts ...Traffic) Phase {
	return Phase{Name: "healthy", Seconds: seconds, Traffic: ts, Verdict: "healthy"}
}

func sick(verdict string, seconds float64, faults []Fault, ts ...Traffic) Phase {
	return Phase{Name: "sick", Seconds: seconds, Traffic: ts, Faults: faults, Verdict: verdict}
}

// Arguments of the servers.
const (
	roomy   = "--max-model-len 4096 --block-size 16 --max-num-seqs 16 --num-gpu-blocks-override 800"
	smallKV = "--max-model-len 1024 --block-size 16 --max-num-seqs 16 --num-gpu-blocks-override 160"
)

// light is traffic that leaves the engine idle most of the time.
func light(rate float64) Traffic {
	return Traffic{Rate: rate, Prompt: lognormal(100, 0.5, 30, 400), Output: lognormal(48, 0.4, 8, 128)}
}

// chat is traffic with longer answers, so that at a few requests a second some are always running.
func chat(rate float64) Traffic {
	return Traffic{Rate: rate, Prompt: lognormal(150, 0.5, 30, 600), Output: lognormal(160, 0.4, 24, 400)}
}

// rag is traffic whose prompts share one of n prefixes.
func rag(rate float64, key string, prefixes, tokens int, fraction float64) Traffic {
	return Traffic{
		Rate: rate, Prompt: uniform(24, 48), Output: uniform(20, 32),
		Shared: &Shared{Tokens: tokens, Fraction: fraction, Prefixes: prefixes, Key: key},
	}
}

func clients(n int, prompt, output Lengths) Traffic {
	return Traffic{Clients: n, Prompt: prompt, Output: output}
}

// story is traffic whose answers take one to four seconds.
func story(rate float64) Traffic {
	return Traffic{Rate: rate, Prompt: lognormal(120, 0.5, 30, 500), Output: lognormal(750, 0.4, 250, 1600)}
}

// leaving is traffic in which a fraction of the clients hang up after a second.
func leaving(t Traffic, fraction float64) Traffic {
	t.CancelFraction, t.CancelSeconds = fraction, 1
	return t
}

// refused is traffic in which a fraction of the requests is refused.
func refused(t Traffic, fraction float64, bad ...Badness) Traffic {
	t.BadFraction, t.Bad = fraction, bad
	return t
}

// mixed is an assistant's traffic: chats, questions about a few documents, now and then a long prompt or several
// requests at once.
func mixed(rate float64) []Traffic {
	return []Traffic{
		chat(rate),
		rag(rate/2, "mixed", 3, 256, 0.9),
		{Rate: 0.08, Prompt: uniform(1200, 2200), Output: uniform(20, 60)},
		{Bursts: &Bursts{Every: 47, Size: 5}, Prompt: uniform(60, 200), Output: uniform(60, 200)},
	}
}

// bursty is traffic with more requests at once than the batch holds.
func bursty() []Traffic {
	return []Traffic{light(1.5), {Bursts: &Bursts{Every: 15, Size: 22}, Prompt: uniform(40, 100),
		Output: uniform(30, 70)}}
}
