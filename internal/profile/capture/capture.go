// Package capture takes a trace of a running vLLM, and explains how to take one by hand.
//
// Run checks that the server has a profiler, sends requests if it is idle, starts the profiler, waits for a number of
// steps, stops the profiler whatever happens, and waits until the trace files are complete. How writes the commands for
// a release from ways.yaml.
package capture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// Config says what to capture.
type Config struct {
	Base     string                  // address of the server, such as http://localhost:8000
	HTTP     config.HTTPClientConfig // how to authenticate and encrypt
	Client   *http.Client            // nil: made of HTTP
	Steps    int                     // steps of the engine to record
	Longest  time.Duration           // longest time to wait for the steps
	Dir      string                  // the server's trace directory, if it is visible here; "" is unknown
	Load     int                     // concurrent requests to send if the server has none
	Progress func(format string, args ...any)
}

// Result is the outcome of a capture.
type Result struct {
	Release engine.Release
	Steps   int // counted by the server; -1 without a count
	Took    time.Duration
	Load    int      // concurrent requests sent
	Files   []string // new traces in Dir
	Notes   []string
}

const (
	pollEvery        = 100 * time.Millisecond
	askTimeout       = 10 * time.Second
	loadTimeout      = time.Minute            // until a request that this program sent runs
	profilerTimeout  = 10 * time.Minute       // to start the profiler, and to stop it, when it writes its traces
	interruptTimeout = 600 * time.Millisecond // to stop the profiler after an interrupt
	maxBody          = 16 << 20               // bytes of an answer
	maxTraces        = 4 << 30                // bytes of new traces, after which the profiler is stopped
)

// Run captures a trace. It stops the profiler even if the context ends.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.checkAndFill(); err != nil {
		return nil, err
	}
	defer cfg.Client.CloseIdleConnections()
	pages, err := scrape.New(scrape.Config{Client: cfg.Client, Timeout: askTimeout})
	if err != nil {
		return nil, err
	}
	c := &capture{Config: cfg, r: &Result{Steps: -1}, pages: pages}
	if err := c.checkServer(ctx); err != nil {
		return nil, err
	}
	before := c.listFiles()
	loadCtx, stopLoad := context.WithCancel(ctx)
	defer stopLoad()
	if err := c.startLoad(loadCtx); err != nil {
		return nil, err
	}
	if err := c.runProfiler(ctx); err != nil {
		return nil, err
	}
	stopLoad()
	c.clients.Wait()
	if cfg.Dir != "" {
		return c.r, c.collectTraces(ctx, before)
	}
	return c.r, nil
}

// checkAndFill returns an error for settings that make no trace, and sets defaults.
func (cfg *Config) checkAndFill() (err error) {
	if err := CheckSteps(cfg.Steps); err != nil {
		return err
	}
	if cfg.Longest < time.Second || cfg.Load < 0 || cfg.Load > 1024 {
		return errors.New("want --longest of at least 1s, and --load from 0 to 1024")
	}
	if cfg.Dir != "" {
		if _, err := os.Stat(cfg.Dir); err != nil {
			return hint.With(fmt.Errorf("--dir: there is no directory %s here", cfg.Dir),
				"if the server runs elsewhere, leave --dir out and copy the traces from there")
		}
	}
	cfg.Base = scrape.Complete(cfg.Base)
	if cfg.Progress == nil {
		cfg.Progress = func(string, ...any) {}
	}
	if cfg.Client == nil {
		if cfg.Client, err = config.NewClientFromConfig(cfg.HTTP, "sixty_profile",
			config.WithUserAgent("sixty")); err != nil {
			return fmt.Errorf("HTTP settings: %w", err)
		}
	}
	return nil
}

// capture is the state of Run.
type capture struct {
	Config
	r       *Result
	pages   *scrape.Client
	model   string // that the server serves; "" is unknown
	clients sync.WaitGroup
	failed  sync.Once // the note about a failed request
}

// sendRequest sends a request with a body as JSON, or without one if it is nil.
func (c *capture) sendRequest(ctx context.Context, method, path string,
	body any,
) (status int, answer []byte, err error) {
	var content []byte
	if body != nil {
		content, err = json.Marshal(body)
	}
	var req *http.Request
	if err == nil {
		req, err = http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.Base, "/")+path,
			bytes.NewReader(content))
	}
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
		var resp *http.Response
		if resp, err = c.Client.Do(req); err == nil {
			defer resp.Body.Close()
			status = resp.StatusCode
			answer, err = io.ReadAll(io.LimitReader(resp.Body, maxBody))
		}
	}
	if err != nil {
		return status, answer, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return status, answer, nil
}

// checkServer finds the server's release and model, and returns an error if the server has no profiler.
func (c *capture) checkServer(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, askTimeout)
	defer stop()
	status, body, err := c.sendRequest(ctx, http.MethodGet, "/version", nil)
	if err != nil {
		return hint.With(err, "give the server's address, such as http://localhost:8000")
	}
	var v struct{ Version string }
	if status == http.StatusOK && json.Unmarshal(body, &v) == nil {
		c.r.Release = engine.FindRelease(v.Version)
	}
	status, body, err = c.sendRequest(ctx, http.MethodGet, "/openapi.json", nil)
	if err == nil && status == http.StatusOK && !bytes.Contains(body, []byte("/start_profile")) {
		return c.notEnabled()
	}
	status, body, err = c.sendRequest(ctx, http.MethodGet, "/v1/models", nil)
	var models struct {
		Data []struct{ ID string }
	}
	if err == nil && status == http.StatusOK && json.Unmarshal(body, &models) == nil && len(models.Data) > 0 {
		c.model = models.Data[0].ID
	}
	return nil
}

func (c *capture) notEnabled() error {
	release := c.r.Release
	if release == "" {
		release = vllm.DefaultRelease
	}
	way := Ways(release, "MODEL", "/tmp/traces", c.Steps)[0]
	return hint.With(fmt.Errorf("%s was not started with a profiler: it has no /start_profile", c.Base),
		"restart it as: "+way.Commands[0])
}

// counts are readings of the server's metrics.
type counts struct {
	running, waiting float64 // requests
	steps            float64 // since the server's start
	known            bool    // steps are known
}

func (c *capture) readCounts(ctx context.Context) (counts, error) {
	page, err := c.pages.Fetch(ctx, strings.TrimSuffix(c.Base, "/")+"/metrics")
	if err != nil {
		return counts{}, err
	}
	var out counts
	_, err = scrape.Parse(page.Raw, page.ContentType, func(l labels.Labels, _ int64, v float64) {
		switch l.Get(labels.MetricName) {
		case "vllm:num_requests_running":
			out.running += v
		case "vllm:num_requests_waiting":
			out.waiting += v
		case "vllm:iteration_tokens_total_count":
			out.steps += v
			out.known = true
		}
	})
	return out, err
}

// startLoad sends requests until ctx ends, if the server has none, and waits until one of them runs.
func (c *capture) startLoad(ctx context.Context) error {
	now, err := c.readCounts(ctx)
	if err != nil {
		c.r.Notes = append(c.r.Notes, "the server's metrics cannot be read: steps are not counted ("+err.Error()+")")
	}
	if c.Load <= 0 || now.running+now.waiting > 0 {
		return nil
	}
	if c.model == "" {
		return hint.With(errors.New("the server has no requests, and /v1/models lists no model"),
			"send load yourself, and add --load 0")
	}
	c.r.Load = c.Load
	c.Progress("the server is idle: sending %d concurrent requests", c.Load)
	for i := range c.Load {
		c.clients.Go(func() { c.runClient(ctx, i) })
	}
	for deadline := time.After(loadTimeout); ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline:
			c.r.Notes = append(c.r.Notes, fmt.Sprintf("the requests sent did not start to run within %s", loadTimeout))
			return nil
		case <-time.After(pollEvery):
		}
		if now, err := c.readCounts(ctx); err != nil || now.running > 0 {
			return nil //nolint:nilerr // without metrics, whether they run is unknown
		}
	}
}

// runClient sends one request after another, with different prompts, until ctx ends.
func (c *capture) runClient(ctx context.Context, number int) {
	for turn := 0; ctx.Err() == nil; turn++ {
		status, body, err := c.sendRequest(ctx, http.MethodPost, "/v1/completions", map[string]any{
			"model": c.model, "max_tokens": 128, "ignore_eos": true, "temperature": 0.7,
			"prompt": fmt.Sprintf("%d.%d. %s", number, turn,
				strings.Repeat("Tell me where the time goes. ", 8+8*(number%8))),
		})
		if err != nil || status != http.StatusOK {
			if ctx.Err() == nil {
				c.failed.Do(func() {
					c.r.Notes = append(c.r.Notes,
						fmt.Sprintf("a request failed: status %d, %v %.120s", status, err, body))
				})
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

// runProfiler starts the profiler, waits for the steps, and stops it.
func (c *capture) runProfiler(ctx context.Context) error {
	start, err := c.readCounts(ctx)
	counted := err == nil && start.known
	begin, stop := context.WithTimeout(ctx, profilerTimeout)
	defer stop()
	status, body, err := c.sendRequest(begin, http.MethodPost, "/start_profile",
		map[string]int{"max_iterations": c.Steps})
	switch {
	case err != nil:
		c.stopProfiler(ctx)
		return err
	case status == http.StatusNotFound:
		return c.notEnabled()
	case status != http.StatusOK:
		return fmt.Errorf("start the profiler: status %d: %.200s", status, body)
	}
	began := time.Now()
	if counted { // steps before the profiler ran do not count: starting it takes a while
		if now, err := c.readCounts(ctx); err == nil {
			start = now
		}
	}
	c.waitForSteps(ctx, began, start, counted)
	c.r.Took = time.Since(began)
	if ctx.Err() != nil {
		c.stopProfiler(ctx)
		return context.Cause(ctx)
	}
	c.Progress("stopping the profiler: the server writes its trace")
	ended, cancel := context.WithTimeout(ctx, profilerTimeout)
	defer cancel()
	status, body, err = c.sendRequest(ended, http.MethodPost, "/stop_profile", nil)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		c.r.Notes = append(c.r.Notes,
			fmt.Sprintf("the server is still writing after %s; record fewer steps", profilerTimeout))
		return nil
	case err != nil:
		return hint.With(err, "check the server's log: writing a long trace takes minutes and much memory")
	case status != http.StatusOK:
		return fmt.Errorf("stop the profiler: status %d: %.200s", status, body)
	}
	return nil
}

// stopProfiler stops the profiler after an error or an interrupt. It ignores an error, because Run returns the first.
func (c *capture) stopProfiler(ctx context.Context) {
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), interruptTimeout)
	defer stop()
	_, _, _ = c.sendRequest(last, http.MethodPost, "/stop_profile", nil)
}

// waitForSteps waits until there were enough steps, the time is over, or the traces are too large. If counted, the
// server counts steps, and start is the count at the start.
func (c *capture) waitForSteps(ctx context.Context, began time.Time, start counts, counted bool) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	before := c.listFiles()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if counted {
			if now, err := c.readCounts(ctx); err == nil {
				c.r.Steps = int(now.steps - start.steps)
			}
			c.Progress("profiling: %d of %d steps", max(c.r.Steps, 0), c.Steps)
			if c.r.Steps >= c.Steps {
				return
			}
		}
		if time.Since(began) >= c.Longest {
			if counted {
				c.r.Notes = append(c.r.Notes,
					fmt.Sprintf("%d of %d steps in %s", max(c.r.Steps, 0), c.Steps, c.Longest))
			}
			return
		}
		if _, grown := c.listWritten(before); grown > maxTraces {
			c.r.Notes = append(c.r.Notes, fmt.Sprintf("stopped early: the traces grew beyond %d MiB", maxTraces>>20))
			return
		}
	}
}

// listFiles returns the files in Dir by their names.
func (c *capture) listFiles() map[string]os.FileInfo {
	found := map[string]os.FileInfo{}
	entries, err := os.ReadDir(c.Dir) // an unreadable Dir has no files
	for _, e := range entries {
		if info, infoErr := e.Info(); err == nil && infoErr == nil && info.Mode().IsRegular() {
			found[e.Name()] = info
		}
	}
	return found
}

// listWritten returns the new traces in Dir, and the bytes of all files that are new or changed.
func (c *capture) listWritten(before map[string]os.FileInfo) (traces []string, bytes int64) {
	for name, f := range c.listFiles() {
		if old := before[name]; old != nil && old.Size() == f.Size() && old.ModTime().Equal(f.ModTime()) {
			continue
		}
		bytes += f.Size()
		if strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".json.gz") {
			traces = append(traces, filepath.Join(c.Dir, name))
		}
	}
	slices.Sort(traces)
	return traces, bytes
}

// collectTraces waits until the new files in Dir no longer grow.
func (c *capture) collectTraces(ctx context.Context, before map[string]os.FileInfo) error {
	last := int64(-1)
	for range 600 {
		var sum int64
		c.r.Files, sum = c.listWritten(before)
		if len(c.r.Files) > 0 && sum == last {
			return nil
		}
		if len(c.r.Files) == 0 && last == 0 {
			break
		}
		last = sum
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * pollEvery):
		}
	}
	if len(c.r.Files) == 0 {
		return hint.With(fmt.Errorf("the profiler was stopped, but %s has no new trace", c.Dir),
			"give the path here of the server's torch_profiler_dir")
	}
	return nil
}
