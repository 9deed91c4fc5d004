package planning

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fleetDiagnosis plays a scenario and judges it at its end. It takes scrapes after from only, as if nobody had watched
// before.
func fleetDiagnosis(t testing.TB, sc fleet.Scenario, release engine.Release, from time.Duration,
	args string) diagnose.Diagnosis {
	t.Helper()
	store := embeddedtest.New(t)
	interval := max(sc.Interval, time.Second)
	var last time.Time
	first := began.Add(from)
	take := func(p fleet.Scrape) error {
		if p.At.Before(first) {
			return nil
		}
		last = p.At
		target := embedded.Target{Instance: p.Target}
		if p.Body == nil {
			return store.AppendFailure(target, p.At)
		}
		_, err := store.Append(target, p.At, p.Body, "text/plain; version=0.0.4", 5*time.Millisecond)
		return err
	}
	must.Succeed(t, fleet.Play(t.Context(), sc, release, 1, began, take, nil))
	created := time.Time{}
	for _, target := range store.Targets() {
		if c, ok := store.FirstCreated(target); ok && (created.IsZero() || c.Before(created)) {
			created = c
		}
	}
	d, err := diagnose.Run(t.Context(), store, diagnose.Options{
		At: last, First: first, Created: created, Interval: interval, Every: true, Pathologies: pathologies.All(),
		Predict: PredictFixes,
		Annotate: func(ts []diagnose.Target) {
			for i := range ts {
				c := engine.ParseArgs(args, "--engine-args")
				c.Merge(ts[i].Config)
				ts[i].Config = c
			}
		},
	})
	must.Succeed(t, err)
	return d
}

// watchedFromFault returns a scenario, and a time within its last phase at which scrapes begin: the fault has lasted
// for 20 s then.
func watchedFromFault(t testing.TB, name string) (sc fleet.Scenario, from time.Duration) {
	t.Helper()
	sc, err := fleet.FindScenario(pathologies.All(), name)
	must.Succeed(t, err)
	from = 20 * time.Second
	for _, p := range sc.Phases[:len(sc.Phases)-1] {
		from += p.For
	}
	sc.Phases[len(sc.Phases)-1].For = 80 * time.Second
	return sc, from
}

// checkFirstFix checks that the first fix makes users better off as predicted or, without a prediction, cannot hurt.
func checkFirstFix(t *testing.T, d diagnose.Diagnosis) {
	t.Helper()
	if d.Status != diagnose.Firing || len(d.Findings[0].Fixes) == 0 {
		return
	}
	f := firstCure(t, &d)
	switch p := f.Predicted; {
	case p == nil || p.Reason != "":
		if f.MayHurt && len(d.Findings[0].Fixes) > 1 {
			t.Errorf("%s: first %q, which may hurt and has no prediction", d.Verdict.ID, f.Summary)
		}
	case p.Benefit.Value < 1:
		t.Errorf("%s: first %q, with which users are %.2f times as well off as without", d.Verdict.ID, f.Summary,
			p.Benefit.Value)
	}
	on := d.Targets[slices.IndexFunc(d.Targets,
		func(t diagnose.Target) bool { return t.Name == d.Findings[0].Targets[0] })]
	for i := range d.Findings[0].Fixes {
		for _, c := range d.Findings[0].Fixes[i].Changes {
			if !on.Dialect.Flags.Accepts(on.Version, strings.TrimPrefix(c.Flag, "--")) {
				t.Errorf("%s: %q needs a flag that %s may not have", d.Verdict.ID, d.Findings[0].Fixes[i].Summary,
					on.Version)
			}
		}
	}
}

// TestNoFirstFixMakesItWorse judges every scenario of the fleet, watched from its healthy time on. It also judges
// every third scenario, watched from within its fault, and every third recording. With SIXTY_ACCURACY=full it judges
// all of these.
func TestNoFirstFixMakesItWorse(t *testing.T) {
	scenarios, err := fleet.Scenarios(pathologies.All())
	must.Succeed(t, err)
	every := 3
	switch {
	case testing.Short(): // enough for the race detector
		scenarios, every = scenarios[:1], 40
	case os.Getenv("SIXTY_ACCURACY") == "full":
		every = 1
	}
	for i, sc := range scenarios {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			checkFirstFix(t, fleetDiagnosis(t, sc, fleet.DefaultRelease, 0, ""))
			if i%every != 0 {
				return
			}
			sick, from := watchedFromFault(t, sc.Name)
			checkFirstFix(t, fleetDiagnosis(t, sick, fleet.DefaultRelease, from, ""))
		})
	}
	files, err := filepath.Glob("../../testdata/recordings/*.tar.zst")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for i, file := range files {
		if i%every != 0 {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			checkFirstFix(t, diagnoseRecording(t, file))
		})
	}
}

// A server thrashes for a while and is watched for a minute: the best first fix ends with half of the throughput and
// twice the wait.
func TestThrashingIsNotCuredByEmptySeats(t *testing.T) {
	if testing.Short() {
		t.Skip("it simulates for seconds what TestNoFirstFixMakesItWorse does in short")
	}
	t.Parallel()
	for _, later := range []time.Duration{0, 20 * time.Second} {
		sc, from := watchedFromFault(t, "kv-cache-thrashing")
		sc.Phases[1].For += later
		checkNoEmptySeats(t, fleetDiagnosis(t, sc, fleet.DefaultRelease, from+later, ""))
	}
}

func checkNoEmptySeats(t *testing.T, d diagnose.Diagnosis) {
	t.Helper()
	if d.Verdict.ID != "kv-cache-thrashing" {
		t.Fatalf("verdict %s", d.Verdict.ID)
	}
	fixes := d.Findings[0].Fixes
	if p := fixes[0].Predicted; p != nil && p.Reason == "" && p.Benefit.Value < 1.5 {
		t.Errorf("first %q: %+v, want one that is not predicted to fail", fixes[0].Summary, p)
	}
	for i, f := range fixes {
		if strings.HasPrefix(f.Summary, "Lower --max-num-seqs") && i < len(fixes)-1 {
			t.Errorf("%q is number %d of %d", f.Summary, i+1, len(fixes))
		}
		if strings.Contains(f.Summary, "--watermark") {
			t.Errorf("%q is offered to %s", f.Summary, d.Targets[0].Version)
		}
	}
	if !slices.ContainsFunc(d.Findings[0].Reasons,
		func(r string) bool { return strings.Contains(r, "On 0.24+, also try --watermark 0.05") }) {
		t.Errorf("nothing says what an upgrade would bring: %q", d.Findings[0].Reasons)
	}
}

// The simulated effect of the seats is the real one: the fleet serves the same load with the proposed value, and with
// none.
func TestTheProposedSeatsServeBetter(t *testing.T) {
	sc, err := fleet.FindScenario(pathologies.All(), "concurrency-limit")
	must.Succeed(t, err)
	d := fleetDiagnosis(t, sc, fleet.DefaultRelease, 0, "--max-num-seqs 4")
	f := firstCure(t, &d)
	p := f.Predicted
	if p == nil || p.Reason != "" || f.Args() == "" {
		t.Fatalf("first %q: %+v", f.Summary, p)
	}
	want, _ := p.Effect(indicator.TTFTMean)
	sc.Settings, _, err = sc.Settings.With(engine.ParseArgs(f.Args(), "test"))
	must.Succeed(t, err)
	var sums, counts []float64
	if err := fleet.Play(t.Context(), sc, fleet.DefaultRelease, 1, began, func(page fleet.Scrape) error {
		if page.Target == fleet.ReplicaTarget(0) {
			sums = append(sums, sample(t, page.Body, "vllm:time_to_first_token_seconds_sum"))
			counts = append(counts, sample(t, page.Body, "vllm:time_to_first_token_seconds_count"))
		}
		return nil
	}, nil); err != nil {
		t.Fatal(err)
	}
	n := len(sums) - 1
	from := n - 40
	if got := (sums[n] - sums[from]) / (counts[n] - counts[from]); got < want.After.Low || got > want.After.High {
		t.Errorf("with %s the first token takes %v s, predicted %+v", f.Args(), got, want.After)
	}
}

// firstCure returns the first fix of the leading finding that is more than a stopgap.
func firstCure(t *testing.T, d *diagnose.Diagnosis) *catalog.Fix {
	t.Helper()
	fixes := d.Findings[0].Fixes
	i := slices.IndexFunc(fixes, func(f catalog.Fix) bool { return !f.Stops })
	if i < 0 {
		t.Fatalf("nothing but stopgaps: %+v", fixes)
	}
	return &fixes[i]
}

// sample returns the value of a page's first series with a name.
func sample(t testing.TB, page []byte, name string) float64 {
	t.Helper()
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, name+"{") {
			v, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
			must.Succeed(t, err)
			return v
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

// Forty clients share sixteen seats, and the cache has room for more. The proposed seats follow the room and the
// benefit, not the number of waiting requests.
func TestSeatsFollowTheRoom(t *testing.T) {
	batch := fleet.Traffic{Clients: 40, Spec: lengths(t, "lognormal:400,0.3:100-1200", "lognormal:200,0.3:50-500")}
	sc := fleet.Scenario{Name: "batch", Settings: fleet.Settings{MaxNumSeqs: 16, NumBlocks: 1500},
		Phases: []fleet.Phase{{Name: "batch", For: 90 * time.Second, Traffic: batch}}}
	d := fleetDiagnosis(t, sc, fleet.DefaultRelease, 20*time.Second, "--max-num-seqs 16")
	if d.Verdict.ID != "concurrency-limit" {
		t.Fatalf("verdict %s", d.Verdict.ID)
	}
	f := firstCure(t, &d)
	p := f.Predicted
	if len(f.Changes) != 1 || p == nil || p.Reason != "" {
		t.Fatalf("first %q: %+v", f.Summary, p)
	}
	seats, err := strconv.Atoi(f.Changes[0].To)
	if err != nil || seats < 30 || p.Benefit.Value < 1.2 {
		t.Errorf("%q, with which users are %.2f times as well off: want most of the 40 seated", f.Summary,
			p.Benefit.Value)
	}
}

func lengths(t testing.TB, prompt, output string) workload.Spec {
	t.Helper()
	var s workload.Spec
	must.Succeed(t, errors.Join(s.Prompt.UnmarshalText([]byte(prompt)), s.Output.UnmarshalText([]byte(output))))
	return s
}

// Answers that take longer than the window: if few ended, the intervals cover the uncertainty; if even those are
// missing, the prediction says how long to wait.
func TestFewEndedRequestsAreEnough(t *testing.T) {
	sc, err := fleet.FindScenario(pathologies.All(), "kv-cache-thrashing")
	must.Succeed(t, err)
	sick := sc.Phases[1]
	for _, tt := range []struct {
		seconds   time.Duration
		predicted bool
	}{{30, true}, {12, false}} {
		sick.For = (40 + tt.seconds) * time.Second
		sc.Phases = []fleet.Phase{sick}
		d := fleetDiagnosis(t, sc, fleet.DefaultRelease, 40*time.Second, "")
		if d.Verdict.ID != "kv-cache-thrashing" {
			t.Fatalf("%d s: verdict %s", tt.seconds, d.Verdict.ID)
		}
		i := slices.IndexFunc(d.Findings[0].Fixes, func(f catalog.Fix) bool { return f.Replicas > 1 })
		if i < 0 {
			t.Fatalf("%d s: no replicas among %+v", tt.seconds, d.Findings[0].Fixes)
		}
		switch p := d.Findings[0].Fixes[i].Predicted; {
		case tt.predicted && p.Reason != "":
			t.Errorf("%d s: no prediction: %s", tt.seconds, p.Reason)
		case !tt.predicted && (p.Needs < time.Second || p.Needs > longestWait):
			t.Errorf("%d s: %q needs %s", tt.seconds, p.Reason, p.Needs)
		}
	}
}

// The remaining hits reveal why the cache misses: with text of its own in front of each prompt there are none, and
// with sixty prefixes in too small a cache there are some.
func TestWhyPrefixesAreNotFound(t *testing.T) {
	for _, tt := range []struct {
		groups      int // 0: every prompt begins with something of its own
		why, remedy string
	}{
		{0, "begin with something unique", "Put what all requests share first"},
		{60, "not known from these metrics", "Use an FP8 KV cache"},
	} {
		sc, err := fleet.FindScenario(pathologies.All(), "prefix-cache-misses")
		must.Succeed(t, err)
		spec := &sc.Phases[1].Traffic.Spec
		if spec.PrefixGroups = tt.groups; tt.groups == 0 {
			spec.PrefixShare = 0
		}
		d := fleetDiagnosis(t, sc, fleet.DefaultRelease, 0, "")
		if d.Verdict.ID != "prefix-cache-misses" {
			t.Fatalf("%d prefixes: verdict %s", tt.groups, d.Verdict.ID)
		}
		f := &d.Findings[0]
		if !slices.ContainsFunc(f.Reasons, func(r string) bool { return strings.Contains(r, tt.why) }) ||
			!strings.HasPrefix(f.Fixes[0].Summary, tt.remedy) {
			t.Errorf("%d prefixes: first %q for %q", tt.groups, f.Fixes[0].Summary, f.Reasons)
		}
	}
}
