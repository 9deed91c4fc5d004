//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sixty-dev/sixty/internal/base/must"
)

var (
	outFlag     = flag.String("out", "../testdata/recordings", "directory of the recordings")
	scratchFlag = flag.String("scratch", "", "directory of the single scrapes; a temporary one when empty")
	logsFlag    = flag.String("logs", "", "directory of the servers' logs; a temporary one when empty")
	portFlag    = flag.Int("port", 8100, "first port of the servers")
	suffixFlag  = flag.String("suffix", "", "appended to the recordings' names, such as \"-v0.32\" for another vLLM")
	appendFlag  = flag.String("append", "",
		"server arguments put after every scenario's, such as \"--block-size 32\" for another vLLM")
	notesFlag  = flag.String("notes", "", "written into the truth, such as what else the machine did")
	seedFlag   = flag.Uint64("seed", 0, "added to every scenario's seed, for the same again with other traffic")
	prefixFlag = flag.String("prefix", "", "command before the server's, such as \"nice -n -5 taskset -c 1\"")
)

// product returns the path of the program under test, SIXTY_BIN. It skips the test if that, vLLM or one of the other
// programs is missing.
func product(t *testing.T, tools ...string) string {
	t.Helper()
	bin := os.Getenv("SIXTY_BIN")
	if os.Getenv("SIXTY_VLLM") == "" || bin == "" {
		t.Skip("SIXTY_VLLM and SIXTY_BIN are not both set: nothing to run")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not on PATH", tool)
		}
	}
	path, err := filepath.Abs(bin)
	must.Succeed(t, err)
	return path
}

// settle is the quiet time between two scenarios on one server.
const settle = 7 * time.Second

// TestRecord records every scenario; choose some with -run TestRecord/NAME.
// Neighbours in the file with equal servers share them.
func TestRecord(t *testing.T) {
	if os.Getenv("SIXTY_VLLM") == "" {
		t.Skip("SIXTY_VLLM is not set: no installation of vLLM to record")
	}
	fl := newFleet(t)
	for _, sc := range readScenarios(t) {
		sc.Seed = *seedFlag
		t.Run(sc.Name, func(t *testing.T) {
			servers := fl.serve(t, &sc)
			must.Succeed(t, record(fl.ctx, &sc, sc.Name+*suffixFlag, *notesFlag, servers, fl.scratch, *outFlag))
		})
	}
}

// arguments splits a scenario's server arguments and adds those of -append, which win: if a flag is repeated, vLLM
// takes the last.
func arguments(line string) []string { return strings.Fields(line + " " + *appendFlag) }

// A fleet keeps servers running from one scenario to the next. An interrupt ends its context, which stops the servers.
type fleet struct {
	ctx      context.Context
	launcher *Launcher
	scratch  string
	servers  []*Server
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	dirOr := func(dir string) string {
		if dir == "" {
			return t.TempDir()
		}
		return dir
	}
	l, err := NewLauncher(os.Getenv("SIXTY_VLLM"), strings.Fields(*prefixFlag), dirOr(*logsFlag))
	must.Succeed(t, err)
	ctx, cancel := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	fl := &fleet{ctx: ctx, launcher: l, scratch: dirOr(*scratchFlag)}
	t.Cleanup(func() {
		cancel()
		fl.stop(t)
	})
	return fl
}

func (fl *fleet) stop(t *testing.T) {
	for _, s := range fl.servers {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	fl.servers = nil
}

// serve returns running, warm and quiet servers for a scenario.
func (fl *fleet) serve(t *testing.T, sc *Scenario) []*Server {
	t.Helper()
	if !fl.fits(fl.ctx, sc) {
		fl.stop(t)
		fl.servers = make([]*Server, len(sc.Servers))
		errs := make([]error, len(sc.Servers))
		var starting sync.WaitGroup
		for i, args := range sc.Servers {
			starting.Go(func() {
				fl.servers[i], errs[i] = fl.launcher.Start(fl.ctx, "r"+strconv.Itoa(i), *portFlag+i, arguments(args))
			})
		}
		starting.Wait()
		fl.servers = slices.DeleteFunc(fl.servers, func(s *Server) bool { return s == nil })
		must.Succeed(t, errors.Join(errs...))
		if !sc.Fresh {
			warmUp(fl.ctx, fl.servers)
		}
	}
	if !sc.Fresh {
		sleep(fl.ctx, settle)
	}
	return fl.servers
}

func (fl *fleet) fits(ctx context.Context, sc *Scenario) bool {
	if sc.Fresh || len(fl.servers) != len(sc.Servers) {
		return false
	}
	for i, s := range fl.servers {
		if !slices.Equal(s.Args, arguments(sc.Servers[i])) || !s.Healthy(ctx) {
			return false
		}
	}
	return true
}

// warmUp sends a few requests of different lengths to each server: the first ones after a start take seconds.
func warmUp(ctx context.Context, servers []*Server) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	d := newDriver(servers, 1)
	for _, s := range servers {
		var only []float64
		for _, other := range servers {
			only = append(only, map[bool]float64{true: 1}[other == s])
		}
		for _, n := range []int{8, 200, 600, 60} {
			d.start(ctx, ctx, 0, n, Traffic{Clients: 1, Prompt: constant(n), Output: constant(24), Weights: only})
			sleep(ctx, 1500*time.Millisecond)
		}
	}
	cancel()
	d.wg.Wait()
	d.client.CloseIdleConnections()
}

// TestScenarios checks the scenarios; it needs no server.
func TestScenarios(t *testing.T) {
	var names []string
	for _, sc := range readScenarios(t) {
		names = append(names, sc.Name)
		if len(sc.Servers) == 0 || len(sc.Phases) == 0 || sc.Induced == "" {
			t.Errorf("%s: servers, phases or induced missing", sc.Name)
		}
		if !slices.Contains(sc.Accept, sc.Verdict()) {
			t.Errorf("%s: the verdict %q is not among the accepted ones %q", sc.Name, sc.Verdict(), sc.Accept)
		}
		for _, wrong := range sc.MustNotBe {
			if slices.Contains(sc.Accept, wrong) {
				t.Errorf("%s: %q is accepted and forbidden", sc.Name, wrong)
			}
		}
		phases := map[string]bool{}
		for _, ph := range sc.Phases {
			if phases[ph.Name] {
				t.Errorf("%s: two phases are called %s", sc.Name, ph.Name)
			}
			phases[ph.Name] = true
			if ph.Verdict == "" || (ph.Seconds == 0 && len(ph.Faults) == 0) {
				t.Errorf("%s: phase %s has no verdict or no end", sc.Name, ph.Name)
			}
		}
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("two scenarios have one name: %q", names)
	}
}

// TestTruths checks that the committed truths agree with the scenarios that made them.
func TestTruths(t *testing.T) {
	const most = 600_000 // bytes of an archive
	names, err := filepath.Glob("../testdata/recordings/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	long, err := filepath.Glob("../testdata/recordings/long/*.json")
	if err != nil || len(long) == 0 {
		t.Fatalf("no long recordings: %v", err)
	}
	scenarios, checked := readScenarios(t), 0
	for _, name := range slices.Concat(names, long) {
		base := strings.TrimSuffix(filepath.Base(name), ".json")
		scenario, _, _ := strings.Cut(base, "-v0.")
		i := slices.IndexFunc(scenarios, func(sc Scenario) bool { return sc.Name == scenario })
		if i < 0 {
			continue // from another engine, or made by hand
		}
		checked++
		body := must.ReadFile(t, name)
		var got Truth
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%s: %v", base, err)
		}
		want := newTruth(&scenarios[i])
		for _, ph := range scenarios[i].Phases {
			want.Phases = append(want.Phases, newTruthPhase(ph))
			want.Load.Phases[ph.Name] = ph.Traffic
		}
		for j := range got.Phases {
			ph := &got.Phases[j]
			if ph.To <= ph.From {
				t.Errorf("%s: phase %s ends before it begins", base, ph.Name)
			}
			ph.From, ph.To, ph.Onset = 0, 0, 0
		}
		got.VLLM, got.Model, got.Notes, got.ServerArgs, got.Observed, want.Observed = "", "", "", nil, nil, nil
		if diff := cmp.Diff(*want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Fault{})); diff != "" {
			t.Errorf("%s differs from its scenario (-file +truth):\n%s", base, diff)
		}
		if info, err := os.Stat(strings.TrimSuffix(name, ".json") + ".tar.zst"); err != nil || info.Size() > most {
			t.Errorf("%s: no archive, or a large one: %v", base, err)
		}
	}
	if checked == 0 {
		t.Error("no truth is of a scenario")
	}
}
