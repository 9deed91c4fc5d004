//go:build e2e

package serve_test

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// The size of TestShards.
const (
	storedFor  = 20 * time.Minute // the history before the first query of a shard
	sickFor    = 5 * time.Minute
	toCome     = 25 * time.Minute      // the time of the test, whose samples are written beforehand
	perReplica = 60 * time.Millisecond // to write the samples of one replica, roughly
	shifts     = 16                    // the largest distance of a model's replicas, in scrapes
)

// sizes returns the numbers of replicas of the models: from one of 2,000 to many of 54.
func sizes() []int {
	out := slices.Concat([]int{2000}, slices.Repeat([]int{500}, 4), slices.Repeat([]int{250}, 10),
		slices.Repeat([]int{130}, 14), slices.Repeat([]int{54}, 30))
	out = append(out, 60)
	if less, err := strconv.Atoi(os.Getenv("SIXTY_LESS")); err == nil { // a part of them, for a trial
		for i := range out {
			out[i] = max(2, out[i]/less)
		}
	}
	return out
}

// sick has the faults of the models that have one. In the largest model one replica is dead.
var sick = map[int]string{0: "target-down", 7: "slow-decode", 22: "kv-cache-thrashing", 41: "engine-hung",
	57: "saturation"}

// unread matches series that no signal reads. metric_relabel_configs would drop them.
var unread = regexp.MustCompile("^(vllm:(request_(decode|inference|prefill)_time_seconds|iteration_tokens_total|request_max_num_generation_tokens|request_params_.+|request_prefill_kv_computed_tokens)_bucket|" +
	"vllm:(mm_cache|estimated|engine_sleep).+|http_.+(_bucket|_sum|_count)|python_gc.+|process_max_fds|process_virtual_memory_bytes|.+_created)$")

// A scaled is one replica of many. It shows the pages of an imitated server, some scrapes later.
type scaled struct {
	number, model, shift int
	labels               string // of the target, as JSON
	of                   *history
	died                 int // the page from which on it does not answer
}

// value returns a sample, with the replica's own part of counters.
func (r *scaled) value(series, page int) float64 {
	return r.of.values[series][page+r.shift] + ownPart(r.of.labels[series].Get(labels.MetricName), r.number)
}

// played returns the pages of a scenario's servers: healthy for a while, then with the fault.
func played(t *testing.T, name string, healthy, all time.Duration) []*history {
	t.Helper()
	sc, err := fleet.FindScenario(pathologies.All(), name)
	must.Succeed(t, err)
	sc.Interval = scraped
	sc.Phases[0].For = healthy
	if len(sc.Phases) > 1 {
		sc.Phases[len(sc.Phases)-1].For = all - healthy
	} else {
		sc.Replicas = imitated
		sc.Phases[0].Traffic.Rate *= imitated
		sc.Phases[0].For = all
	}
	sc.Phases = sc.Phases[:min(2, len(sc.Phases))]
	out := map[string]*history{}
	err = fleet.Play(t.Context(), sc, fleet.DefaultRelease, 1, time.Now().Add(-storedFor), func(s fleet.Scrape) error {
		if s.Target == fleet.ExporterTarget || s.Body == nil {
			return nil
		}
		if out[s.Target] == nil {
			out[s.Target] = &history{index: map[string]int{}}
		}
		out[s.Target].add(t, s.Body, "text/plain")
		return nil
	}, nil)
	must.Succeed(t, err)
	var hs []*history
	for _, k := range slices.Sorted(maps.Keys(out)) {
		hs = append(hs, out[k])
	}
	return hs
}

// population returns the replicas. Each model has a job of its own, or all have one.
func population(t *testing.T, pages int, oneJob bool) (out []*scaled) {
	t.Helper()
	imitate := map[string][]*history{"": played(t, "healthy", storedFor, time.Duration(pages+shifts+1)*scraped)}
	for _, fault := range sick {
		if fault != "target-down" {
			imitate[fault] = played(t, fault, storedFor-sickFor, time.Duration(pages+1)*scraped)
		}
	}
	for m, size := range sizes() {
		for i := range size {
			r := &scaled{number: len(out) + 1, model: m, died: pages}
			switch fault := sick[m]; {
			case fault == "target-down":
				if i == 1 {
					r.died = int((storedFor - sickFor) / scraped)
				}
				fallthrough
			case fault == "":
				r.of, r.shift = imitate[""][i%imitated], i/imitated%shifts
			default:
				r.of = imitate[fault][i%len(imitate[fault])]
			}
			job := fmt.Sprintf("vllm-%02d", m)
			if oneJob {
				job = "vllm"
			}
			r.labels = fmt.Sprintf(`,"cluster":"c%d","namespace":"inference","job":%q,"instance":"10.%d.%d.%d:8000"`, m%5, job, m, i/250, i%250+1)
			out = append(out, r)
		}
	}
	return out
}

// A feed writes the replicas' samples into a VictoriaMetrics.
type feed struct {
	t        *testing.T
	url      string
	replicas []*scaled
	began    time.Time
	series   int
}

// write sends a range of pages as lines of JSON, one for each series.
func (f *feed) write(from, to int) {
	f.t.Helper()
	pipe, w := io.Pipe()
	go func() {
		b := bufio.NewWriterSize(w, 1<<20)
		f.lines(b, from, to)
		_ = b.Flush()
		_ = w.Close()
	}()
	res, err := http.Post(f.url+"/api/v1/import", "application/json", pipe)
	if err != nil {
		f.t.Error(err)
		return
	}
	res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		f.t.Errorf("import: %s", res.Status)
	}
}

func (f *feed) lines(b *bufio.Writer, from, to int) {
	type cached struct {
		of            *history
		series, shift int
	}
	values := map[cached][]byte{} // of series that are the same for replicas
	heads := map[*history][]string{}
	f.series = 0
	var line []byte
	for _, r := range f.replicas {
		if heads[r.of] == nil {
			for _, l := range r.of.labels {
				head := ""
				if !unread.MatchString(l.Get(labels.MetricName)) ||
					l.Get(labels.MetricName) == "vllm:generation_tokens_created" {
					l.Range(func(p labels.Label) {
						v := p.Value
						if p.Name == "model_name" {
							v = "MODEL"
						}
						head += fmt.Sprintf(",%q:%q", p.Name, v)
					})
				}
				heads[r.of] = append(heads[r.of], head)
			}
		}
		at := f.began.Add(time.Duration(r.number%100) * scraped / 100).UnixMilli()
		times := func(b []byte, to int) []byte {
			b = append(b, `],"timestamps":[`...)
			for p := from; p < to; p++ {
				b = append(strconv.AppendInt(b, at+int64(p)*scraped.Milliseconds(), 10), ',')
			}
			return append(b[:len(b)-1], "]}\n"...)
		}
		end := min(to, r.died)
		stamps, model := times(nil, end), fmt.Sprintf("model-%02d", r.model)
		line = append(append(append(line[:0], `{"metric":{"__name__":"up"`...), r.labels...), `},"values":[`...)
		for p := from; p < to; p++ {
			line = append(line, '0'+byte(boolToInt(p < r.died)), ',')
		}
		_, _ = b.Write(times(line[:len(line)-1], to))
		f.series++
		if end <= from {
			continue
		}
		for i, head := range heads[r.of] {
			if head == "" {
				continue
			}
			name := r.of.labels[i].Get(labels.MetricName)
			own := ownPart(name, 1) != 0
			text := values[cached{r.of, i, r.shift}]
			if own || text == nil || end != to {
				text = nil
				for p := from; p < end; p++ {
					if v := r.value(i, p); math.IsNaN(v) || math.IsInf(v, 0) {
						text = append(text, "null,"...)
					} else {
						text = append(strconv.AppendFloat(text, v, 'g', -1, 64), ',')
					}
				}
				text = text[:len(text)-1]
				if !own && end == to {
					values[cached{r.of, i, r.shift}] = text
				}
			}
			line = append(append(line[:0], `{"metric":{`...), strings.Replace(head, "MODEL", model, 1)[1:]...)
			line = append(append(append(line, r.labels...), `},"values":[`...), text...)
			line = append(line, stamps...)
			_, _ = b.Write(line)
			f.series++
		}
	}
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestShards judges 10,000 replicas of 60 models in a VictoriaMetrics, in ten shards: all at once, or some.
func TestShards(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("SIXTY_ROUNDS"))
	if err != nil {
		t.Skip("SIXTY_ROUNDS is not the number of evaluations of each shard: it takes 25 minutes and 15 GB of memory")
	}
	const shards = 10
	which := os.Getenv("SIXTY_SHARDS") // such as 1,4; empty: all
	every := cmp.Or(os.Getenv("SIXTY_EVERY"), "15s")
	store := tool(t, "SIXTY_VICTORIA", "victoria-metrics", "the package victoria-metrics of Debian")
	pages := int((storedFor + toCome) / scraped)
	f := &feed{t: t, replicas: population(t, pages, os.Getenv("SIXTY_ONE_JOB") != "")}
	addr := port(t)
	vm := launch(t, "http://"+addr, "/health", store, "-storageDataPath="+t.TempDir(), "-httpListenAddr="+addr,
		"-retentionPeriod=1d",
		"-memory.allowedBytes=2GB", "-search.maxQueryLen=1MB", "-search.maxUniqueTimeseries=600000", "-search.disableCache", "-search.maxQueueDuration=30s", "-loggerLevel=ERROR")
	wrote := time.Now()
	// Writing takes so long that the first samples are old when it is done.
	f.url, f.began = vm.url, wrote.Add(time.Duration(len(f.replicas))*perReplica-storedFor)
	f.write(0, pages)
	t.Logf("RESULT %d replicas, %d series, %d scrapes each written in %s; the store has %.0f MB in memory; at %s",
		len(f.replicas), f.series, pages, time.Since(wrote).Round(time.Second),
		metric(vm.url, "process_resident_memory_bytes ")/1e6, vm.url)
	<-time.After(max(15*time.Second, time.Until(f.began.Add(storedFor)))) // and until the store's index has all series
	if hold, err := time.ParseDuration(os.Getenv("SIXTY_HOLD")); err == nil {
		<-time.After(hold)
		return
	}
	t.Setenv("GOMAXPROCS", "1")
	found := map[string]string{}
	var all []*judging
	for n := 1; n <= shards; n++ {
		if which != "" && !slices.Contains(strings.Split(which, ","), strconv.Itoa(n)) {
			continue
		}
		s := sixtyServe(t, "--prometheus", vm.url, "--data", t.TempDir(), "--shard", fmt.Sprintf("%d/%d", n, shards),
			"--evaluation-interval", every)
		all = append(all, &judging{monitored: s, name: fmt.Sprintf("shard %d", n), vm: vm})
	}
	for range rounds {
		for _, j := range all {
			j.next(found)
		}
	}
	replicas := 0
	for _, j := range all {
		replicas += j.replicas
		if j.replicas == 0 {
			t.Errorf("%s judged nothing", j.name)
		}
	}
	for m := range sizes() {
		name, fault := fmt.Sprintf("model-%02d", m), sick[m]
		if got, judged := found[name]; (judged || which == "") && got != fault {
			t.Errorf("%s: found %q, want %q", name, got, fault)
		}
	}
	if which == "" && replicas != len(f.replicas) {
		t.Errorf("%d replicas are judged, want %d", replicas, len(f.replicas))
	}
}

// A judging is one running shard.
type judging struct {
	*monitored
	name     string
	vm       *program
	last     float64    // the number of evaluations at the last look
	was      [4]float64 // counters at the last look
	replicas int
}

func (j *judging) counters() [4]float64 {
	return [4]float64{
		metric(j.url, "process_cpu_seconds_total "), metric(j.vm.url, "process_cpu_seconds_total "),
		metric(j.vm.url, `vm_http_requests_total{path="/api/v1/query`), metric(j.vm.url, "vm_rows_read_per_query_sum "),
	}
}

// next waits for another evaluation, and returns its cost. The store's cost is that of all running shards.
func (j *judging) next(found map[string]string) {
	j.until(10*time.Minute, "another evaluation",
		func() bool { return metric(j.url, "sixty_evaluation_duration_seconds_count ") > j.last })
	o, now := j.overview(), j.counters()
	j.last, j.replicas = metric(j.url, "sixty_evaluation_duration_seconds_count "), 0
	var ill []string
	for _, m := range o.Models {
		j.replicas += len(m.Replicas)
		found[m.Model] = m.Verdict.ID
		if m.Verdict.Status == view.Healthy {
			found[m.Model] = ""
		} else {
			ill = append(ill, m.Model+" "+m.Verdict.ID)
		}
	}
	j.t.Logf("RESULT %s in %.2f s: %.2f s of sixty's CPU, %.0f MB; %.2f s of the store's, %.0f queries, %.2f million samples; state %s, %d models, %d replicas, not healthy: %v %.300q",
		j.name, o.EvaluatedS, now[0]-j.was[0], metric(j.url, "process_resident_memory_bytes ")/1e6,
		now[1]-j.was[1], now[2]-j.was[2], (now[3]-j.was[3])/1e6, o.State, len(o.Models), j.replicas, ill, o.Problems)
	j.was = now
}
