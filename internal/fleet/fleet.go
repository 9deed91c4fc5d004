package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
)

// A Config selects what to serve. Comments give the meaning of zero values.
type Config struct {
	Addr     string // address of the first replica, the others use the next ports; "": free loopback ports
	Exporter string // address of the GPU exporter; "": no exporter, ":0": a free port
	Replicas int    // 0: the scenario's number

	Scenario   Scenario       // without phases: Quiet
	Release    engine.Release // "": DefaultRelease
	Model      string         // "": llama-8b
	Accelerate float64        // simulated seconds in a second; 0: 1
	Seed       uint64

	// Warm is how much of the first phase has passed when Start returns. The servers then have the counters of this
	// time.
	Warm time.Duration
}

// Limits of a Config.
const (
	MaxReplicas   = 256
	MaxAccelerate = 1000
	maxWarm       = time.Hour
)

func (c Config) withDefaults() (Config, error) {
	if len(c.Scenario.Phases) == 0 {
		c.Scenario = WithoutTraffic()
	}
	if c.Replicas == 0 {
		c.Replicas = max(c.Scenario.Replicas, 1)
	}
	if c.Release == "" {
		c.Release = DefaultRelease
	}
	if c.Model == "" {
		c.Model = "llama-8b"
	}
	if c.Accelerate == 0 {
		c.Accelerate = 1
	}
	switch {
	case c.Replicas < 1 || c.Replicas > MaxReplicas:
		return c, fmt.Errorf("%d replicas: want 1 to %d", c.Replicas, MaxReplicas)
	case c.Replicas < c.Scenario.Replicas:
		return c, hint.With(fmt.Errorf("scenario %s needs %d replicas", c.Scenario.Name, c.Scenario.Replicas),
			"allow them, or leave the number to the scenario")
	case !(c.Accelerate > 0 && c.Accelerate <= MaxAccelerate):
		return c, fmt.Errorf("acceleration %v: want more than 0 and at most %d", c.Accelerate, MaxAccelerate)
	case c.Warm < 0 || c.Warm > maxWarm ||
		c.Warm > 0 && len(c.Scenario.Phases) > 1 && c.Warm >= c.Scenario.Phases[0].For:
		return c, fmt.Errorf("a warm-up of %v: want less than the first phase of %s, and at most %v",
			c.Warm, c.Scenario.Name, maxWarm)
	case c.Scenario.Settings.MaxQueuedRequests > 0 && !c.Release.AtLeast(vllm.LimitsQueuedRequests):
		return c, hint.With(fmt.Errorf("vLLM %s has no limit on queued requests", c.Release), "imitate 0.33")
	}
	return c, nil
}

// A Fleet is a set of servers that run until Close.
type Fleet struct {
	cfg   Config
	began time.Time

	mu     sync.Mutex // guards core and outbox
	core   *core
	outbox [][]delivery // by replica: tokens to send, in order of time

	replicas []*site
	exporter *site // nil: none

	kick chan struct{} // wakes the loop for an unexpected event
	done chan struct{}
	wg   sync.WaitGroup

	errMu sync.Mutex
	err   error // why a replica could not listen again
}

// A delivery is a token that an API server will send.
type delivery struct {
	at   time.Duration
	to   *stream
	done bool
}

// A site is an address that is open or closed.
type site struct {
	listenAddr string // the real port, once it was open
	url        string // "": it was never open
	handler    http.Handler
	httpServer *http.Server // nil while down
}

// Start serves until Close.
func Start(cfg Config) (*Fleet, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	server, err := cfg.Scenario.Settings.Server(cfg.Release, cfg.Model)
	if err != nil {
		return nil, err
	}
	start := time.Now().Add(-time.Duration(float64(cfg.Warm) / cfg.Accelerate))
	f := &Fleet{cfg: cfg, began: start, kick: make(chan struct{}, 1), done: make(chan struct{})}
	if f.core, err = newCore(cfg.Scenario, server, cfg.Replicas, cfg.Seed, f.wallTime); err != nil {
		return nil, err
	}
	f.outbox = make([][]delivery, cfg.Replicas)
	f.core.advanceTo(cfg.Warm)
	if err := f.openAddresses(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.wg.Go(f.runLoop)
	return f, nil
}

// openAddresses opens all addresses.
func (f *Fleet) openAddresses() error {
	for i := range f.cfg.Replicas {
		addr, err := OffsetPort(f.cfg.Addr, i)
		if err != nil {
			return err
		}
		s := &site{listenAddr: addr, handler: f.replicaHandler(i)}
		if err := f.openSite(s); err != nil {
			return err
		}
		f.replicas = append(f.replicas, s)
	}
	if f.cfg.Exporter != "" {
		f.exporter = &site{listenAddr: completeAddress(f.cfg.Exporter), handler: f.exporterHandler()}
		return f.openSite(f.exporter)
	}
	return nil
}

// completeAddress completes an address without a host by the loopback interface, so that simulated servers are public
// only on request.
func completeAddress(addr string) string {
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// OffsetPort returns the address n ports above addr; port 0 stays 0, and an address without a host is on the loopback
// interface.
func OffsetPort(addr string, n int) (string, error) {
	if addr == "" {
		return "127.0.0.1:0", nil
	}
	host, port, err := net.SplitHostPort(completeAddress(addr))
	if err != nil {
		return "", hint.With(fmt.Errorf("address %q: %w", addr, err), "write it like 127.0.0.1:8000 or :8000")
	}
	p, err := strconv.Atoi(port)
	if err != nil || p < 0 || p+n > 65535 {
		return "", hint.With(fmt.Errorf("address %q: there is no port %s for replica %d", addr, port, n),
			"write it like 127.0.0.1:8000 or :8000")
	}
	if p == 0 {
		n = 0
	}
	return net.JoinHostPort(host, strconv.Itoa(p+n)), nil
}

// openSite serves a site. It stores the real address, so that the site can be opened there again.
func (f *Fleet) openSite(s *site) error {
	ln, err := net.Listen("tcp", s.listenAddr)
	if err != nil {
		return hint.With(fmt.Errorf("listen on %s: %w", s.listenAddr, err), "choose another address")
	}
	if s.url == "" {
		s.listenAddr = ln.Addr().String()
		s.url = "http://" + s.listenAddr
	}
	httpServer := &http.Server{Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 1 << 16}
	s.httpServer = httpServer
	f.wg.Go(func() { _ = httpServer.Serve(ln) })
	return nil
}

// URL returns the base URL of a replica, counted from 0.
func (f *Fleet) URL(i int) string { return f.replicas[i].url }

// URLs returns the base URLs of all replicas.
func (f *Fleet) URLs() []string {
	var urls []string
	for i := range f.replicas {
		urls = append(urls, f.URL(i))
	}
	return urls
}

// ExporterURL is the base URL of the GPU exporter, "" without one.
func (f *Fleet) ExporterURL() string {
	if f.exporter == nil {
		return ""
	}
	return f.exporter.url
}

// Describe lists the addresses, with commands to try on them.
func (f *Fleet) Describe(w io.Writer) {
	fmt.Fprintf(w, "simulated vLLM %s, model %s, scenario %s: %s\n",
		cmp.Or(f.cfg.Release, DefaultRelease), f.cfg.Model, f.cfg.Scenario.Name, f.cfg.Scenario.Title)
	urls := f.URLs()
	for i, u := range urls {
		fmt.Fprintf(w, "  replica %d     %s\n", i, u)
	}
	if u := f.ExporterURL(); u != "" {
		fmt.Fprintf(w, "  GPU exporter  %s/metrics\n", u)
		urls = append(urls, u)
	}
	if first := f.cfg.Scenario.Phases[0]; len(f.cfg.Scenario.Phases) > 1 {
		healthy := time.Duration(float64(first.For) / f.cfg.Accelerate).Round(time.Second)
		fmt.Fprintf(w, "The fault begins in %s; until then, a diagnosis says healthy.\n", healthy)
	}
	fmt.Fprintf(w, "try: sixty diagnose %s\n", strings.Join(urls, " "))
	fmt.Fprintf(w, "     curl %s/v1/completions -H 'Content-Type: application/json' "+
		"-d '{\"prompt\":\"Hello\",\"max_tokens\":20,\"stream\":true}'\n", f.URL(0))
	fmt.Fprintln(w, "Stop with Ctrl-C.")
}

// Phase returns the scenario's phase, counted from 0, and its remaining simulated time, 0 for the last phase.
func (f *Fleet) Phase() (int, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.core.phase, max(f.core.phaseEnd-f.simulatedNow(), 0)
}

// Err returns why a replica that came back could not listen.
func (f *Fleet) Err() error {
	f.errMu.Lock()
	defer f.errMu.Unlock()
	return f.err
}

// Close ends everything and waits for it.
func (f *Fleet) Close() error {
	select {
	case <-f.done:
		return nil
	default:
	}
	close(f.done)
	f.mu.Lock()
	defer f.wg.Wait()
	defer f.mu.Unlock()
	var errs []error
	for _, s := range append([]*site{f.exporter}, f.replicas...) {
		if s != nil && s.httpServer != nil {
			errs = append(errs, s.httpServer.Close())
			s.httpServer = nil
		}
	}
	return errors.Join(errs...)
}

// simulatedNow is the simulated time.
func (f *Fleet) simulatedNow() time.Duration {
	return time.Duration(float64(time.Since(f.began)) * f.cfg.Accelerate)
}

// wallTime is the time of day of a simulated time.
func (f *Fleet) wallTime(at time.Duration) time.Time {
	return f.began.Add(time.Duration(float64(at) / f.cfg.Accelerate))
}

// runLoop advances the core with the clock until Close.
func (f *Fleet) runLoop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-f.done:
			return
		case <-timer.C:
		case <-f.kick:
		}
		f.mu.Lock()
		now := f.simulatedNow()
		f.core.advanceTo(now)
		next, ok := f.core.nextEvent()
		if at, waits := f.sendTokens(now); waits && (!ok || at < next) {
			next, ok = at, true
		}
		f.reconcileSites()
		f.mu.Unlock()
		if !ok {
			next = f.simulatedNow() + time.Minute
		}
		timer.Reset(time.Until(f.wallTime(next)))
	}
}

// sendTokens sends the tokens that are due, and returns the time of the next one.
func (f *Fleet) sendTokens(now time.Duration) (next time.Duration, waits bool) {
	for i, queue := range f.outbox {
		n := 0
		for n < len(queue) && queue[n].at <= now {
			queue[n].to.deliverToken(queue[n].done)
			n++
		}
		rest := copy(queue, queue[n:])
		clear(queue[rest:])
		f.outbox[i] = queue[:rest]
		if rest > 0 && (!waits || queue[0].at < next) {
			next, waits = queue[0].at, true
		}
	}
	return next, waits
}

// reconcileSites closes the sites of replicas that went down, with their connections, and opens the sites of replicas
// that are back.
func (f *Fleet) reconcileSites() {
	for i, r := range f.core.replicas {
		s := f.replicas[i]
		switch {
		case !r.up && s.httpServer != nil:
			_ = s.httpServer.Close()
			s.httpServer = nil
		case r.up && s.httpServer == nil:
			select {
			case <-f.done:
				return
			default:
			}
			if err := f.openSite(s); err != nil {
				f.errMu.Lock()
				f.err = err
				f.errMu.Unlock()
			}
		}
	}
}

// wakeLoop makes the loop advance the core now, because it changed.
func (f *Fleet) wakeLoop() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// updateCore brings the core to the present, calls fn with it, and wakes the loop.
func (f *Fleet) updateCore(fn func(c *core, now time.Duration)) {
	f.mu.Lock()
	now := f.simulatedNow()
	f.core.advanceTo(now)
	fn(f.core, f.core.clock)
	f.mu.Unlock()
	f.wakeLoop()
}

// Wait blocks until ctx is done or the scenario has reached a phase.
func (f *Fleet) Wait(ctx context.Context, phase int) error {
	for {
		at, left := f.Phase()
		if at >= phase {
			return nil
		}
		t := time.NewTimer(time.Duration(float64(left)/f.cfg.Accelerate) + time.Millisecond)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
}

func (f *Fleet) exporterHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		var body []byte
		f.updateCore(func(c *core, now time.Duration) { body = gpuPage(c.replicas, now) })
		w.Header().Set("Content-Type", ContentType)
		_, _ = w.Write(body)
	})
	return mux
}

// Handler is a replica's handler, counted from 0, for tests without a network.
func (f *Fleet) Handler(i int) http.Handler { return f.replicas[i].handler }
