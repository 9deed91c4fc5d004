package fleet

import (
	_ "embed"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/sim"
)

// A Server is the configuration of one replica.
type Server struct {
	Release engine.Release
	Model   string
	Engine  sim.Config
	Cost    sim.StepCost
	// HostTime is the time in every step for which the GPU waits for the host.
	HostTime time.Duration
	// Drafted is how many tokens speculative decoding drafts in a step; 0: no drafting.
	Drafted int
	// Transfers says that another server computes the KV of prompts, to be fetched from it; with Offloads the KV is
	// kept in host memory.
	Transfers, Offloads bool
	// ChecksNaN says that logits are searched for NaN (VLLM_COMPUTE_NANS_IN_LOGITS=1).
	ChecksNaN bool
}

// usedOptions lists the options that have their own metrics, as engine.Family.Needs names them.
func (s Server) usedOptions() (out []string) {
	if s.Drafted > 0 {
		out = append(out, "--speculative-config")
	}
	switch {
	case s.Offloads:
		out = append(out, "KV offloading")
	case s.Transfers:
		out = append(out, "the NIXL connector")
	}
	if s.ChecksNaN {
		out = append(out, "VLLM_COMPUTE_NANS_IN_LOGITS=1")
	}
	return out
}

// A call is one request to the API.
type call struct {
	handler  string
	received int // bytes of its body
	prompt   int // tokens
	output   int // tokens that it will get
	limit    int // most tokens that it asked for
	priority int
	blocks   []uint64
	caller   caller

	replica *replica
	id      int // in the engine
	stage   stage
	arrived time.Duration
	first   time.Duration // first token
	last    time.Duration // latest token
	tokens  int           // so far
	outputs int           // steps that are still to bring tokens
	cached  int           // prompt tokens from the prefix cache
	fetched bool          // its prompt's KV came from another server
}

// A caller receives the events of its request, while the core is at their time.
type caller interface {
	// onToken receives one more token. The API server sends it at the given time, a moment after the step; last says
	// that it is the last.
	onToken(c *call, at time.Duration, last bool)
	// onBroken says that the server died.
	onBroken(c *call, at time.Duration)
}

// A stage is the progress of a call.
type stage uint8

const (
	inbox    stage = iota // sent to the engine process, which reads it between two steps
	inEngine              // known to the scheduler
	over
)

// readiness is the time between the starts of two replicas. No two real processes start in the same microsecond: two
// with equal creation times would look like one.
const readiness = 1003 * time.Microsecond

// A replica is one vLLM server in simulated time: an API server process, which always answers, and an engine process,
// which reads its inbox and reports between two steps only. So an engine that hangs raises no error and freezes the
// gauges, and requests that arrive during a long step are in no queue.
type replica struct {
	cfg    Server
	number int // from 0
	wall   func(time.Duration) time.Time

	// How the release counts:
	uncached bool // a step's tokens exclude cached ones
	admitted bool // prefix cache lookups count admitted requests only

	weight   float64 // in the router's choice
	up, hung bool
	missing  int // every n-th scrape gets no page; 0: all do
	asked    int // number of scrapes
	engine   sim.Driver
	metrics  *engineMetrics
	api      *apiMetrics
	born     time.Duration // when it began to serve
	gpu      gpu
	leak     float64 // bytes that each request leaks
	accepted float64 // share of drafted tokens that the model accepts
	failing  share   // KV transfers that fail
	corrupt  share   // requests whose logits hold NaN

	unfilled      bool          // prompts come without their KV
	transferTakes time.Duration // duration of a KV transfer
	held          time.Duration // how long a request waits before the engine process
	later         func(at time.Duration, do func(at time.Duration))

	inbox     []*call
	left      []*call // aborted, not yet read by the engine
	calls     map[int]*call
	advancing bool // a caller is reacting to a token

	frontend time.Duration // when the API server has sent all its tokens
}

// A share selects a share of events, evenly.
type share struct{ of, owed float64 }

func (s *share) takeNext() bool {
	s.owed += s.of
	if s.owed < 1 {
		return false
	}
	s.owed--
	return true
}

// frontendTime is how long the API server's single thread takes to send a token. The tokens of a step do not leave it
// at once (vllm/v1/engine/async_llm.py@v0.23.0, output_handler).
const frontendTime = 20 * time.Microsecond

// newReplica returns a replica that is not started.
func newReplica(cfg Server, number int, wall func(time.Duration) time.Time) *replica {
	return &replica{
		cfg: cfg, number: number, wall: wall, gpu: newGPU(number),
		uncached: cfg.Release.AtLeast("0.23"), admitted: cfg.Release.AtLeast("0.27"),
	}
}

// startServer starts the server with an empty cache and counters at zero.
func (r *replica) startServer(at time.Duration) error {
	cfg := r.cfg.Engine
	cfg.MaxQueuedRequests, cfg.MaxQueuedTokens = 0, 0 // the API server's business
	e, err := sim.New(cfg, r.cfg.Cost)
	if err != nil {
		return err
	}
	r.up, r.hung = true, false
	r.engine = sim.Driver{Engine: e, Now: at, Ended: r.reportStep, Between: func() bool {
		r.readInbox()
		return r.up
	}}
	r.metrics = newEngineMetrics(r.cfg.Release, r.cfg.Engine.MaxModelLen, r.cfg.usedOptions())
	r.api = newAPIMetrics(r.wall(at))
	r.born = at
	r.calls = make(map[int]*call)
	r.gpu.restart(at)
	return nil
}

// stopServer kills the server, and calls onBroken for its calls.
func (r *replica) stopServer(at time.Duration) {
	if !r.up {
		return
	}
	broken := r.inbox
	ids := make([]int, 0, len(r.calls))
	for id := range r.calls {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		broken = append(broken, r.calls[id])
	}
	r.up, r.engine.Executing, r.inbox, r.left, r.calls = false, false, nil, nil, nil
	for _, c := range broken {
		if c.stage != over {
			c.stage = over
			c.caller.onBroken(c, at)
		}
	}
}

// setHung stops the engine process, or continues it.
func (r *replica) setHung(hung bool, at time.Duration) {
	if r.hung == hung || !r.up {
		return
	}
	r.hung = hung
	if !hung {
		r.engine.Now = max(r.engine.Now, at)
		r.engine.Due = max(r.engine.Due, at)
		r.advanceTo(at)
	}
}

// HTTP statuses of the API server.
const (
	statusOK          = 200
	statusBad         = 400
	statusNotFound    = 404
	statusUnavailable = 503
	// countedEmpty is the status that a real server counts for a request without a prompt, to which it answers 400.
	countedEmpty = 500
)

// checkRefusal returns the status with which vLLM's API server refuses a call, or statusOK.
func (r *replica) checkRefusal(c *call) int {
	cfg := &r.cfg.Engine
	switch {
	case c.prompt+c.limit > cfg.MaxModelLen || c.prompt < 1 || c.limit < 1:
		return statusBad
	case cfg.MaxQueuedRequests > 0 && r.openRequests() >= cfg.MaxQueuedRequests:
		r.metrics.rejections[byRequests]++
		return statusUnavailable
	}
	return statusOK
}

// openRequests is the number of requests in the server.
func (r *replica) openRequests() int { return len(r.inbox) + len(r.calls) }

// submitCall takes a call, or returns the status of its refusal.
func (r *replica) submitCall(c *call, at time.Duration) int {
	r.api.connections++
	c.arrived, c.replica = at, r
	if refusalStatus := r.checkRefusal(c); refusalStatus != statusOK {
		c.stage = over
		r.countAnswer(c, refusalStatus, at)
		return refusalStatus
	}
	send := func(at time.Duration) {
		if c.stage != over && r.up {
			r.inbox = append(r.inbox, c)
			r.wakeEngine(at)
		}
	}
	if held := r.held + r.fetchKV(c); held > 0 {
		r.later(at+held, send)
	} else {
		send(at)
	}
	return statusOK
}

// countAnswer counts the end of an HTTP request.
func (r *replica) countAnswer(c *call, status int, at time.Duration) {
	r.api.connections--
	r.api.memory += r.leak
	r.api.cpu += 0.002
	r.api.countExchange(exchange{
		handler: c.handler, method: "POST", status: status, took: at - c.arrived, received: c.received,
	})
}

// abortCall ends a call whose client left. The engine reads it between two steps. Its counts so far stay, and nothing
// more is counted (vllm-project/vllm#31503).
func (r *replica) abortCall(c *call, at time.Duration) {
	if c.stage == over || !r.up {
		return
	}
	was := c.stage
	c.stage = over
	r.countAnswer(c, statusOK, at)
	if was == inEngine {
		r.left = append(r.left, c)
		r.wakeEngine(at)
	}
}

// wakeEngine lets a waiting engine read its inbox.
func (r *replica) wakeEngine(at time.Duration) {
	if !r.engine.Executing && !r.advancing {
		r.engine.Now = max(r.engine.Now, at)
		r.advanceTo(at)
	}
}

// nextEvent is when the engine's next event is.
func (r *replica) nextEvent() (time.Duration, bool) {
	return r.engine.Due, r.engine.Executing && r.up && !r.hung
}

// advanceTo runs the engine's steps up to a time.
func (r *replica) advanceTo(until time.Duration) {
	if !r.up || r.hung {
		return
	}
	r.advancing = true
	defer func() { r.advancing = false }()
	r.engine.Advance(until)
}

// readInbox passes the API server's calls and aborts to the scheduler.
func (r *replica) readInbox() {
	for _, c := range r.left {
		r.engine.Cancel(c.id, r.engine.Now)
		delete(r.calls, c.id)
	}
	for _, c := range r.inbox {
		if c.stage == over {
			continue
		}
		id, err := r.engine.Add(sim.Request{
			Arrival: r.engine.Now, PromptTokens: c.prompt, OutputTokens: r.outputSteps(c), MaxTokens: c.limit,
			Priority: c.priority, Blocks: c.blocks,
		})
		if err != nil { // checkRefusal has refused everything that Add refuses
			continue
		}
		c.id, c.stage = id, inEngine
		r.calls[id] = c
	}
	clear(r.left)
	clear(r.inbox)
	r.left, r.inbox = r.left[:0], r.inbox[:0]
}

// kvBytes is the size of a token in the KV cache of an 8B model: 32 layers, 8 heads of 128, keys and values of two
// bytes.
const kvBytes = 32 * 8 * 128 * 2 * 2

// fetchKV fetches a prompt's KV from the server that computed it, and returns the duration.
func (r *replica) fetchKV(c *call) time.Duration {
	if !r.cfg.Transfers || r.unfilled {
		return 0
	}
	if c.fetched = !r.failing.takeNext(); !c.fetched {
		r.metrics.failedTransfers++
		return 0
	}
	r.metrics.transfer.Observe(r.transferTakes.Seconds())
	r.metrics.transferBytes.Observe(float64(c.prompt) * kvBytes)
	return r.transferTakes
}

// outputSteps is the number of steps in which a call's tokens come. In each but the first, the model accepts its share
// of the drafted tokens, and adds a token of its own.
func (r *replica) outputSteps(c *call) int {
	c.outputs = 1 + int(math.Ceil(float64(c.output-1)/(1+r.accepted*float64(r.cfg.Drafted))))
	return c.outputs
}

// countTokens returns the number of tokens in the next output of a call.
func (r *replica) countTokens(c *call, emitted *sim.Output) int64 {
	c.outputs--
	drafted := int64(r.cfg.Drafted)
	if drafted == 0 || emitted.First {
		return 1
	}
	n := int64(1)
	if left := c.outputs + 1; left > 0 {
		n = int64((c.output - c.tokens + left - 1) / left)
	}
	r.metrics.drafts++
	r.metrics.drafted += drafted
	r.metrics.accepted += n - 1
	return n
}

// reportStep counts a step's tokens and passes them to the callers, which may answer with another call.
func (r *replica) reportStep(outputs []sim.Output) {
	r.publishStats()
	m, at := r.metrics, r.engine.Now
	step := 0
	type event struct {
		c    *call
		done bool
	}
	var events []event
	for i := range outputs {
		out := &outputs[i]
		c := r.calls[out.ID]
		if c == nil {
			continue
		}
		got := r.countTokens(c, out)
		if c.stage != over {
			for k := range got {
				events = append(events, event{c, out.Result != nil && k == got-1})
			}
		}
		m.generation += got
		step += int(got)
		if out.First {
			c.cached = out.Cached
			c.first = at
			m.prompt += int64(c.prompt)
			m.cached += int64(c.cached)
			if r.cfg.Transfers {
				m.externalQueries += int64(c.prompt - c.cached)
			}
			if c.fetched {
				m.transferred += int64(c.prompt - c.cached)
			}
			step += c.prompt
			if r.uncached {
				step -= c.cached
			}
			if c.stage != over {
				m.ttft.Observe((at - c.arrived).Seconds())
			}
		} else if c.stage != over {
			m.itl.Observe((at - c.last).Seconds())
		}
		c.last = at
		c.tokens += int(got)
		if out.Result != nil {
			delete(r.calls, out.ID)
			if c.stage != over {
				r.countFinished(c, out.Result)
			}
		}
	}
	if len(outputs) > 0 {
		m.iteration.Observe(float64(step))
		r.api.cpu += 60e-6 * float64(len(outputs))
	}
	for _, e := range events {
		if e.done {
			e.c.stage = over
			r.countAnswer(e.c, statusOK, at)
		}
		r.frontend = max(r.frontend, at) + frontendTime
		e.c.caller.onToken(e.c, r.frontend, e.done)
	}
}

// publishStats copies the scheduler's statistics after a step.
func (r *replica) publishStats() {
	s, m := r.engine.Stats(), r.metrics
	m.running, m.waiting = s.Running, s.Waiting
	m.usage = float64(s.UsedBlocks) / float64(r.cfg.Engine.NumBlocks-1)
	m.preemptions = s.Preemptions
	m.admittedHits = s.PrefixAdmittedHit
	m.queries, m.hits = s.PrefixLookedUp, s.PrefixHit
	if r.admitted {
		m.queries, m.hits = s.PrefixAdmittedLookedUp, s.PrefixAdmittedHit
	}
}

// countFinished counts a request that got all its tokens. Only finished requests reach these histograms, so abandoned
// requests are missing from them.
func (r *replica) countFinished(c *call, res *sim.RequestResult) {
	m, at := r.metrics, r.engine.Now
	reason := byLength
	if c.output < c.limit {
		reason = byStop
	}
	m.success[reason]++
	if r.corrupt.takeNext() {
		m.corrupted++
	}
	decode := c.last - c.first
	m.e2e.Observe((at - c.arrived).Seconds())
	m.queue.Observe(res.Queue().Seconds())
	m.prefill.Observe((c.first - res.Scheduled).Seconds())
	m.decode.Observe(decode.Seconds())
	m.inference.Observe((c.last - res.Scheduled).Seconds())
	tpot := 0.0
	if c.tokens > 1 {
		tpot = decode.Seconds() / float64(c.tokens-1)
	}
	m.tpot.Observe(tpot)
	m.promptLen.Observe(float64(c.prompt))
	m.outputLen.Observe(float64(c.tokens))
	m.maxOutput.Observe(float64(c.tokens))
	m.limit.Observe(float64(c.limit))
	m.n.Observe(1)
	computed := c.prompt - c.cached
	if c.fetched {
		computed = 0
	}
	m.computed.Observe(float64(computed))
	m.preempted.Observe(float64(res.Preemptions))
}

// errDown is the error of a server that is down.
var errDown = errors.New("the server is down")

// errLate is the error of a page that missed the scrape's timeout.
var errLate = errors.New("the page is late")

// metricsPage writes the answer of /metrics.
func (r *replica) metricsPage() ([]byte, error) {
	if !r.up {
		return nil, errDown
	}
	if r.asked++; r.missing > 0 && r.asked%r.missing == 0 {
		return nil, errLate
	}
	p := &page{}
	r.api.addProcess(p)
	r.metrics.addFamilies(p, r.cfg.Model, r.wall(r.born).Add(-time.Duration(r.number)*readiness))
	p.addFamily("vllm:cache_config_info", "Configuration of the KV cache.", dto.MetricType_GAUGE,
		newGauge(1, r.cacheConfig()...))
	r.api.addHTTP(p)
	return p.encodePage()
}

// cacheConfig returns the labels of vllm:cache_config_info, all fields of vLLM's CacheConfig. They differ between
// releases (vllm/config/cache.py at 0.10.2, 0.23.0 and 0.32.0, as real servers showed them).
func (r *replica) cacheConfig() []*dto.LabelPair {
	cfg, rel := r.cfg.Engine, r.cfg.Release
	concurrency := float64(cfg.CacheSize()) / float64(cfg.MaxModelLen)
	values := map[string]string{
		"block_size": strconv.Itoa(cfg.BlockSize), "num_gpu_blocks": strconv.Itoa(cfg.NumBlocks),
		"effective_attention_block_size": strconv.Itoa(cfg.BlockSize),
		"enable_prefix_caching":          pythonBool(cfg.PrefixCaching),
		"gpu_memory_utilization":         strconv.FormatFloat(vllm.Utilization(rel), 'g', -1, 64),
		"kv_cache_size_tokens":           strconv.Itoa(cfg.CacheSize()),
		"kv_cache_max_concurrency":       strconv.FormatFloat(concurrency, 'g', -1, 64),
		"engine":                         "0",
	}
	var labels []*dto.LabelPair
	for _, f := range cacheFields {
		if !rel.AtLeast(f.since) || f.before != "" && rel.AtLeast(f.before) {
			continue
		}
		v := f.value
		if v == "" {
			v = values[f.name]
		}
		labels = append(labels, newLabel(f.name, v))
	}
	return labels
}

func pythonBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

//go:embed cachefields.csv
var cacheFieldsText string

// A cacheField is a row of cachefields.csv.
type cacheField struct {
	name, value   string
	since, before engine.Release
}

var cacheFields = func() (out []cacheField) {
	for line := range strings.Lines(cacheFieldsText) {
		if c := strings.Split(strings.TrimSpace(line), ","); len(c) == 4 && c[0] != "name" {
			out = append(out, cacheField{c[0], c[1], engine.Release(c[2]), engine.Release(c[3])})
		}
	}
	return out
}()
