package pathologies_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/slo"
)

// TestCases diagnoses, for every pathology, three small files under its
// testdata: fires.txt is the pathology, and must be the verdict; nearmiss.txt
// looks much like it and is not; nodata.txt lacks what is needed to tell, and
// must never pass for healthy.
//
// A file starts with comments that say why. Then come lines of these forms;
// what is counted in scrapes begins with 0:
//
//	every 1s for 120s            the interval and the length: 120 scrapes
//	at 150s                      when the diagnosis is made; after the last scrape unless given
//	like healthy [instance="b"]  begin with the server below; lines of this file replace its series
//	like fires                   begin with that file, its interval included
//	without REGEXP               leave out inherited families
//	SERIES 2x59 8x59             promqltest's notation: 60 samples of 2, 60 of 8; _ is missing
//	rate SERIES 100x60,50        a counter that grows by 100/s for 60 scrapes, then by 50/s
//	hist SERIES mean=0.05x60,0.8 rate=2 [sigma=0.5]
//	                             a histogram in vLLM's buckets, observations lognormal about the mean
//	down 60 20                   scrapes 60 to 79 fail
//	restart 60 10                they fail likewise, and counters begin again with 0
//	promise itl_p95=100ms        an objective, by the names of package slo
//	verdict: other-id            in a comment of fires.txt: another pathology leads, and why
//
// Several rate or hist lines of one series add up. The label instance, which is
// a:8000 unless given, says which target exposes a series; down and restart
// take it as a last word.
func TestCases(t *testing.T) {
	for _, p := range pathologies.All() {
		dir := strings.ReplaceAll(p.ID, "-", "") + "/testdata"
		t.Run(p.ID, func(t *testing.T) {
			t.Run("fires on the sick server", func(t *testing.T) {
				t.Parallel()
				c, d, f := diagnoseCase(t, dir, "fires", p)
				want := p.ID
				if c.verdict != "" {
					want = c.verdict
				}
				if f.Status != diagnose.Firing || d.Verdict.ID != want {
					t.Errorf("status %s, verdict %s; want firing, %s\n%s", f.Status, d.Verdict.ID, want, explain(d, f))
				}
			})
			t.Run("is ruled out on the one that comes near", func(t *testing.T) {
				t.Parallel()
				_, d, f := diagnoseCase(t, dir, "nearmiss", p)
				if f.Status != diagnose.OK {
					t.Errorf("status %s, want ok\n%s", f.Status, explain(d, f))
				}
			})
			t.Run("is unknown without the data", func(t *testing.T) {
				t.Parallel()
				_, d, f := diagnoseCase(t, dir, "nodata", p)
				if f.Status != diagnose.Unknown {
					t.Errorf("status %s, want unknown\n%s", f.Status, explain(d, f))
				}
				gap := func(g diagnose.Gap) bool { return g.ID == p.ID && len(g.Missing) > 0 }
				if !slices.ContainsFunc(d.Coverage, gap) {
					t.Errorf("no coverage gap says what is missing: %+v", d.Coverage)
				}
			})
		})
	}
}

// The server that the cases begin with is itself no case of anything.
func TestHealthyServerIsHealthy(t *testing.T) {
	c := newScenario(os.DirFS("."))
	if err := c.read("every 1s for 120s\nlike healthy\n"); err != nil {
		t.Fatal(err)
	}
	d := c.diagnose(t)
	if d.Verdict.ID != diagnose.Healthy {
		t.Errorf("verdict %s: %s", d.Verdict.ID, d.Verdict.Summary)
	}
	for _, f := range d.Findings {
		if f.Status == diagnose.Firing || f.Status == diagnose.Pending {
			t.Errorf("%s %s\n%s", f.Pathology.ID, f.Status, explain(d, f))
		}
	}
}

func diagnoseCase(t *testing.T, dir, name string, p *catalog.Pathology) (*scenario, diagnose.Diagnosis, diagnose.Finding) {
	t.Helper()
	c := newScenario(os.DirFS(dir))
	text, err := fs.ReadFile(c.files, name+".txt")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(text, []byte("# ")) {
		t.Errorf("%s: begin with a comment that says why", path.Join(dir, name+".txt"))
	}
	if err := c.read(string(text)); err != nil {
		t.Fatalf("%s: %v", path.Join(dir, name+".txt"), err)
	}
	d := c.diagnose(t)
	i := slices.IndexFunc(d.Findings, func(f diagnose.Finding) bool { return f.Pathology == p })
	if i < 0 {
		t.Fatalf("no finding of %s", p.ID)
	}
	return c, d, d.Findings[i]
}

var truths = map[catalog.Truth]string{catalog.Unknown: "unknown", catalog.False: "false", catalog.True: "true"}

// explain prints what a diagnosis rests on.
func explain(d diagnose.Diagnosis, f diagnose.Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "window %.0f s, baseline %.0f s (%v), inhibited by %q\n", d.Window.Length().Seconds(), d.Baseline.Length().Seconds(), d.Source, f.InhibitedBy)
	for _, e := range f.Evidence {
		fmt.Fprintf(&b, "  %s = %.4g (baseline %.4g) %v %s %.4g (%s): %v %s\n", e.Signal.Name, e.Value.V, e.Baseline.V, e.Op, e.Name, e.Threshold, e.Source, truths[e.Holds], e.Value.Reason)
	}
	for _, g := range d.Findings {
		if g.Status == diagnose.Firing {
			fmt.Fprintf(&b, "  firing: %s on %v, inhibited by %q\n", g.Pathology.ID, g.Targets, g.InhibitedBy)
		}
	}
	return b.String()
}

// healthyServer is a vLLM 0.32 on one GPU: 2 requests a second of 1000 prompt
// tokens, half of them cached, and 100 output tokens at 20 ms.
const healthyServer = `
vllm:num_requests_running{model_name="m",engine="0"} 4x$
vllm:num_requests_waiting{model_name="m",engine="0"} 0x$
vllm:kv_cache_usage_perc{model_name="m",engine="0"} 0.2x$
vllm:generation_tokens_created{model_name="m",engine="0"} 1794990000x$
process_start_time_seconds 1794989900x$
process_resident_memory_bytes 2e9x$
process_open_fds 60x$
rate vllm:prompt_tokens_total{model_name="m",engine="0"} 2000
rate vllm:generation_tokens_total{model_name="m",engine="0"} 200
rate vllm:prompt_tokens_by_source_total{model_name="m",engine="0",source="local_compute"} 1000
rate vllm:prompt_tokens_by_source_total{model_name="m",engine="0",source="local_cache_hit"} 1000
rate vllm:prefix_cache_queries_total{model_name="m",engine="0"} 2000
rate vllm:prefix_cache_hits_total{model_name="m",engine="0"} 1000
rate vllm:num_preemptions_total{model_name="m",engine="0"} 0
rate vllm:admission_rejections_total{model_name="m",engine="0"} 0
rate vllm:request_success_total{model_name="m",engine="0",finished_reason="stop"} 2
rate vllm:request_success_total{model_name="m",engine="0",finished_reason="length"} 0
rate vllm:request_success_total{model_name="m",engine="0",finished_reason="abort"} 0
rate vllm:request_success_total{model_name="m",engine="0",finished_reason="error"} 0
rate http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 2
hist vllm:time_to_first_token_seconds{model_name="m",engine="0"} mean=0.06 rate=2
hist vllm:inter_token_latency_seconds{model_name="m",engine="0"} mean=0.02 rate=198
hist vllm:request_time_per_output_token_seconds{model_name="m",engine="0"} mean=0.02 rate=2
hist vllm:e2e_request_latency_seconds{model_name="m",engine="0"} mean=2.1 rate=2
hist vllm:request_queue_time_seconds{model_name="m",engine="0"} mean=0.001 rate=2
hist vllm:request_prefill_time_seconds{model_name="m",engine="0"} mean=0.04 rate=2
hist vllm:request_decode_time_seconds{model_name="m",engine="0"} mean=2 rate=2
hist vllm:request_prompt_tokens{model_name="m",engine="0"} mean=1000 rate=2
hist vllm:request_generation_tokens{model_name="m",engine="0"} mean=100 rate=2
hist vllm:request_params_max_tokens{model_name="m",engine="0"} mean=400 rate=2
hist vllm:request_prefill_kv_computed_tokens{model_name="m",engine="0"} mean=500 rate=2
hist vllm:iteration_tokens_total{model_name="m",engine="0"} mean=24 rate=50
`

// Upper bounds of vLLM's buckets (vllm/v1/metrics/loggers.py, v0.23.0).
var (
	latencyBounds = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	ttftBounds    = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	itlBounds     = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	stepBounds    = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	sizeBounds    = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000} // max_model_len 32768
)

func boundsOf(family string) []float64 {
	switch family {
	case "vllm:time_to_first_token_seconds":
		return ttftBounds
	case "vllm:inter_token_latency_seconds", "vllm:request_time_per_output_token_seconds":
		return itlBounds
	case "vllm:iteration_tokens_total":
		return stepBounds
	}
	if strings.HasSuffix(family, "_tokens") {
		return sizeBounds
	}
	return latencyBounds
}

// caseStart is the time of the first scrape.
var caseStart = time.Unix(1_795_000_000, 0).UTC()

const (
	usualInstance = "a:8000"
	maxScrapes    = 10_000
)

// A series is one value for each scrape, NaN where it is missing.
type series struct {
	instance string
	lset     labels.Labels // without instance
	values   []float64
}

// key tells series and histograms of all targets apart.
func (s series) key() string { return s.instance + s.lset.String() }

// A group is what one line of a file declares: a series, or all series of a
// histogram.
type group struct {
	family string
	series []series
}

type outage struct {
	instance       string
	first, scrapes int
	restart        bool
}

// A scenario is a case file, read.
type scenario struct {
	files   fs.FS
	every   time.Duration
	scrapes int
	at      time.Duration
	verdict string
	promise slo.Objective
	groups  map[string]group // by series.key
	outages []outage
}

func newScenario(files fs.FS) *scenario {
	return &scenario{files: files, groups: map[string]group{}}
}

// read adds a file's text to the scenario: what it declares replaces what is
// there already.
func (c *scenario) read(text string) error {
	own := map[string]group{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		if err := c.line(strings.TrimSpace(lines.Text()), own); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	maps.Copy(c.groups, own)
	return lines.Err()
}

func (c *scenario) line(line string, own map[string]group) error {
	words := strings.Fields(line)
	switch {
	case len(words) == 0:
		return nil
	case words[0] == "#":
		if len(words) > 2 && words[1] == "verdict:" {
			c.verdict = words[2]
		}
		return nil
	case words[0] == "every":
		return c.header(words)
	case c.scrapes == 0 && !strings.HasPrefix(line, "like "):
		return fmt.Errorf("%q before the line that says every", line)
	}
	switch words[0] {
	case "at":
		var err error
		c.at, err = time.ParseDuration(strings.Join(words[1:], ""))
		return err
	case "like":
		return c.like(words[1:])
	case "without":
		return c.without(words[1:])
	case "promise":
		return c.promised(words[1:])
	case "down", "restart":
		return c.outage(words)
	case "rate", "hist":
		return c.growth(words, own)
	}
	return c.plain(line, own)
}

func (c *scenario) header(words []string) error {
	if len(words) != 4 || words[2] != "for" {
		return fmt.Errorf("want: every INTERVAL for LENGTH")
	}
	length, err := time.ParseDuration(words[3])
	if err != nil {
		return err
	}
	if c.every, err = time.ParseDuration(words[1]); err != nil {
		return err
	}
	if c.every <= 0 || length/c.every < 1 || length/c.every > maxScrapes {
		return fmt.Errorf("%s every %s is not 1 to %d scrapes", length, c.every, maxScrapes)
	}
	c.scrapes = int(length / c.every)
	return nil
}

func (c *scenario) like(words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("like what?")
	}
	if words[0] != "healthy" {
		text, err := fs.ReadFile(c.files, words[0]+".txt")
		if err != nil {
			return err
		}
		return c.read(string(text))
	}
	if c.scrapes == 0 {
		return fmt.Errorf("like healthy before the line that says every")
	}
	text := strings.ReplaceAll(healthyServer, "$", strconv.Itoa(c.scrapes-1))
	if len(words) > 1 {
		text = strings.ReplaceAll(text, `engine="0"`, `engine="0",`+words[1])
		text = regexp.MustCompile(`(?m)^(process_\w+) `).ReplaceAllString(text, `$1{`+words[1]+`} `)
		text = strings.ReplaceAll(text, `status="2xx"`, `status="2xx",`+words[1])
	}
	return c.read(text)
}

func (c *scenario) without(words []string) error {
	for _, w := range words {
		re, err := regexp.Compile("^(?:" + w + ")$")
		if err != nil {
			return err
		}
		before := len(c.groups)
		maps.DeleteFunc(c.groups, func(_ string, g group) bool { return re.MatchString(g.family) })
		if len(c.groups) == before {
			return fmt.Errorf("nothing inherited is called %s", w)
		}
	}
	return nil
}

func (c *scenario) outage(words []string) error {
	o := outage{instance: usualInstance, restart: words[0] == "restart"}
	if len(words) > 3 {
		o.instance = words[3]
	}
	_, err := fmt.Sscan(strings.Join(words[1:], " "), &o.first, &o.scrapes)
	c.outages = append(c.outages, o)
	return err
}

func (c *scenario) promised(words []string) error {
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		d, err := time.ParseDuration(v)
		if err != nil {
			return err
		}
		switch slo.Key(k) {
		case slo.TTFTP95:
			c.promise.TTFTP95 = d
		case slo.ITLP95:
			c.promise.ITLP95 = d
		case slo.E2EP95:
			c.promise.E2EP95 = d
		default:
			return fmt.Errorf("%q is no objective on a latency", k)
		}
	}
	return nil
}

var notation = parser.NewParser(parser.Options{})

// plain reads a series in promqltest's notation.
func (c *scenario) plain(line string, own map[string]group) error {
	lset, samples, err := notation.ParseSeriesDesc(line)
	if err != nil {
		return err
	}
	values := missing(c.scrapes)
	if len(samples) > c.scrapes {
		return fmt.Errorf("%s has %d samples, and there are %d scrapes", lset, len(samples), c.scrapes)
	}
	for i, s := range samples {
		if !s.Omitted {
			values[i] = s.Value
		}
	}
	one := located(lset, values)
	own[one.key()] = group{lset.Get(labels.MetricName), []series{one}}
	return nil
}

// growth reads a rate or a hist line.
func (c *scenario) growth(words []string, own map[string]group) error {
	if len(words) < 3 {
		return fmt.Errorf("%s wants a series and numbers", words[0])
	}
	lset, err := notation.ParseMetric(words[1])
	if err != nil {
		return err
	}
	args := map[string]string{"sigma": "0.5"}
	if words[0] == "rate" {
		args["rate"] = words[2]
	} else {
		for _, w := range words[2:] {
			k, v, ok := strings.Cut(w, "=")
			if !ok || k != "mean" && k != "rate" && k != "sigma" {
				return fmt.Errorf("%q is not mean=, rate= or sigma=", w)
			}
			args[k] = v
		}
	}
	rates, err := c.schedule(args["rate"])
	if err != nil {
		return err
	}
	g := group{family: lset.Get(labels.MetricName)}
	if words[0] == "rate" {
		g.series = []series{located(lset, c.accumulate(rates, nil))}
	} else {
		means, err := c.schedule(args["mean"])
		if err != nil {
			return err
		}
		sigma, err := strconv.ParseFloat(args["sigma"], 64)
		if err != nil {
			return err
		}
		g.series = c.histogram(lset, rates, means, sigma)
	}
	key := located(lset, nil).key()
	for i, s := range own[key].series {
		for k := range s.values {
			g.series[i].values[k] += s.values[k]
		}
	}
	own[key] = g
	return nil
}

// schedule reads 2x60,8: 2 for sixty scrapes, then 8 until the end.
func (c *scenario) schedule(text string) ([]float64, error) {
	var out []float64
	for _, part := range strings.Split(text, ",") {
		v, times, repeated := strings.Cut(part, "x")
		value, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", text, err)
		}
		n := c.scrapes - len(out)
		if repeated {
			if n, err = strconv.Atoi(times); err != nil {
				return nil, fmt.Errorf("read %q: %w", text, err)
			}
		}
		out = append(out, slices.Repeat([]float64{value}, n)...)
	}
	if len(out) != c.scrapes {
		return nil, fmt.Errorf("%q is for %d scrapes, and there are %d", text, len(out), c.scrapes)
	}
	return out, nil
}

// accumulate returns a counter that grows by rates, each times its factor, per
// second.
func (c *scenario) accumulate(rates []float64, factor func(scrape int) float64) []float64 {
	out := make([]float64, len(rates))
	for i := 1; i < len(rates); i++ {
		f := 1.0
		if factor != nil {
			f = factor(i)
		}
		out[i] = out[i-1] + rates[i]*f*c.every.Seconds()
	}
	return out
}

func (c *scenario) histogram(lset labels.Labels, rates, means []float64, sigma float64) []series {
	name := lset.Get(labels.MetricName)
	part := func(suffix, le string, factor func(int) float64) series {
		b := labels.NewBuilder(lset).Set(labels.MetricName, name+suffix)
		if le != "" {
			b.Set(labels.BucketLabel, le)
		}
		return located(b.Labels(), c.accumulate(rates, factor))
	}
	out := []series{part("_sum", "", func(i int) float64 { return means[i] }), part("_count", "", nil)}
	for _, bound := range boundsOf(name) {
		le := strconv.FormatFloat(bound, 'f', -1, 64)
		if !strings.Contains(le, ".") {
			le += ".0" // as Python prints it
		}
		out = append(out, part("_bucket", le, func(i int) float64 { return lognormal(bound, means[i], sigma) }))
	}
	return append(out, part("_bucket", "+Inf", nil))
}

// lognormal returns the share of observations up to x.
func lognormal(x, mean, sigma float64) float64 {
	mu := math.Log(mean) - sigma*sigma/2
	return 0.5 * math.Erfc(-(math.Log(x)-mu)/(sigma*math.Sqrt2))
}

func located(lset labels.Labels, values []float64) series {
	instance := lset.Get("instance")
	if instance == "" {
		instance = usualInstance
	}
	return series{instance, labels.NewBuilder(lset).Del("instance").Labels(), values}
}

func missing(n int) []float64 { return slices.Repeat([]float64{math.NaN()}, n) }

// diagnose scrapes the scenario into a store and diagnoses it.
func (c *scenario) diagnose(t *testing.T) diagnose.Diagnosis {
	t.Helper()
	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	byInstance := map[string][]series{}
	for _, k := range slices.Sorted(maps.Keys(c.groups)) {
		for _, s := range c.groups[k].series {
			byInstance[s.instance] = append(byInstance[s.instance], s)
		}
	}
	for _, o := range c.outages {
		if o.restart {
			restart(byInstance[o.instance], o.first)
		}
	}
	for i := range c.scrapes {
		at := caseStart.Add(time.Duration(i) * c.every)
		for _, instance := range slices.Sorted(maps.Keys(byInstance)) {
			target := embedded.Target{Instance: instance}
			if c.down(instance, i) {
				err = store.AppendFailure(target, at)
			} else {
				_, err = store.Append(target, at, page(byInstance[instance], i), "", 10*time.Millisecond)
			}
			if err != nil {
				t.Fatalf("scrape %d of %s: %v", i, instance, err)
			}
		}
	}
	if w := store.Warnings(); len(w) > 0 {
		t.Errorf("the store complains: %q", w)
	}
	at := caseStart.Add(time.Duration(c.scrapes-1) * c.every)
	if c.at > 0 {
		at = caseStart.Add(c.at)
	}
	created, _ := store.FirstCreated(embedded.Target{Instance: usualInstance})
	var set diagnose.Settings
	if c.promise != (slo.Objective{}) {
		set.Objectives = &slo.File{Objectives: []slo.Objective{c.promise}}
	}
	d, err := diagnose.Run(t.Context(), store, diagnose.Options{
		Settings: set, At: at, First: caseStart, Created: created, Interval: c.every, Pathologies: pathologies.All(), Every: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (c *scenario) down(instance string, scrape int) bool {
	return slices.ContainsFunc(c.outages, func(o outage) bool {
		return o.instance == instance && scrape >= o.first && scrape < o.first+o.scrapes
	})
}

// restart lets the counters begin again.
func restart(all []series, scrape int) {
	for _, s := range all {
		if kind(s.lset.Get(labels.MetricName), nil) == "gauge" {
			continue
		}
		lost := s.values[scrape]
		for i := scrape; i < len(s.values); i++ {
			s.values[i] -= lost
		}
	}
}

// page prints one scrape in Prometheus' text format.
func page(all []series, scrape int) []byte {
	histograms := map[string]bool{}
	for _, s := range all {
		if base, ok := strings.CutSuffix(s.lset.Get(labels.MetricName), "_bucket"); ok {
			histograms[base] = true
		}
	}
	families := map[string][]string{}
	for _, s := range all {
		if math.IsNaN(s.values[scrape]) {
			continue
		}
		name := s.lset.Get(labels.MetricName)
		family := familyOf(name, histograms)
		text := labels.NewBuilder(s.lset).Del(labels.MetricName).Labels().String()
		families[family] = append(families[family], fmt.Sprintf("%s%s %s\n", name, text, strconv.FormatFloat(s.values[scrape], 'g', -1, 64)))
	}
	var b bytes.Buffer
	for _, f := range slices.Sorted(maps.Keys(families)) {
		fmt.Fprintf(&b, "# TYPE %s %s\n", f, kind(f, histograms))
		for _, line := range families[f] {
			b.WriteString(line)
		}
	}
	return b.Bytes()
}

func familyOf(name string, histograms map[string]bool) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && histograms[base] {
			return base
		}
	}
	return name
}

// kind tells the type from the name: of a family, or of a single series where
// histograms is nil. NVIDIA's counters end in capitals.
func kind(name string, histograms map[string]bool) string {
	if histograms[name] {
		return "histogram"
	}
	for _, suffix := range []string{"_total", "_sum", "_count", "_bucket", "_TOTAL", "_COUNTER"} {
		if strings.HasSuffix(name, suffix) {
			return "counter"
		}
	}
	return "gauge"
}
