package fleet_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/report/reporttest"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// playAndDiagnose puts a scenario's pages into a store and diagnoses it at the end of each
// phase.
func playAndDiagnose(t *testing.T, sc fleet.Scenario, release engine.Release, seed uint64,
	judge func(fleet.Phase, diagnose.Diagnosis)) {
	t.Helper()
	store := embeddedtest.New(t)
	interval := sc.Interval
	if interval == 0 {
		interval = time.Second
	}
	take := func(p fleet.Scrape) error {
		target := embedded.Target{Instance: p.Target}
		if p.Body == nil {
			return store.AppendFailureAfter(target, p.At, p.Took)
		}
		_, err := store.Append(target, p.At, p.Body, "text/plain; version=0.0.4", 5*time.Millisecond)
		return err
	}
	phase := func(p fleet.Phase, at time.Time) error {
		created := time.Time{}
		for _, target := range store.Targets() {
			if c, ok := store.FirstCreated(target); ok && (created.IsZero() || c.Before(created)) {
				created = c
			}
		}
		d, err := diagnose.Run(t.Context(), store, diagnose.Options{
			At: at, First: began, Created: created, Interval: interval, Every: true, Pathologies: pathologies.All(),
		})
		if err != nil {
			return err
		}
		judge(p, d)
		return nil
	}
	must.Succeed(t, fleet.Play(t.Context(), sc, release, seed, began, take, phase))
}

func scenarios(t *testing.T) []fleet.Scenario {
	t.Helper()
	all, err := fleet.Scenarios(pathologies.All())
	must.Succeed(t, err)
	return all
}

func TestEveryScenarioIsDiagnosedAsWhatItIs(t *testing.T) {
	for _, sc := range scenarios(t) {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			playAndDiagnose(t, sc, fleet.DefaultRelease, 1, func(p fleet.Phase, d diagnose.Diagnosis) {
				reporttest.FitsTheScreen(t, sc.Name+": "+p.Name, d)
				reporttest.PlainWords(t, sc.Name+": "+p.Name, d)
				if d.Verdict.ID != p.Want && !slices.Contains(p.Accept, d.Verdict.ID) {
					t.Errorf("phase %q: verdict %s (%.2f), want %s", p.Name, d.Verdict.ID, d.Verdict.Confidence, p.Want)
				}
				for _, f := range d.Findings {
					if f.Status == diagnose.Firing {
						t.Logf("phase %q: %s fires, inhibited by %q", p.Name, f.Pathology.ID, f.InhibitedBy)
					}
				}
			})
		})
	}
}

// Fixes can be tried: with as few seats as requests of full length fit into the cache, no request is preempted.
func TestFewSeatsEndThePreemptions(t *testing.T) {
	for _, tt := range []struct {
		args string
		none bool
	}{{"", false}, {"--max-num-seqs 7", true}} {
		sc, err := fleet.FindScenario(pathologies.All(), "kv-cache-thrashing")
		must.Succeed(t, err)
		sc.Settings, _, err = sc.Settings.With(engine.ParseArgs(tt.args, "test"))
		must.Succeed(t, err)
		var last string
		if err := fleet.Play(t.Context(), sc, fleet.DefaultRelease, 1, began, func(p fleet.Scrape) error {
			if p.Target == fleet.ReplicaTarget(0) {
				last = string(p.Body)
			}
			return nil
		}, nil); err != nil {
			t.Fatal(err)
		}
		none := strings.Contains(last, "vllm:num_preemptions_total{engine=\"0\",model_name=\"llama-8b\"} 0\n")
		if none != tt.none {
			t.Errorf("with %q preemptions are absent: %v", tt.args, none)
		}
	}
}

// With more replicas, each gets as much traffic and shows the same fault.
func TestAFaultIsThatOfAnyNumberOfReplicas(t *testing.T) {
	sc, err := fleet.FindScenario(pathologies.All(), "kv-cache-thrashing")
	must.Succeed(t, err)
	sc = sc.Over(4)
	sc.Replicas = 4
	playAndDiagnose(t, sc, fleet.DefaultRelease, 1, func(p fleet.Phase, d diagnose.Diagnosis) {
		if p.Want != d.Verdict.ID || p.Want != diagnose.Healthy && len(d.Verdict.Targets) != 4 {
			t.Errorf("%s on %v after phase %q, want %s on 4: %s", d.Verdict.ID, d.Verdict.Targets, p.Name, p.Want,
				d.Verdict.Summary)
		}
	})
}

func TestEveryPathologyHasItsScenario(t *testing.T) {
	for _, p := range pathologies.All() {
		if p.Scope() == indicator.Gateway ||
			slices.Contains([]string{"decode-lost", "pd-imbalance", "rank-skew", "slow-start"}, p.ID) {
			continue // the fleet has no gateway, no server that only prefills, no rank of its own pace, and starts at once
		}
		sc, err := fleet.FindScenario(pathologies.All(), p.ID)
		if err != nil {
			t.Error(err)
			continue
		}
		if last := sc.Phases[len(sc.Phases)-1]; last.Want != p.ID {
			t.Errorf("%s leads to %s", p.ID, last.Want)
		}
	}
	for _, sc := range scenarios(t) {
		if sc.Title == "" || sc.Fault == "" {
			t.Errorf("%s has no title, or does not tell its fault", sc.Name)
		}
		for _, p := range sc.Phases {
			if p.Tell == "" || p.Why == "" || p.Want == "" || p.For < 20*time.Second {
				t.Errorf("%s: phase %q lacks something", sc.Name, p.Name)
			}
		}
	}
}

func TestScenariosThatAreRefused(t *testing.T) {
	const phase = "\nphases: [{name: fault, faults: {slow: 2}}]"
	for text, want := range map[string]string{
		"":                                       "EOF",
		"title: x":                               "no phase has a fault",
		"titel: x" + phase:                       "titel",
		"args: --max-num-seqs 0" + phase:         "not a number of at least 1",
		"args: --tensor-parallel-size 2" + phase: "--tensor-parallel-size: changes nothing",
		"phases: [{name: fault, faults: {slwo: 2}}]":       "phase 2: yaml",
		"phases: [{name: fault, traffic: {prompt: long}}]": "phase 2",
	} {
		if _, err := fleet.ReadScenario("slow", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	s, err := fleet.ReadScenario("slow", "healthy: {traffic: {rate: 3}}"+phase)
	if err != nil || len(s.Phases) != 2 || s.Phases[1].Traffic.Rate != 3 || s.Phases[1].Faults.Slow != 2 ||
		s.Phases[1].Want != "slow" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestArgumentsOfTheServer(t *testing.T) {
	s, ignored, err := fleet.Settings{MaxNumSeqs: 5}.With(engine.ParseArgs("--max-num-batched-tokens=4096 --no-enable-chunked-prefill --enable-prefix-caching false --tensor-parallel-size 2", "test"))
	if err != nil || s.MaxNumSeqs != 5 || s.MaxNumBatchedTokens != 4096 || !s.NoChunkedPrefill || !s.NoPrefixCaching ||
		!slices.Equal(ignored, []string{"--tensor-parallel-size"}) {
		t.Errorf("%+v, ignored %v, %v", s, ignored, err)
	}
	for _, args := range []string{"--max-num-seqs 0", "--max-num-seqs x", "--enable-prefix-caching perhaps",
		"--block-size -1"} {
		if _, _, err := (fleet.Settings{}).With(engine.ParseArgs(args, "test")); err == nil {
			t.Errorf("%s was accepted", args)
		}
	}
}
