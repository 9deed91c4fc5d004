//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Truth describes what was done in a recording, and the right verdicts.
type Truth struct {
	Verdict    string       `json:"verdict"`     // at the end of the last phase
	Accept     []string     `json:"accept"`      // other verdicts that are right there
	MustNotBe  []string     `json:"must_not_be"` // verdicts that are wrong there
	Induced    string       `json:"induced"`
	VLLM       string       `json:"vllm"`
	Model      string       `json:"model,omitempty"`
	Notes      string       `json:"notes,omitempty"` // for example what else the machine did
	ServerArgs []string     `json:"server_args"`     // one per target, in the order r0, r1, …
	Phases     []TruthPhase `json:"phases"`
	Load       TruthLoad    `json:"load"`
	// Observed has, by phase, what clients measured and what the servers exposed.
	Observed map[string]Observed `json:"observed"`
}

// TruthPhase is one phase with the verdict at its end.
type TruthPhase struct {
	Name string `json:"name"`
	From int64  `json:"from_unix_ms"`
	To   int64  `json:"to_unix_ms"`
	// Onset is when the fault began, if later than the phase. It is added by hand, from the scrapes.
	Onset   int64    `json:"onset_unix_ms,omitempty"`
	Verdict string   `json:"verdict"`
	Accept  []string `json:"accept,omitempty"`
	// Targets are the verdicts on single targets, if they differ.
	Targets map[string]string `json:"targets,omitempty"`
	Faults  []Fault           `json:"faults,omitempty"`
	Calls   []Calls           `json:"calls,omitempty"`
}

// newTruthPhase returns what is known about a phase before it is played.
func newTruthPhase(ph Phase) TruthPhase {
	return TruthPhase{Name: ph.Name, Verdict: ph.Verdict, Accept: ph.Accept, Targets: ph.Targets, Faults: ph.Faults,
		Calls: ph.Calls}
}

// TruthLoad is the traffic of every phase.
type TruthLoad struct {
	Seed   uint64               `json:"seed"`
	Phases map[string][]Traffic `json:"phases"`
}

// Observed is one phase as measured.
type Observed struct {
	Client  Client            `json:"client"`
	Servers map[string]Scrape `json:"server"`
}

// Client summarises the requests that began in a phase; times are in ms.
type Client struct {
	Started int            `json:"started"`
	Status  map[string]int `json:"status"`
	Ends    map[string]int `json:"ends"`
	TTFTp50 float64        `json:"ttft_p50_ms"`
	TTFTp95 float64        `json:"ttft_p95_ms"`
	ITLp50  float64        `json:"itl_p50_ms"`
	ITLp95  float64        `json:"itl_p95_ms"`
	ITLmax  float64        `json:"itl_max_ms"`
	E2Ep50  float64        `json:"e2e_p50_ms"`
	E2Ep95  float64        `json:"e2e_p95_ms"`
}

// Scrape summarises one target's scrapes in a phase.
type Scrape struct {
	Scrapes     int     `json:"scrapes"`
	Failed      int     `json:"failed"`
	LongestGap  float64 `json:"longest_gap_s"` // between scrapes: a slow server or a busy machine
	RunningMean float64 `json:"running_mean"`
	RunningMax  float64 `json:"running_max"`
	WaitingMean float64 `json:"waiting_mean"`
	WaitingMax  float64 `json:"waiting_max"`
	KVMean      float64 `json:"kv_mean"` // of the fullest data-parallel rank
	KVMax       float64 `json:"kv_max"`
	Preemptions float64 `json:"preemptions"` // increase in the phase, as are the rest
	Finished    float64 `json:"finished"`
	FirstTokens float64 `json:"first_tokens"`
	Generated   float64 `json:"generation_tokens"`
	HitRatio    float64 `json:"prefix_hit_ratio"`
}

// newTruth returns what is known about a scenario before it is played.
func newTruth(sc *Scenario) *Truth {
	return &Truth{
		Verdict: sc.Verdict(), Accept: sc.Accept, MustNotBe: sc.MustNotBe, Induced: sc.Induced,
		Load: TruthLoad{Seed: sc.seed(), Phases: map[string][]Traffic{}}, Observed: map[string]Observed{},
	}
}

// record plays a scenario against servers and writes NAME.tar.zst and NAME.json into out. The single scrapes are
// written to scratch.
func record(ctx context.Context, sc *Scenario, name, notes string, servers []*Server, scratch, out string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	truth := newTruth(sc)
	truth.VLLM, truth.Notes = servers[0].Version(ctx)+" (CPU build)", notes
	if truth.Model, err = servers[0].launcher.model(); err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	for _, s := range servers {
		truth.ServerArgs = append(truth.ServerArgs, strings.Join(s.Args, " "))
	}
	dir := filepath.Join(scratch, name)
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	d := newDriver(servers, sc.seed())
	if err := play(ctx, sc, d, dir, truth, nil); err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	if err := observe(truth, d.outcomes, servers, dir); err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	if err := archive(dir, filepath.Join(out, name+".tar.zst")); err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	b, err := json.MarshalIndent(truth, "", " ")
	if err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	return os.WriteFile(filepath.Join(out, name+".json"), append(b, '\n'), 0o644)
}

// play runs the phases and scrapes into dir. If during is not nil, it is called when a phase begins, with a context
// that ends with the phase.
func play(ctx context.Context, sc *Scenario, d *driver, dir string, truth *Truth, during func(ctx context.Context, phase int)) error {
	run, stop := context.WithCancel(ctx)
	defer stop()
	var scrapers sync.WaitGroup
	failed := make([]error, len(d.servers))
	for i, s := range d.servers {
		scrapers.Go(func() { failed[i] = scrape(run, s, dir) })
	}
	var err error
	for i, ph := range sc.Phases {
		from := time.Now()
		if err = playPhase(run, d, i, ph, during); err != nil {
			break
		}
		done := newTruthPhase(ph)
		done.From, done.To = from.UnixMilli(), time.Now().UnixMilli()
		truth.Phases = append(truth.Phases, done)
		truth.Load.Phases[ph.Name] = ph.Traffic
	}
	stop()
	scrapers.Wait()
	d.wg.Wait()
	d.client.CloseIdleConnections()
	return errors.Join(append(failed, err)...)
}

// playPhase plays one phase. It ends after its duration, or, without one, when all of its faults have ended.
func playPhase(run context.Context, d *driver, number int, ph Phase, during func(context.Context, int)) error {
	phase, end := context.WithCancel(run)
	defer end()
	if ph.Seconds > 0 {
		phase, end = context.WithTimeout(run, seconds(ph.Seconds))
		defer end()
	}
	for i, t := range ph.Traffic {
		d.start(run, phase, number, i, t)
	}
	for _, c := range ph.Calls {
		d.call(phase, c)
	}
	var faults sync.WaitGroup
	errs := make([]error, len(ph.Faults))
	for i, f := range ph.Faults {
		faults.Go(func() {
			if !sleep(phase, seconds(f.After)) {
				return
			}
			for _, s := range d.servers {
				if s.Name == f.Target {
					errs[i] = f.inject(phase, s)
				}
			}
		})
	}
	if during != nil {
		faults.Go(func() { during(phase, number) })
	}
	if ph.Seconds > 0 {
		<-phase.Done()
	}
	faults.Wait()
	return errors.Join(append(errs, run.Err())...)
}

// observe fills in what clients measured and what servers exposed.
func observe(truth *Truth, outcomes []outcome, servers []*Server, dir string) error {
	for i, ph := range truth.Phases {
		seen := Observed{Client: sumClient(outcomes, i), Servers: map[string]Scrape{}}
		for _, s := range servers {
			sum, err := sumScrapes(filepath.Join(dir, s.Name), ph.From, ph.To)
			if err != nil {
				return err
			}
			seen.Servers[s.Name] = sum
		}
		truth.Observed[ph.Name] = seen
	}
	return nil
}

func sumClient(outcomes []outcome, phase int) Client {
	c := Client{Status: map[string]int{}, Ends: map[string]int{}}
	var ttft, itl, e2e []time.Duration
	for _, o := range outcomes {
		if o.Phase != phase {
			continue
		}
		c.Started++
		c.Status[strconv.Itoa(o.Status)]++
		c.Ends[o.End]++
		if o.TTFT > 0 {
			ttft = append(ttft, o.TTFT)
		}
		itl = append(itl, o.Gaps...)
		if o.End == "ok" {
			e2e = append(e2e, o.E2E)
		}
	}
	slices.Sort(ttft)
	slices.Sort(itl)
	slices.Sort(e2e)
	c.TTFTp50, c.TTFTp95 = percentile(ttft, 0.5), percentile(ttft, 0.95)
	c.ITLp50, c.ITLp95, c.ITLmax = percentile(itl, 0.5), percentile(itl, 0.95), percentile(itl, 1)
	c.E2Ep50, c.E2Ep95 = percentile(e2e, 0.5), percentile(e2e, 0.95)
	return c
}

// sumScrapes reads one target's scrapes between two times. Increases are taken between successive scrapes, so that a
// restart does not make them negative.
func sumScrapes(dir string, from, to int64) (Scrape, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.prom"))
	if err != nil {
		return Scrape{}, err
	}
	slices.Sort(names)
	var sum Scrape
	var ok, previous float64
	var hits, queries float64
	var last map[string]*dto.MetricFamily
	for _, name := range names {
		at, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(name), ".prom"), 10, 64)
		if err != nil || at < from || at > to {
			continue
		}
		if previous > 0 {
			sum.LongestGap = max(sum.LongestGap, (float64(at)-previous)/1000)
		}
		previous = float64(at)
		body, err := os.ReadFile(name)
		if err != nil {
			return Scrape{}, err
		}
		sum.Scrapes++
		parser := expfmt.NewTextParser(model.UTF8Validation)
		now, err := parser.TextToMetricFamilies(bytes.NewReader(body))
		if err != nil {
			return Scrape{}, fmt.Errorf("parse %s: %w", name, err)
		}
		if len(now) == 0 {
			sum.Failed++
			continue
		}
		ok++
		running, waiting, kv := total(now, "vllm:num_requests_running"), total(now,
			"vllm:num_requests_waiting"), largest(now, "vllm:kv_cache_usage_perc")
		sum.RunningMean += running
		sum.WaitingMean += waiting
		sum.KVMean += kv
		sum.RunningMax, sum.WaitingMax, sum.KVMax = max(sum.RunningMax, running), max(sum.WaitingMax,
			waiting), max(sum.KVMax, kv)
		if last != nil {
			grew := func(name string) float64 { return max(total(now, name)-total(last, name), 0) }
			sum.Preemptions += grew("vllm:num_preemptions_total")
			sum.Finished += grew("vllm:request_success_total")
			sum.FirstTokens += grew("vllm:time_to_first_token_seconds")
			sum.Generated += grew("vllm:generation_tokens_total")
			hits += grew("vllm:prefix_cache_hits_total")
			queries += grew("vllm:prefix_cache_queries_total")
		}
		last = now
	}
	if ok > 0 {
		sum.RunningMean, sum.WaitingMean, sum.KVMean = round(sum.RunningMean/ok), round(sum.WaitingMean/ok), round(sum.KVMean/ok)
	}
	if queries > 0 {
		sum.HitRatio = round(hits / queries)
	}
	sum.KVMax, sum.LongestGap = round(sum.KVMax), round(sum.LongestGap)
	return sum, nil
}

// total adds up a family's samples; of a histogram, its count.
func total(families map[string]*dto.MetricFamily, name string) float64 {
	var sum float64
	for _, m := range families[name].GetMetric() {
		sum += m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return sum
}

// largest returns the largest sample of a gauge: ratios cannot be added.
func largest(families map[string]*dto.MetricFamily, name string) float64 {
	var most float64
	for _, m := range families[name].GetMetric() {
		most = max(most, m.GetGauge().GetValue())
	}
	return most
}

func round(x float64) float64 { return math.Round(x*1000) / 1000 }
