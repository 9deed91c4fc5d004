// Package history reads cases: small, hand-written histories of metrics that show a pathology, nearly show it, or lack
// its data. Tests of the catalogue diagnose them, and unit tests of generated alert rules are made from them.
//
// A Case is parsed from lines (Open, Parse, Add), may be slowed down (Stretch), and is evaluated to Series, one value
// for each scrape. Outages are applied last.
//
// A file starts with comments that say what it shows. Lines of these forms follow; scrapes are counted from 0:
//
//	every 1s for 120s            the interval and the length: 120 scrapes
//	at 150s                      the time of the diagnosis; by default that of the last scrape
//	like healthy [instance="b"]  begin with the server below; lines of this file replace its series
//	like gateway                 begin with the gateway below
//	like fires                   begin with that file, its interval included
//	without REGEXP               leave out inherited families
//	SERIES 2x59 8x59             promqltest's notation: 60 samples of 2, 60 of 8; _ is missing
//	rate SERIES 100x60,50        a counter that grows by 100/s for 60 scrapes, then by 50/s
//	hist SERIES mean=0.05x60,0.8 rate=2 [sigma=0.5]
//	                             a histogram in vLLM's buckets, observations lognormal about the mean
//	scrape_duration_seconds 4x120  how long scrapes took, which failed scrapes have too
//	down 60 20                   scrapes 60 to 79 fail
//	restart 60 10                scrapes 60 to 69 fail, and counters begin again at 0
//
// Several rate or hist lines of one series add up. The label instance names the target of a series, a:8000 by default.
// It may be the last word of down and restart.
package history

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
)

// usual holds the healthy server and the healthy gateway that cases begin with. $ stands for the number of scrapes
// after the first.
//
//go:embed healthy.txt gateway.txt
var usual embed.FS

// bucketBounds returns the upper bounds of a family's buckets on a server with max_model_len 32768.
func bucketBounds(family string) []float64 {
	if strings.HasSuffix(family, "_tokens") {
		return vllm.LengthBounds(32768)
	}
	if b := vllm.Bounds(family, ""); b != nil {
		return b
	}
	return vllm.Bounds("vllm:e2e_request_latency_seconds", "")
}

// Start is the time of the first scrape.
var Start = time.Unix(1_795_000_000, 0).UTC()

// UsualInstance is the target of series without the label instance.
const UsualInstance = "a:8000"

const maxScrapes = 10_000

// A Series has one value for each scrape, NaN if it is missing.
type Series struct {
	Instance string
	Labels   labels.Labels // without instance
	Values   []float64
}

// Name returns the name of the metric.
func (s Series) Name() string { return s.Labels.Get(labels.MetricName) }

// An outage is a number of scrapes of one target that fail.
type outage struct {
	instance       string
	first, scrapes int
	restart        bool // counters begin again at 0 after it
}

// A Case is a parsed case file.
type Case struct {
	Every   time.Duration // between two scrapes
	Scrapes int
	At      time.Duration // time of the diagnosis after the first scrape

	files   fs.FS            // that a line like NAME reads
	groups  map[key][]Series // the series of a line: one, or all of a histogram
	outages []outage
}

// A key identifies the series or the histogram that a line sets.
type key struct{ instance, labels, family string }

func newKey(lset labels.Labels) key {
	s := newSeries(lset, nil)
	return key{s.Instance, s.Labels.String(), s.Name()}
}

// Open reads NAME.txt.
func Open(files fs.FS, name string) (*Case, error) {
	text, err := fs.ReadFile(files, name+".txt")
	if err == nil && !bytes.HasPrefix(text, []byte("# ")) {
		err = errors.New("begin with a comment that says what it shows")
	}
	if err != nil {
		return nil, fmt.Errorf("%s.txt: %w", name, err)
	}
	c, err := Parse(files, string(text))
	if err != nil {
		return nil, fmt.Errorf("%s.txt: %w", name, err)
	}
	return c, nil
}

// Parse parses a case. Its lines like NAME read files.
func Parse(files fs.FS, text string) (*Case, error) {
	c := &Case{files: files, groups: map[key][]Series{}}
	return c, c.Add(text)
}

// Add adds lines to the case. Their series replace earlier ones.
func (c *Case) Add(lines ...string) error {
	own, n := map[key][]Series{}, 0
	for line := range strings.Lines(strings.Join(lines, "\n")) {
		n++
		if err := c.parseLine(strings.TrimSpace(line), own); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	maps.Copy(c.groups, own)
	return nil
}

func (c *Case) parseLine(line string, own map[key][]Series) error {
	words := strings.Fields(line)
	if len(words) == 0 || words[0] == "#" {
		return nil
	}
	if c.Scrapes == 0 && words[0] != "every" && words[0] != "like" {
		return fmt.Errorf("%q before the line with every", line)
	}
	switch words[0] {
	case "every":
		return c.parseHeader(words)
	case "at":
		var err error
		c.At, err = time.ParseDuration(strings.Join(words[1:], ""))
		return err
	case "like":
		return c.parseLike(words[1:])
	case "without":
		return c.parseWithout(words[1:])
	case "down", "restart":
		return c.parseOutage(words)
	case "rate", "hist":
		return c.parseGrowth(words, own)
	}
	return c.parseSeries(line, own)
}

func (c *Case) parseHeader(words []string) (err error) {
	if len(words) != 4 || words[2] != "for" {
		return errors.New("want: every INTERVAL for LENGTH")
	}
	length, err := time.ParseDuration(words[3])
	if err != nil {
		return err
	}
	if c.Every, err = time.ParseDuration(words[1]); err != nil {
		return err
	}
	if c.Every <= 0 || length/c.Every < 1 || length/c.Every > maxScrapes {
		return fmt.Errorf("%s every %s is not 1 to %d scrapes", length, c.Every, maxScrapes)
	}
	c.Scrapes = int(length / c.Every)
	c.At = time.Duration(c.Scrapes-1) * c.Every
	return nil
}

func (c *Case) parseLike(words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("like what?")
	}
	known, err := usual.ReadFile(words[0] + ".txt")
	if err != nil {
		text, err := fs.ReadFile(c.files, words[0]+".txt")
		if err != nil {
			return err
		}
		return c.Add(string(text))
	}
	if c.Scrapes == 0 {
		return fmt.Errorf("like %s before the line with every", words[0])
	}
	text := strings.ReplaceAll(string(known), "$", strconv.Itoa(c.Scrapes-1))
	if len(words) > 1 {
		text = strings.ReplaceAll(text, `engine="0"`, `engine="0",`+words[1])
		text = regexp.MustCompile(`(?m)^((?:process|scrape)_\w+) `).ReplaceAllString(text, `$1{`+words[1]+`} `)
		text = strings.ReplaceAll(text, `status="2xx"`, `status="2xx",`+words[1])
	}
	return c.Add(text)
}

func (c *Case) parseWithout(words []string) error {
	for _, w := range words {
		re, err := regexp.Compile("^(?:" + w + ")$")
		if err != nil {
			return err
		}
		before := len(c.groups)
		maps.DeleteFunc(c.groups, func(k key, _ []Series) bool { return re.MatchString(k.family) })
		if len(c.groups) == before {
			return fmt.Errorf("nothing inherited is called %s", w)
		}
	}
	return nil
}

func (c *Case) parseOutage(words []string) error {
	o := outage{instance: UsualInstance, restart: words[0] == "restart"}
	if len(words) > 3 {
		o.instance = words[3]
	}
	_, err := fmt.Sscan(strings.Join(words[1:], " "), &o.first, &o.scrapes)
	if err == nil && (o.first < 0 || o.first >= c.Scrapes) {
		err = fmt.Errorf("scrape %d of %d fails", o.first, c.Scrapes)
	}
	c.outages = append(c.outages, o)
	return err
}

var notation = parser.NewParser(parser.Options{})

// parseSeries reads a series in promqltest's notation.
func (c *Case) parseSeries(line string, own map[key][]Series) error {
	lset, samples, err := notation.ParseSeriesDesc(line)
	if err != nil {
		return err
	}
	if len(samples) > c.Scrapes {
		return fmt.Errorf("%s has %d samples, and there are %d scrapes", lset, len(samples), c.Scrapes)
	}
	values := slices.Repeat([]float64{math.NaN()}, c.Scrapes)
	for i, s := range samples {
		if !s.Omitted {
			values[i] = s.Value
		}
	}
	own[newKey(lset)] = []Series{newSeries(lset, values)}
	return nil
}

// parseGrowth parses a rate or a hist line.
func (c *Case) parseGrowth(words []string, own map[key][]Series) error {
	if len(words) < 3 {
		return fmt.Errorf("%s wants a series and numbers", words[0])
	}
	lset, err := notation.ParseMetric(words[1])
	if err != nil {
		return err
	}
	if words[0] == "rate" {
		words[2] = "rate=" + words[2]
	}
	given := map[string][]float64{}
	for _, w := range append([]string{"mean=1", "sigma=0.5"}, words[2:]...) {
		name, schedule, _ := strings.Cut(w, "=")
		if given[name], err = c.parseSchedule(schedule); err != nil {
			return err
		}
	}
	if given["rate"] == nil || len(given) != 3 {
		return fmt.Errorf("%q are not rate=, mean= and sigma=", words[2:])
	}
	g := []Series{newSeries(lset, c.accumulateRates(given["rate"], func(int) float64 { return 1 }))}
	if words[0] == "hist" {
		g = c.newHistogram(lset, given["rate"], given["mean"], given["sigma"])
	}
	k := newKey(lset)
	for i, s := range own[k] {
		for scrape, v := range s.Values {
			g[i].Values[scrape] += v
		}
	}
	own[k] = g
	return nil
}

// parseSchedule parses 2x60,8: the value 2 for 60 scrapes, then 8 until the end.
func (c *Case) parseSchedule(text string) (out []float64, err error) {
	for _, part := range strings.Split(text, ",") {
		v, times, repeated := strings.Cut(part, "x")
		value, err := strconv.ParseFloat(v, 64)
		n := c.Scrapes - len(out)
		if repeated && err == nil {
			n, err = strconv.Atoi(times)
		}
		if err != nil || n < 0 {
			return nil, fmt.Errorf("read %q: %w", text, cmp.Or(err, strconv.ErrRange))
		}
		out = append(out, slices.Repeat([]float64{value}, n)...)
	}
	if len(out) != c.Scrapes {
		return nil, fmt.Errorf("%q is for %d scrapes, and there are %d", text, len(out), c.Scrapes)
	}
	return out, nil
}

// accumulateRates returns a counter that grows per second by the rate of each scrape times its factor.
func (c *Case) accumulateRates(rates []float64, factor func(scrape int) float64) []float64 {
	out := make([]float64, len(rates))
	for i := 1; i < len(rates); i++ {
		out[i] = out[i-1] + rates[i]*factor(i)*c.Every.Seconds()
	}
	return out
}

func (c *Case) newHistogram(lset labels.Labels, rates, means, sigmas []float64) []Series {
	name := lset.Get(labels.MetricName)
	part := func(suffix, le string, factor func(int) float64) Series {
		b := labels.NewBuilder(lset).Set(labels.MetricName, name+suffix).Set(labels.BucketLabel, le)
		return newSeries(b.Labels(), c.accumulateRates(rates, factor))
	}
	all := func(int) float64 { return 1 }
	out := []Series{part("_sum", "", func(i int) float64 { return means[i] }), part("_count", "", all)}
	for _, bound := range bucketBounds(name) {
		le := strconv.FormatFloat(bound, 'f', -1, 64)
		if !strings.Contains(le, ".") {
			le += ".0" // as Python prints it
		}
		out = append(out, part("_bucket", le, func(i int) float64 {
			return lognormalShare(bound, means[i], sigmas[i])
		}))
	}
	return append(out, part("_bucket", "+Inf", all))
}

// lognormalShare returns the share of observations up to x.
func lognormalShare(x, mean, sigma float64) float64 {
	mu := math.Log(mean) - sigma*sigma/2
	return 0.5 * math.Erfc(-(math.Log(x)-mu)/(sigma*math.Sqrt2))
}

func newSeries(lset labels.Labels, values []float64) Series {
	instance := lset.Get("instance")
	if instance == "" {
		instance = UsualInstance
	}
	return Series{instance, labels.NewBuilder(lset).Del("instance").Labels(), values}
}

// Names of the series that the scraper itself records; they are on no metrics page.
const (
	Up   = "up"
	Took = "scrape_duration_seconds"
)

// Series returns all series by instance, with up, after outages.
func (c *Case) Series() map[string][]Series {
	out := map[string][]Series{}
	for _, k := range slices.SortedFunc(maps.Keys(c.groups), func(a, b key) int {
		return strings.Compare(a.instance+a.labels, b.instance+b.labels)
	}) {
		for _, s := range c.groups[k] {
			s.Values = slices.Clone(s.Values)
			out[s.Instance] = append(out[s.Instance], s)
		}
	}
	for instance, list := range out {
		up := slices.Repeat([]float64{1}, c.Scrapes)
		for _, o := range c.outages {
			if o.instance == instance {
				o.apply(list, up)
			}
		}
		out[instance] = append(list, newSeries(labels.FromStrings(labels.MetricName, Up), up))
	}
	return out
}

// apply removes the samples of failed scrapes and, after a restart, what counters counted before. It also sets up to 0.
func (o outage) apply(list []Series, up []float64) {
	end := min(o.first+o.scrapes, len(up))
	for i := o.first; i < end; i++ {
		up[i] = 0
	}
	for _, s := range list {
		if s.Name() == Took {
			continue
		}
		before := s.Values[o.first]
		for i := o.first; i < len(up); i++ {
			switch {
			case i < end:
				s.Values[i] = math.NaN()
			case o.restart && isCounter(s.Name()):
				s.Values[i] -= before
			}
		}
	}
}

// isCounter reports whether a name has the ending of a counter. NVIDIA's end in capitals.
func isCounter(name string) bool {
	return slices.ContainsFunc([]string{"_total", "_sum", "_count", "_bucket", "_TOTAL", "_COUNTER"},
		func(suffix string) bool { return strings.HasSuffix(name, suffix) })
}

// Stretch slows a case down: it repeats each scrape a number of times at another interval. Rates stay the same, and
// outages that end keep their duration.
func (c *Case) Stretch(interval time.Duration, times int) *Case {
	out := &Case{Every: interval, groups: map[key][]Series{}}
	var sources []int                    // the old scrape that each new one repeats
	newIndex := make([]int, c.Scrapes+1) // the first new scrape of each old one
	for i := range c.Scrapes {
		sources = append(sources, slices.Repeat([]int{i}, c.countRepeats(i, interval, times))...)
		newIndex[i+1] = len(sources)
	}
	out.Scrapes = len(sources)
	out.At = time.Duration(out.Scrapes-1)*interval + c.At - time.Duration(c.Scrapes-1)*c.Every
	for k, g := range c.groups {
		for _, s := range g {
			s.Values = repeatValues(s, sources, interval.Seconds()/c.Every.Seconds())
			out.groups[k] = append(out.groups[k], s)
		}
	}
	for _, o := range c.outages {
		first, end := newIndex[o.first], newIndex[min(o.first+o.scrapes, c.Scrapes)]
		out.outages = append(out.outages, outage{o.instance, first, end - first, o.restart})
	}
	return out
}

// countRepeats returns how many new scrapes repeat a scrape: times, or as many as fit its duration in an outage that
// ends.
func (c *Case) countRepeats(scrape int, interval time.Duration, times int) int {
	for _, o := range c.outages {
		if end := o.first + o.scrapes; scrape >= o.first && scrape < end && end < c.Scrapes {
			since := time.Duration(scrape-o.first) * c.Every
			return int((since+c.Every)/interval - since/interval)
		}
	}
	return times
}

// repeatValues repeats every sample of a gauge, and every increment of a counter in proportion to the longer interval.
func repeatValues(s Series, sources []int, longer float64) []float64 {
	out := make([]float64, len(sources))
	for k, i := range sources {
		out[k] = s.Values[i]
		if isCounter(s.Name()) && i > 0 {
			if next := out[k-1] + (s.Values[i]-s.Values[i-1])*longer; !math.IsNaN(next) {
				out[k] = next
			}
		}
	}
	return out
}
