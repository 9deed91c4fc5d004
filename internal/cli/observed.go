package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/live"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
	"github.com/sixty-dev/sixty/internal/observe"
)

// observedFlags say where running servers are seen: at their URLs, in a recording,
// or on a Prometheus server.
type observedFlags struct {
	recording, prometheus string
	match                 []string
	model                 string
	at                    string
	window, watch         time.Duration
	interval              time.Duration
	http                  httpFlags
}

func (f *observedFlags) register(s *pflag.FlagSet) {
	s.StringVar(&f.recording, "recording", "", "measure servers in a recording: an archive or a directory")
	s.StringVar(&f.prometheus, "prometheus", "", "measure servers by a Prometheus-compatible server at this `URL`")
	s.StringArrayVar(&f.match, "match", nil, "with --prometheus: `selector` such as '{namespace=\"prod\"}'; may be repeated, all must match")
	s.StringVar(&f.model, "model", "", "with servers of several models: measure those of this `name`")
	s.StringVar(&f.at, "at", "", "measure up to this `time` (default: the end of the recording, or now)")
	s.DurationVar(&f.window, "window", 0, "measure this much time before --at (default: a whole recording; 15m of a Prometheus server)")
	s.DurationVar(&f.watch, "watch", time.Minute, "with URLs: scrape for this long")
	s.DurationVar(&f.interval, "interval", time.Second, "with URLs: time between two scrapes")
	f.http.register(s)
}

// given reports whether any servers are to be measured.
func (f *observedFlags) given(urls []string) bool {
	return len(urls) > 0 || f.recording != "" || f.prometheus != ""
}

func (f *observedFlags) check(urls []string) error {
	sources := 0
	for _, set := range []bool{len(urls) > 0, f.recording != "", f.prometheus != ""} {
		if set {
			sources++
		}
	}
	switch {
	case sources > 1:
		return errors.New("give URLs, --recording or --prometheus, not two of them")
	case len(f.match) > 0 && f.prometheus == "":
		return errors.New("--match goes with --prometheus")
	case (f.at != "" || f.window != 0) && f.recording == "" && f.prometheus == "":
		return hint.With(errors.New("--at and --window need a past"), "name a --recording or a --prometheus server, or leave them out")
	case f.window < 0:
		return fmt.Errorf("--window: %s is negative", f.window)
	case len(urls) > 0:
		return checkPace(f.interval, f.watch)
	}
	return nil
}

// observed is what was seen of running servers of one model.
type observed struct {
	*observe.Fleet
	From    string         // the source, for people
	Release engine.Release // of vLLM, "" when not known
	Config  engine.Config  // of the first server, with what was inferred
	Model   string
	Notes   []string
}

// defaultPast is how much of a Prometheus server's past is measured.
const defaultPast = 15 * time.Minute

// observe measures the servers.
func (f *observedFlags) observe(ctx context.Context, stderr io.Writer, urls []string) (*observed, error) {
	switch {
	case f.recording != "":
		return f.fromRecording(ctx, stderr)
	case f.prometheus != "":
		return f.fromPrometheus(ctx, stderr)
	}
	return f.fromServers(ctx, stderr, urls)
}

func (f *observedFlags) fromRecording(ctx context.Context, stderr io.Writer) (*observed, error) {
	o := &observed{From: f.recording}
	return o, withRecording(ctx, stderr, f.recording, func(p *played) error {
		at, err := p.at(f.at)
		if err != nil {
			return err
		}
		from := p.first
		if f.window > 0 && at.Add(-f.window).After(from) {
			from = at.Add(-f.window)
		}
		return f.read(ctx, p, o, from, at, p.interval, nil)
	})
}

func (f *observedFlags) fromPrometheus(ctx context.Context, stderr io.Writer) (*observed, error) {
	matchers, err := parseMatches(f.match)
	if err != nil {
		return nil, err
	}
	at, err := (span{last: time.Now()}).at(f.at)
	if err != nil {
		return nil, err
	}
	o := &observed{From: redactURL(f.prometheus)}
	return o, withPrometheus(stderr, f.prometheus, &f.http, func(q *tolerant) error {
		pace, err := diagnose.ReadPace(ctx, q, matchers, at)
		if err != nil {
			return err
		}
		return f.read(ctx, q, o, at.Add(-cmp.Or(f.window, defaultPast)), at, pace.Interval, matchers)
	})
}

// fromServers watches live servers for a while.
func (f *observedFlags) fromServers(ctx context.Context, stderr io.Writer, urls []string) (o *observed, err error) {
	targets, err := live.Targets(urls)
	if err != nil {
		return nil, err
	}
	http, err := f.http.config()
	if err != nil {
		return nil, err
	}
	client, err := scrape.New(scrape.Config{HTTP: http})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	facts := client.Facts(ctx, targets[0].URL)
	var mu sync.Mutex
	var failed error
	good := 0
	line := newProgress(stderr)
	defer line.clear()
	began := time.Now()
	scrapes, stop := context.WithTimeout(ctx, f.watch)
	defer stop()
	live.Run(scrapes, client, targets, f.interval, func(p live.Page) {
		err := p.Err
		if err == nil {
			_, err = store.Append(embedded.Target{Instance: targets[p.Target].Instance}, p.Body.At, p.Body.Raw, p.Body.ContentType, p.Body.Duration)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = err
			if good == 0 && time.Since(began) > hopeless*f.interval {
				stop() // nobody ever answered
			}
			return
		}
		good++
		line.show("watching: %.0f s of %.0f s", time.Since(began).Seconds(), f.watch.Seconds())
	})
	line.clear()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if good == 0 {
		return nil, hint.With(fmt.Errorf("no server answered: %w", failed), firstHint(failed, "check the address, and that the server is up"))
	}
	o = &observed{From: targets[0].Name(), Release: engine.FindRelease(facts.Version)}
	if len(targets) > 1 {
		o.From += fmt.Sprintf(" and %d more", len(targets)-1)
	}
	first, last, _ := store.Times()
	if err := f.read(ctx, store, o, first, last, f.interval, nil); err != nil {
		return nil, err
	}
	for _, m := range facts.Models {
		if m.MaxModelLen > 0 && (o.Model == "" || m.ID == o.Model) {
			o.Config.Set(engine.MaxModelLen, strconv.Itoa(m.MaxModelLen), "/v1/models")
		}
	}
	return o, nil
}

// read discovers the servers and observes those of one model.
func (f *observedFlags) read(ctx context.Context, q metrics.Querier, o *observed, from, to time.Time, interval time.Duration, matchers []*labels.Matcher) error {
	found, _, err := diagnose.Discover(ctx, q, to, max(to.Sub(from), 5*interval), matchers, false)
	if err != nil {
		return err
	}
	options := observe.Options{From: from, To: to, Interval: interval}
	models := map[string]bool{}
	for _, t := range found {
		name := t.Labels["model_name"]
		if t.Problem != "" || t.Dialect.Engine != dialect.VLLM || f.model != "" && name != f.model {
			continue
		}
		models[name] = true
		target := observe.Target{Name: t.Name, Metric: t.Dialect.Metric, Config: t.Config, Matchers: slices.Clone(matchers)}
		for label, value := range t.Labels {
			target.Matchers = append(target.Matchers, labels.MustNewMatcher(labels.MatchEqual, label, value))
		}
		options.Targets = append(options.Targets, target)
		o.Model = name
		o.Release = cmp.Or(o.Release, engine.FindRelease(t.Version))
	}
	switch {
	case len(models) > 1:
		var names []string
		for m := range models {
			names = append(names, m)
		}
		slices.Sort(names)
		return hint.With(fmt.Errorf("there are servers of %d models", len(models)), "choose one with --model: "+strings.Join(names, ", "))
	case len(options.Targets) == 0 && f.model != "":
		return fmt.Errorf("no vLLM server of model %q found", f.model)
	case len(options.Targets) == 0:
		return hint.With(errors.New("no vLLM server found"), "the simulation is of vLLM's scheduler; check --match and --at")
	}
	if o.Fleet, err = observe.Read(ctx, q, options); err != nil {
		return err
	}
	o.Config = engine.Config{}
	for _, e := range o.Engines {
		o.Config.Merge(e.Config)
	}
	return nil
}
