package source

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

// A Recorded counts what a recording holds.
type Recorded struct {
	Pages, Empty int   // scrapes that gave a page, and those that failed
	Full         bool  // it ended because it reached its maximal size
	Last         error // the last failure, nil without one
}

// Record writes the pages of the servers to a recording until ctx is done, the recording is full, or it is clear that
// no server answers. It calls show after each scrape, never concurrently. The caller closes the recording.
func (s *Scraper) Record(ctx context.Context, out *recording.Writer, show func(Recorded)) (Recorded, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r := &recorder{Scraper: s, out: out, stop: stop, show: show, fails: make([]int, len(s.Targets)),
		looked: make([]bool, len(s.Targets)), other: map[int]error{}}
	var facts sync.WaitGroup
	facts.Go(func() { r.writeMeta(ctx) })
	s.scrapeWithHost(ctx, r.writeHostPage, func(ctx context.Context) { s.Run(ctx, r.writeScrape) })
	facts.Wait()
	return r.Recorded, r.err
}

// A recorder writes pages as they come.
type recorder struct {
	*Scraper
	out  *recording.Writer
	stop func()
	show func(Recorded)

	mu     sync.Mutex
	fails  []int         // in a row, by target
	looked []bool        // whether a page was checked, by target
	other  map[int]error // the targets that are other programs; nil once one is a server
	bytes  int64
	err    error
	Recorded
}

// writePage adds a page, unless the recording is full.
func (r *recorder) writePage(target string, at time.Time, body []byte, took time.Duration) bool {
	r.mu.Lock()
	if r.Full = r.Full || r.bytes+int64(len(body)) > recording.MaxTotal; r.Full {
		r.stop()
		r.mu.Unlock()
		return false
	}
	r.bytes += int64(len(body))
	r.mu.Unlock()
	if err := r.out.Add(target, at, body, took); err != nil {
		r.mu.Lock()
		r.err = errors.Join(r.err, err)
		r.mu.Unlock()
		r.stop()
	}
	return true
}

// writeHostPage writes a page of this machine.
func (r *recorder) writeHostPage(p hostmetrics.Page) {
	target := p.Instance()
	if k := slices.IndexFunc(r.Targets, func(t Target) bool { return t.Instance == p.Server }); k >= 0 {
		target = dialect.GPUsOf(recording.DirectoryName(r.Targets[k].Name()))
	}
	r.writePage(target, p.At, p.Body, 0)
}

func (r *recorder) writeScrape(p Scrape) {
	body, took := p.Body.Raw, time.Duration(0)
	if p.Err != nil {
		body, took = nil, p.Body.Duration
	}
	if !r.writePage(r.Targets[p.Target].Name(), p.Body.At, body, took) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.Err != nil {
		r.Last = p.Err
		r.Empty++
		r.fails[p.Target]++
	} else {
		r.Pages++
		r.fails[p.Target] = 0
	}
	r.noteFirstPage(&p)
	if r.Pages == 0 && !slices.ContainsFunc(r.fails, func(n int) bool { return n < deadAfter }) {
		r.stop()
	}
	r.show(r.Recorded)
}

// noteFirstPage checks the first page of each target: whether it is a GPU exporter's, and whether all targets are other
// programs, which ends the recording.
func (r *recorder) noteFirstPage(p *Scrape) {
	if p.Err != nil || r.looked[p.Target] && r.other == nil {
		return
	}
	r.looked[p.Target] = true
	kind, err := p.Kind(r.Targets[p.Target].Name())
	if dialect.ShowsGPUs(kind) {
		r.noteExporter(p.Target)
	}
	if err == nil {
		r.other = nil
	}
	if r.other == nil {
		return
	}
	if r.other[p.Target] = err; len(r.other) == len(r.Targets) {
		r.Pages, r.Last = 0, err
		r.stop()
	}
}

// writeMeta writes what the servers say about themselves beside their metrics.
func (r *recorder) writeMeta(ctx context.Context) {
	facts := make([]recording.Noted, len(r.Targets))
	var wg sync.WaitGroup
	for i, t := range r.Targets {
		if t.Gateway {
			facts[i].URL = t.Name()
			continue
		}
		wg.Go(func() {
			f := r.Facts(ctx, t.URL)
			facts[i] = recording.Noted{URL: t.Name(), Health: f.Health, Version: f.Version}
			for _, m := range f.Models {
				facts[i].Models = append(facts[i].Models, recording.Model(m))
			}
			if f.HealthErr != nil {
				facts[i].HealthErr = f.HealthErr.Error()
			}
		})
	}
	wg.Wait()
	b, err := json.MarshalIndent(map[string]any{"recorded_by": "sixty record",
		"began": time.Now().UTC().Format(time.RFC3339), "targets": facts}, "", " ")
	if err == nil {
		err = r.out.SetMeta(b)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, err)
}
