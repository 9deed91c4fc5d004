package pathologies_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// A page is one scrape of a recording. Tests change it before they play it.
type page struct {
	target embedded.Target
	at     time.Time
	body   []byte
}

// pagesOf reads one page of every step of a recording. The phase is where the grid of steps begins.
func pagesOf(t *testing.T, file string, step, phase time.Duration) []page {
	t.Helper()
	rec, err := recording.Open(t.Context(), file)
	must.Succeed(t, err)
	defer rec.Close()
	var out []page
	slots := map[string]int64{}
	err = rec.Scrapes(func(sc recording.Scrape) error {
		slot := (sc.At.UnixMilli() - phase.Milliseconds()) / step.Milliseconds()
		if last, seen := slots[sc.Target]; !seen || slot != last {
			slots[sc.Target] = slot
			out = append(out, page{embedded.Target{Instance: sc.Target}, sc.At, bytes.Clone(sc.Body)})
		}
		return nil
	})
	must.Succeed(t, err)
	return out
}

// playPages scrapes pages into a store.
func playPages(t *testing.T, name string, pages []page, step time.Duration) *played {
	t.Helper()
	p := &played{name: name, interval: step, store: embeddedtest.New(t)}
	slices.SortStableFunc(pages, func(a, b page) int { return a.at.Compare(b.at) })
	for _, pg := range pages {
		must.Succeed(t, p.take(pg.target, pg.at, pg.body, 0))
	}
	p.tellBirths()
	return p
}

// beside adds a target that is scraped whenever the first one is scraped.
func beside(pages []page, instance string, body func(i int) []byte) []page {
	out := slices.Clone(pages)
	i := 0
	for _, pg := range pages {
		if pg.target.Instance == pages[0].target.Instance {
			out = append(out, page{embedded.Target{Instance: instance}, pg.at.Add(50 * time.Millisecond), body(i)})
			i++
		}
	}
	return out
}

const processOnly = "python_info{implementation=\"CPython\"} 1\nprocess_start_time_seconds 1.75e9\nprocess_resident_memory_bytes 1e9\n"

// idleServer is a server of another model that has nothing to do.
const idleServer = `vllm:num_requests_running{model_name="another",engine="0"} 0
vllm:num_requests_waiting{model_name="another",engine="0"} 0
vllm:kv_cache_usage_perc{model_name="another",engine="0"} 0
vllm:generation_tokens_total{model_name="another",engine="0"} 5200
vllm:prompt_tokens_total{model_name="another",engine="0"} 9100
vllm:request_success_total{model_name="another",engine="0",finished_reason="stop"} 70
vllm:time_to_first_token_seconds_bucket{model_name="another",engine="0",le="1"} 70
vllm:time_to_first_token_seconds_bucket{model_name="another",engine="0",le="+Inf"} 70
vllm:time_to_first_token_seconds_sum{model_name="another",engine="0"} 7.5
vllm:time_to_first_token_seconds_count{model_name="another",engine="0"} 70
`

// A mutation changes a recording without changing its fault.
type mutation struct {
	name   string
	change func(pages []page, step time.Duration) []page
	shift  time.Duration // of all timestamps
	named  string        // a target that must be reported as down or not judged
}

func each(change func(i int, pg *page)) func([]page, time.Duration) []page {
	return func(pages []page, _ time.Duration) []page {
		out := slices.Clone(pages)
		for i := range out {
			change(i, &out[i])
		}
		return out
	}
}

func mutations() []mutation {
	rename := func(to func(string) string) func([]page, time.Duration) []page {
		return each(func(_ int, pg *page) { pg.target.Instance = to(pg.target.Instance) })
	}
	moved := func(by time.Duration) func([]page, time.Duration) []page {
		return each(func(_ int, pg *page) { pg.at = pg.at.Add(by) })
	}
	again := func(change func(*page)) func([]page, time.Duration) []page {
		return func(pages []page, _ time.Duration) []page {
			out := slices.Clone(pages)
			for _, pg := range pages {
				change(&pg)
				out = append(out, pg)
			}
			return out
		}
	}
	// pair makes the pages those of two Prometheus servers. keep changes or drops the first server's pages.
	pair := func(keep func(pg *page, last time.Time) bool) func(p []page, step time.Duration) []page {
		return func(p []page, _ time.Duration) (out []page) {
			last := p[len(p)-1].at
			for _, pg := range p {
				pg.target.Labels = map[string]string{"prometheus_replica": "b"}
				out = append(out, pg)
				pg.target.Labels = map[string]string{"prometheus_replica": "a"}
				if keep(&pg, last) {
					out = append(out, pg)
				}
			}
			return out
		}
	}
	return []mutation{
		{name: "another order of the targets", change: rename(func(s string) string {
			b := []byte(s)
			for i := range b {
				if b[i] >= '0' && b[i] <= '9' {
					b[i] = '0' + '9' - b[i]
				}
			}
			return string(b)
		})},
		{name: "renamed instances", change: rename(func(s string) string { return "vllm." + strings.ReplaceAll(s, ":", ".") + ".svc.cluster.local:8000" })},
		{name: "a dead neighbour", named: "zz:1", change: func(p []page, _ time.Duration) []page { return beside(p, "zz:1", func(int) []byte { return nil }) }},
		{name: "an unjudgeable neighbour", named: "aa:1", change: func(p []page, _ time.Duration) []page {
			return beside(p, "aa:1", func(int) []byte { return []byte(processOnly) })
		}},
		{name: "an idle neighbour of another model", change: func(p []page, _ time.Duration) []page {
			return beside(p, "aa:2", func(int) []byte { return []byte(idleServer) })
		}},
		{name: "doubled scrapes", change: again(func(pg *page) { pg.at = pg.at.Add(30 * time.Millisecond) })},
		{name: "lost scrapes", change: func(p []page, _ time.Duration) []page {
			var out []page
			for i, pg := range p {
				if i%7 != 3 {
					out = append(out, pg)
				}
			}
			return out
		}},
		{name: "jittered times", change: func(p []page, step time.Duration) []page {
			random := rand.New(rand.NewPCG(1, 2))
			return each(func(_ int, pg *page) {
				pg.at = pg.at.Add(time.Duration((random.Float64() - 0.5) * 0.2 * float64(step)))
			})(p, step)
		}},
		{name: "a clock that is seven hours late", change: moved(-7 * time.Hour), shift: -7 * time.Hour},
		{name: "a clock that is seven hours early", change: moved(7 * time.Hour), shift: 7 * time.Hour},
		{name: "the same target twice, by another name", change: again(func(pg *page) { pg.target.Instance = "again-" + pg.target.Instance })},
		{name: "the same target twice, in two jobs", change: again(func(pg *page) { pg.target.Job = "service"; pg.at = pg.at.Add(700 * time.Millisecond) })},
		{name: "a pair of Prometheus servers", change: func(p []page, step time.Duration) []page {
			one := each(func(_ int, pg *page) { pg.target.Labels = map[string]string{"prometheus_replica": "a"} })
			out := one(p, step)
			for _, pg := range p {
				pg.target.Labels, pg.at = map[string]string{"prometheus_replica": "b"}, pg.at.Add(step/2)
				out = append(out, pg)
			}
			return out
		}},
		{name: "a pair of Prometheus servers whose clocks are 90 s apart", change: pair(func(pg *page, _ time.Time) bool {
			pg.at = pg.at.Add(90 * time.Second)
			return true
		})},
		{name: "a pair of Prometheus servers, one of which lags by 90 s", change: pair(func(pg *page, last time.Time) bool {
			return pg.at.Before(last.Add(-90 * time.Second))
		})},
		{name: "pods without an instance", change: each(func(_ int, pg *page) {
			pg.target = embedded.Target{Labels: map[string]string{"pod": "vllm-" + pg.target.Instance}}
		})},
		{name: "federated", change: each(func(_ int, pg *page) {
			pg.target = embedded.Target{Instance: "prometheus:9090", Job: "federate",
				Labels: map[string]string{"exported_instance": pg.target.Instance, "exported_job": "vllm"}}
		})},
	}
}

// TestCompany changes recordings without changing their fault. The verdict must stay, whatever is beside the sick
// server and however it is scraped.
func TestCompany(t *testing.T) {
	const step = 5 * time.Second
	for _, name := range []string{"thrashing-deep", "replica-imbalance", "http-errors-5xx", "engine-hung",
		"saturation-long-prompts", "slow-decode-throttled", "straggler", "one-replica-down"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(recordings, name+".tar.zst")
			var truth played
			truth.readTruth(t, file)
			last := len(truth.truth.Phases) - 1
			end, want := time.UnixMilli(truth.truth.Phases[last].ToMS), truth.truth.accepted(last)
			pages := pagesOf(t, file, step, 0)
			before := playPages(t, name, slices.Clone(pages), step).diagnose(t, end)
			if !slices.Contains(want, before.Verdict.ID) {
				t.Fatalf("unchanged: %s, want %v", before.Verdict.ID, want)
			}
			well, _ := modelled(t, "higher-rate", "another", "aa-", 0, end, step)
			healthy := mutation{name: "a healthy neighbour of another model",
				change: func(p []page, _ time.Duration) []page { return append(p, well...) }}
			phase := mutation{name: "another phase of the grid",
				change: func([]page, time.Duration) []page { return pagesOf(t, file, step, step/2) }}
			for _, m := range append(mutations(), healthy, phase) {
				d := playPages(t, name, m.change(slices.Clone(pages), step), step).diagnose(t, end.Add(m.shift))
				if !slices.Contains(want, d.Verdict.ID) {
					t.Errorf("%s: %s (%.2f), want %v: %s", m.name, d.Verdict.ID, d.Verdict.Confidence, want,
						d.Verdict.Summary)
					for _, f := range d.Findings {
						if f.Status >= diagnose.Pending {
							t.Logf("%s %s on %v: %s", f.Pathology.ID, f.Status, f.Targets, explain(d, f))
						}
					}
				}
				if got, want := len(d.Verdict.Targets), len(before.Verdict.Targets); m.named == "" && got != want &&
					d.Verdict.ID == before.Verdict.ID {
					t.Errorf("%s: the verdict is about %v, want as many as %v", m.name, d.Verdict.Targets,
						before.Verdict.Targets)
				}
				if was, is := requests(before), requests(d); before.Verdict.ID == d.Verdict.ID &&
					(is > 1.3*was || was > 1.3*is) {
					t.Errorf("%s: %.2f requests a second, and %.2f unchanged: %v", m.name, is, was, d.Verdict.Targets)
				}
				if m.named != "" && !namesDeadOrUnjudged(d, m.named) {
					t.Errorf("%s: %s is not named as such", m.name, m.named)
				}
				if n := servers(d) - servers(before); m.named == "" && n != 0 &&
					!strings.Contains(m.name, "neighbour") {
					t.Errorf("%s: %d more servers than there are", m.name, n)
				}
			}
		})
	}
}

// requests returns the request rate of the verdict's target.
func requests(d diagnose.Diagnosis) float64 {
	for _, f := range d.Verdict.Workload.Factors {
		if f.Name == "request_rate" {
			return f.Value
		}
	}
	return 0
}

func servers(d diagnose.Diagnosis) (n int) {
	for i := range d.Targets {
		if d.Targets[i].Problem == "" {
			n++
		}
	}
	return n
}

func namesDeadOrUnjudged(d diagnose.Diagnosis, target string) bool {
	if slices.ContainsFunc(d.Unjudged, func(u diagnose.Unjudged) bool { return u.Target == target && u.Reason != "" }) {
		return true
	}
	return slices.ContainsFunc(d.Findings, func(f diagnose.Finding) bool {
		return f.Pathology.ID == "target-down" && f.Status == diagnose.Firing && slices.Contains(f.Targets, target)
	})
}

// modelled reads a recording with another model's name and a prefix before its targets' names. It ends with the given
// phase, the last one if negative, at the given time.
func modelled(t *testing.T, name, model, prefix string, phase int, end time.Time, step time.Duration) (pages []page, want []string) {
	t.Helper()
	file := filepath.Join(recordings, name+".tar.zst")
	var truth played
	truth.readTruth(t, file)
	if phase < 0 {
		phase = len(truth.truth.Phases) - 1
	}
	last := time.UnixMilli(truth.truth.Phases[phase].ToMS)
	for _, pg := range pagesOf(t, file, step, 0) {
		if pg.at.After(last) {
			continue
		}
		pg.at, pg.target.Instance = pg.at.Add(end.Sub(last)), prefix+pg.target.Instance
		pg.body = modelName.ReplaceAll(pg.body, []byte(`model_name="`+model+`"`))
		pages = append(pages, pg)
	}
	return pages, truth.truth.accepted(phase)
}

var modelName = regexp.MustCompile(`model_name="[^"]*"`)

var births = regexp.MustCompile(`(?m)^(\S+_created(?:\{[^}]*\})?|process_start_time_seconds) \S+$`)

// TestSeveralModels diagnoses five models at once: two with different faults, a healthy one, a dead one, and one that
// cannot be judged.
func TestSeveralModels(t *testing.T) {
	const step = 5 * time.Second
	end := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	thrash, wantA := modelled(t, "thrashing-deep", "llama", "a-", -1, end, step)
	errors, wantB := modelled(t, "http-errors-5xx", "mistral", "b-", -1, end, step)
	well, _ := modelled(t, "http-errors-5xx", "qwen", "c-", 0, end, step)
	var order []string
	for _, swap := range []bool{false, true} {
		all := slices.Concat(slices.Clone(thrash), errors, well)
		all = beside(all, "zz-dead:1", func(int) []byte { return nil })
		all = beside(all, "zz-mute:1", func(int) []byte { return []byte(processOnly) })
		if swap {
			for i := range all {
				other := strings.NewReplacer("a-", "y-", "b-", "x-", "c-", "0-")
				all[i].target.Instance = other.Replace(all[i].target.Instance)
			}
		}
		d := playPages(t, "models", all, step).diagnose(t, end)
		of := map[string]diagnose.Verdict{}
		var models []string
		for _, v := range d.Verdicts {
			of[v.Model] = v
			models = append(models, v.Model)
		}
		if order == nil {
			order = models
		} else if !slices.Equal(models, order) {
			t.Errorf("the order of the models is %q, and %q with other names of the targets", models, order)
		}
		if got := of["llama"].ID; !slices.Contains(wantA, got) {
			t.Errorf("llama: %s, want %v", got, wantA)
		}
		if got := of["mistral"].ID; !slices.Contains(wantB, got) {
			t.Errorf("mistral: %s, want %v", got, wantB)
		}
		if got := of["qwen"]; got.Status != diagnose.OK {
			t.Errorf("qwen: %s: %s", got.ID, got.Summary)
		}
		if got := of[""]; got.ID != diagnose.InsufficientData ||
			!strings.Contains(got.Summary, "zz-dead:1: it is starting, and has never answered") {
			t.Errorf("what has no model: %s on %v: %s", got.ID, got.Targets, got.Summary)
		}
		if !namesDeadOrUnjudged(d, "zz-mute:1") {
			t.Errorf("the mute target is not named: %v", d.Unjudged)
		}
		if !reflect.DeepEqual(d.Verdict, d.Verdicts[0]) || d.Verdict.Model == "" {
			t.Errorf("the verdict is %s on %q, and the worst %s on %q", d.Verdict.ID, d.Verdict.Model, d.Verdicts[0].ID,
				d.Verdicts[0].Model)
		}
		for _, v := range d.Verdicts {
			if v.Status == diagnose.Firing && v.Model != "" && v.Workload.Target != v.Targets[0] {
				t.Errorf("%s: the workload is that of %q, the verdict is about %v", v.Model, v.Workload.Target,
					v.Targets)
			}
		}
		once := map[string]bool{}
		for _, f := range d.Findings {
			if k := f.Model + "/" + f.Pathology.ID; once[k] {
				t.Errorf("%s is there twice", k)
			} else {
				once[k] = true
			}
		}
	}
}

// TestHealthyNeedsMostTargets diagnoses healthy servers beside others that cannot be judged.
func TestHealthyNeedsMostTargets(t *testing.T) {
	const step = 5 * time.Second
	end := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		well, mute int
		want       string
		atMost     float64
	}{
		{1, 0, diagnose.Healthy, 1}, {3, 1, diagnose.Healthy, 0.79}, {1, 1, diagnose.Healthy, 0.59}, {1, 9, diagnose.InsufficientData, 0},
	} {
		var all []page
		for i := range tt.well {
			pages, _ := modelled(t, "higher-rate", "qwen", fmt.Sprint("w", i, "-"), 0, end, step)
			for _, pg := range pages { // a process of its own, with its own start time
				pg.body = births.ReplaceAll(pg.body, fmt.Appendf(nil, "${1} %d.5", 1_750_000_000+i))
				all = append(all, pg)
			}
		}
		for i := range tt.mute {
			all = beside(all, fmt.Sprint("mute-", i), func(int) []byte { return []byte(processOnly) })
		}
		d := playPages(t, "mute", all, step).diagnose(t, end)
		if d.Verdict.ID != tt.want || d.Verdict.Confidence > tt.atMost {
			t.Errorf("%d of %d: %s (%.2f), want %s (%.2f at most): %s", tt.well, tt.well+tt.mute, d.Verdict.ID,
				d.Verdict.Confidence, tt.want, tt.atMost, d.Verdict.Summary)
		}
		if len(d.Unjudged) != tt.mute || tt.mute > 0 && !strings.Contains(d.Verdict.Summary, "only process metrics") {
			t.Errorf("%d of %d: not judged %v: %s", tt.well, tt.well+tt.mute, d.Unjudged, d.Verdict.Summary)
		}
	}
}

// TestBrokenObjective sets objectives that are missed while no cause is found: the missed objective must be the
// verdict.
func TestBrokenObjective(t *testing.T) {
	const step = 5 * time.Second
	end := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	pages, _ := modelled(t, "higher-rate", "qwen", "", -1, end, step)
	p := playPages(t, "objective", pages, step)
	for _, tt := range []struct {
		name string
		set  diagnose.Settings
		want string
	}{
		{"no objective", diagnose.Settings{}, diagnose.NotFound},
		{"met", diagnose.Settings{Set: map[string]float64{"ttft_objective": 5}}, diagnose.NotFound},
		{"missed, set by hand", diagnose.Settings{Set: map[string]float64{"ttft_objective": 0.005}}, "unexplained"},
		{"missed, from a file", diagnose.Settings{Objectives: &slo.File{Objectives: []slo.Objective{{TTFTP95: 5 * time.Millisecond}}}}, "unexplained"},
		{"of another model", diagnose.Settings{Objectives: &slo.File{Objectives: []slo.Objective{{Model: "llama", TTFTP95: 5 * time.Millisecond}}}}, diagnose.NotFound},
	} {
		// Without the pathologies that explain latency: with such an objective one of them would be found.
		tt.set.Only = []string{"http-errors", "memory-leak", "target-down", "unexplained"}
		var few []*catalog.Pathology
		for _, p := range pathologies.All() {
			if slices.Contains(tt.set.Only, p.ID) {
				few = append(few, p)
			}
		}
		d := run(t, p.store, diagnose.Options{At: end, First: p.first, Interval: step, Every: true, Pathologies: few,
			Settings: tt.set})
		if d.Verdict.ID != tt.want {
			t.Errorf("%s: %s (%.2f), want %s: %s", tt.name, d.Verdict.ID, d.Verdict.Confidence, tt.want,
				d.Verdict.Summary)
		}
		if tt.want != "unexplained" {
			for _, v := range append(d.Verdicts, d.Verdict) {
				if want := "http-errors, memory-leak, target-down, unexplained; nothing else was looked for"; v.ID != tt.want || !strings.HasPrefix(v.Summary, want) {
					t.Errorf("%s: %s: %q, want %q", tt.name, v.ID, v.Summary, want)
				}
			}
			continue
		}
		f := d.Findings[0]
		if d.Status != diagnose.Firing || d.Verdict.Severity != catalog.Page || f.Pathology.ID != tt.want ||
			len(f.Evidence) == 0 || len(f.Reasons) == 0 || d.Verdict.Since.IsZero() ||
			!strings.Contains(d.Verdict.Summary, "over the objective of 5 ms") ||
			strings.Contains(d.Verdict.Summary, "Nothing is wrong") {
			t.Errorf("%s: %+v", tt.name, d.Verdict)
		}
	}
}

// TestProcessesBehindOneAddress plays two replicas behind one address, either of which may answer a scrape.
func TestProcessesBehindOneAddress(t *testing.T) {
	for name, other := range map[string]func(i int) bool{
		"in turn":                    func(i int) bool { return i%2 == 1 },
		"by lot":                     func(i int) bool { return (i*i/3+i/7)%2 == 1 },
		"in pairs":                   func(i int) bool { return i/2%2 == 1 },
		"in turn, of no known birth": func(i int) bool { return i%2 == 1 },
	} {
		for _, step := range []time.Duration{time.Second, 5 * time.Second, 15 * time.Second} {
			pages := map[string][]page{}
			for _, pg := range pagesOf(t, filepath.Join(recordings, "replica-imbalance.tar.zst"), step, 0) {
				pages[pg.target.Instance] = append(pages[pg.target.Instance], pg)
			}
			var all []page
			replicas := slices.Sorted(maps.Keys(pages))
			for i := range pages[replicas[0]] {
				pg := pages[replicas[0]][i]
				if other(i) && i < len(pages[replicas[1]]) {
					pg.body = pages[replicas[1]][i].body
				}
				if strings.Contains(name, "no known birth") {
					pg.body = births.ReplaceAll(pg.body, nil)
				}
				pg.target.Instance = "vllm.svc:8000"
				all = append(all, pg)
			}
			end := all[len(all)-1].at
			d := playPages(t, name, all, step).diagnose(t, end)
			if d.Verdict.ID != diagnose.InsufficientData ||
				!strings.Contains(d.Verdict.Summary, "scrape each pod or port separately") {
				t.Errorf("%s, every %s: %s: %s", name, step, d.Verdict.ID, d.Verdict.Summary)
			}
			// When both are gone, the target is down all the same.
			for i := range 9 {
				all = append(all, page{target: all[0].target,
					at: end.Add(time.Duration(i+1) * max(step, 10*time.Second))})
			}
			if d := playPages(t, name, all, step).diagnose(t, all[len(all)-1].at); d.Verdict.ID != "target-down" {
				t.Errorf("%s, every %s, gone: %s: %s", name, step, d.Verdict.ID, d.Verdict.Summary)
			}
		}
	}
}

// TestAWindowLongerThanTheServersLife holds that replicas are compared over their lifetime: over a window of years all
// rates would be 0, and a queue that grows by one would be most of the traffic.
func TestAWindowLongerThanTheServersLife(t *testing.T) {
	var pages []page
	for i := range 130 {
		for _, instance := range []string{"a", "b", "c", "d", "e", "f"} {
			waits := 0
			if instance == "a" {
				waits = i / 30
			}
			body := fmt.Sprintf(`vllm:num_requests_running{model_name="m",engine="0"} 1
vllm:num_requests_waiting{model_name="m",engine="0"} %d
vllm:num_preemptions_total{model_name="m",engine="0"} 0
vllm:generation_tokens_total{model_name="m",engine="0"} %d
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="0.1"} %d
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="+Inf"} %[3]d
vllm:time_to_first_token_seconds_sum{model_name="m",engine="0"} %[3]d
vllm:time_to_first_token_seconds_count{model_name="m",engine="0"} %[3]d
`, waits, 3000*i, 60*i)
			pages = append(pages, page{embedded.Target{Instance: instance},
				time.Unix(1_800_000_000, 0).Add(time.Duration(i) * time.Minute), []byte(body)})
		}
	}
	p := playPages(t, "six replicas", pages, time.Minute)
	d := run(t, p.store, diagnose.Options{At: pages[len(pages)-1].at, First: p.first, Interval: time.Minute,
		Window: 99999 * time.Hour, Every: true})
	for _, f := range d.Findings {
		if f.Status == diagnose.Firing && f.Pathology.ID == "replica-imbalance" {
			t.Errorf("%s", f.Summary)
		}
	}
}
