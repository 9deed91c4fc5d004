package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Reasons for which Add refuses a request. vLLM answers HTTP 503 if the queue is full, and 400 if the prompt is too
// long. It would queue a request that never fits for ever.
var (
	ErrQueueFull     = errors.New("queue is full")
	ErrPromptTooLong = errors.New("prompt leaves no room below max-model-len")
	ErrNeverFits     = errors.New("request is larger than the KV cache")
)

// A RequestResult is what happened to one request. Times are offsets from the beginning of the simulation. A time is
// valid only if the outcome implies that its event happened.
type RequestResult struct {
	Arrival    time.Duration
	Scheduled  time.Duration // first scheduled
	FirstToken time.Duration
	LastToken  time.Duration // last token so far
	Finish     time.Duration

	Outcome      Outcome
	PromptTokens int
	OutputTokens int // tokens delivered
	CachedTokens int // prompt tokens served by the prefix cache when first scheduled
	Preemptions  int
	MaxITL       time.Duration // longest gap between two tokens
	Replica      int           // index of the engine that served it
	Frontend     time.Duration // from arrival to the arrival at the engine

	// The engine's Work, since its beginning, when the request was first scheduled, had its first token and had its
	// last one. Differences are the work that the request waited for.
	WorkAtScheduled, WorkAtFirst, WorkAtLast Work
}

// TTFT is the time to first token, from arrival.
func (r *RequestResult) TTFT() time.Duration { return r.FirstToken - r.Arrival }

// Queue is the time from the arrival at the engine to the first scheduling.
func (r *RequestResult) Queue() time.Duration { return r.Scheduled - r.Arrival - r.Frontend }

// E2E is the time from arrival to the last token.
func (r *RequestResult) E2E() time.Duration { return r.Finish - r.Arrival }

// TPOT is the mean time per output token after the first, and 0 for a request with one token.
func (r *RequestResult) TPOT() time.Duration {
	if r.OutputTokens < 2 {
		return 0
	}
	return (r.LastToken - r.FirstToken) / time.Duration(r.OutputTokens-1)
}

// An Outcome says how a request ended.
type Outcome uint8

const (
	Unfinished    Outcome = iota // still waiting or running
	Finished                     // all tokens delivered
	Cancelled                    // the client left
	QueueFull                    // refused with ErrQueueFull
	PromptTooLong                // refused with ErrPromptTooLong
	NeverFits                    // refused with ErrNeverFits
)

// String names the outcome.
func (o Outcome) String() string {
	names := [...]string{"unfinished", "finished", "cancelled", "queue full", "prompt too long", "never fits"}
	if int(o) < len(names) {
		return names[o]
	}
	return "unknown"
}

// A state is a request's place in the engine.
type state uint8

const (
	waiting state = iota
	running
	preempted
	ended
)

// A request is a Request inside an engine. tokens, computed and placeholders are vLLM's num_tokens, num_computed_tokens
// and num_output_placeholders (v1/request.py@v0.23.0).
type request struct {
	id, priority int
	arrival      time.Duration
	hashes       []uint64
	prompt       int
	maxTokens    int // limit that the scheduler knows
	target       int // output tokens after which it ends

	state        state
	tokens       int // known tokens: prompt plus delivered output
	computed     int // tokens whose keys and values are, or are being, computed
	placeholders int // output tokens scheduled and not yet delivered
	blocks       []int32
	cached       int          // leading blocks that others can find
	found        int          // leading blocks found in the prefix cache at the last admission
	kept         []keptBlocks // from before preemptions, the oldest first

	result RequestResult
}

// ComesBefore orders requests by the priority policy.
func (r *request) ComesBefore(o *request) bool {
	if r.priority != o.priority {
		return r.priority < o.priority
	}
	if r.arrival != o.arrival {
		return r.arrival < o.arrival
	}
	return r.id < o.id
}

func (r *request) generatedTokens() int { return r.tokens - r.prompt }

// keptBlocks are blocks that a request had when it was preempted, beginning with block number firstIndex. They can
// serve the request again while they still hold its content.
type keptBlocks struct {
	firstIndex int
	blocks     []int32
}

// rememberBlocks adds the blocks of a request that is preempted to kept, except those that the prefix cache had at its
// admission. Older blocks come first, because a lookup finds the oldest. Blocks that were evicted are dropped, since
// they may hold other content.
func (r *request) rememberBlocks(p *blockPool) {
	fresh := keptBlocks{r.found, slices.Clone(r.blocks[min(r.found, len(r.blocks)):])}
	r.kept = slices.DeleteFunc(r.kept, func(k keptBlocks) bool {
		left := false
		for i, b := range k.blocks {
			at := k.firstIndex + i
			inFresh := at >= fresh.firstIndex && at < len(r.blocks) && r.blocks[at] == b
			if inFresh || p.hashOf[b] != r.blockHash(at) {
				k.blocks[i] = 0 // the placeholder, which has no content
			} else {
				left = true
			}
		}
		return !left
	})
	r.kept = append(r.kept, fresh)
}

// findOwnBlock finds a block with the request's own content, computed before it was preempted.
func (r *request) findOwnBlock(p *blockPool, at int) (int32, bool) {
	for _, k := range r.kept {
		if i := at - k.firstIndex; i >= 0 && i < len(k.blocks) && p.hashOf[k.blocks[i]] == r.blockHash(at) {
			return k.blocks[i], true
		}
	}
	return 0, false
}

// blockHash returns the content hash of block i: the given one or, beyond the end of these, one that no other request
// has.
func (r *request) blockHash(i int) uint64 {
	if i < len(r.hashes) {
		return max(r.hashes[i]&^privateHash, 1) // 0 is "not cached"
	}
	return privateHash | uint64(r.id)<<24 | uint64(i)
}

// privateHash is the bit of hashes that only one request has.
const privateHash = 1 << 63

// An entry is one request's share of a batch.
type entry struct {
	r       *request
	n       int  // tokens
	samples bool // it gives a token, because it is no partial prefill
}

// A batch is a scheduled step (vLLM's SchedulerOutput).
type batch struct {
	entries []entry
	work    Work
	end     time.Duration
}

// Stats are an engine's gauges and counters.
type Stats struct {
	Running, Waiting int
	UsedBlocks       int // blocks that requests hold; cached free ones are not counted

	Work             Work // model executions completed
	Preemptions      int64
	PromptTokens     int64 // prompt tokens of requests that got their first token
	GenerationTokens int64 // output tokens delivered

	// Prefix cache look-ups in tokens, without look-ups of preempted requests. PrefixLookedUp and PrefixHit count every
	// scheduling attempt, as vllm:prefix_cache_queries_total did up to 0.26. The other two count once per admission, as
	// it does from 0.27.
	PrefixLookedUp, PrefixHit                 int64
	PrefixAdmittedLookedUp, PrefixAdmittedHit int64

	Busy time.Duration // time during which a step was in execution

	// Peak has the largest Seqs, Tokens and KVTokens of any one step.
	Peak Work
}

// An Output is one token of a request.
type Output struct {
	ID     int
	First  bool           // the request's first token
	Cached int            // with First: prompt tokens that the prefix cache served
	Result *RequestResult // the result of the request, if this token ends it; else nil
}

// An Engine is the scheduler of one vLLM engine with its KV cache. A Driver runs it through time. An Engine is not safe
// for concurrent use.
type Engine struct {
	cfg  Config
	cost StepCost

	requests map[int]*request
	nextID   int
	retired  [2][]*request // requests that ended since the last step ended, and since the step before it
	unused   []*request    // requests that ended, whose memory may be used again
	waiting  waitingQueue
	running  []*request
	pool     *blockPool

	inFlight  []*batch // in execution, at most depth, the oldest first
	depth     int
	spare     []*batch      // whose memory may be used again
	deviceEnd time.Duration // when the last scheduled step ends
	now       time.Duration

	stats         Stats
	prefillTokens int // prompt tokens of requests without a first token

	// steady says that the last scheduled step decoded one token of every running request, and that since then requests
	// only progressed. blocked says that this step did not admit the head of the queue, for lack of blocks or tokens.
	steady, blocked bool

	hits    []int32 // scratch of findCachedBlocks
	outputs []Output
	ff      fastForwardScratch

	gaps    gapCounter
	sampler *sampler // nil: not sampled
}

// New returns an idle engine.
func New(cfg Config, cost StepCost) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := cost.Validate(); err != nil {
		return nil, err
	}
	e := &Engine{
		cfg:      cfg,
		cost:     cost,
		requests: make(map[int]*request),
		waiting:  waitingQueue{policy: cfg.Policy},
		pool:     newBlockPool(cfg.NumBlocks),
		depth:    1,
	}
	if cfg.AsyncScheduling {
		e.depth = 2 // max_concurrent_batches, config/vllm.py@v0.23.0
	}
	return e, nil
}

// Add queues a request and returns its number. A request that is malformed or refused gives an error, which is one of
// the sentinels where it was refused.
func (e *Engine) Add(r Request) (int, error) {
	if err := r.validate(); err != nil {
		return 0, fmt.Errorf("request: %w", err)
	}
	limit := r.MaxTokens
	if limit == 0 {
		limit = r.OutputTokens
	}
	switch room := e.cfg.MaxModelLen - r.PromptTokens; {
	case room < 1:
		return 0, ErrPromptTooLong
	case !e.cfg.Fits(r.PromptTokens, r.OutputTokens):
		return 0, ErrNeverFits
	case e.cfg.MaxQueuedRequests > 0 && len(e.running)+e.waiting.len() >= e.cfg.MaxQueuedRequests,
		e.cfg.MaxQueuedTokens > 0 && e.prefillTokens >= e.cfg.MaxQueuedTokens:
		return 0, ErrQueueFull
	default:
		limit = min(limit, room)
	}
	e.sampleUntil(r.Arrival)
	q := e.newRequest()
	*q = request{
		id:        e.nextID,
		priority:  r.Priority,
		arrival:   r.Arrival,
		hashes:    r.Blocks,
		prompt:    r.PromptTokens,
		tokens:    r.PromptTokens,
		maxTokens: limit,
		target:    min(r.OutputTokens, limit),
		blocks:    q.blocks[:0],
		result:    RequestResult{Arrival: r.Arrival, PromptTokens: r.PromptTokens},
	}
	e.nextID++
	e.requests[q.id] = q
	e.prefillTokens += q.prompt
	e.waiting.push(q)
	e.steady = false
	return q.id, nil
}

// newRequest takes the memory of a request that ended, if there is one.
func (e *Engine) newRequest() *request {
	n := len(e.unused)
	if n == 0 {
		return &request{}
	}
	q := e.unused[n-1]
	e.unused = e.unused[:n-1]
	return q
}

// Cancel ends a request whose client left and returns its result, or nil if the request has ended or was never added. A
// step in execution is not interrupted. The result is valid until the next step.
func (e *Engine) Cancel(id int, at time.Duration) *RequestResult {
	r := e.requests[id]
	if r == nil {
		return nil
	}
	e.sampleUntil(at)
	if r.state == running {
		e.running = removeFrom(e.running, r)
	} else {
		e.waiting.dropEnded()
	}
	e.endRequest(r, Cancelled, at)
	e.steady = false
	return &r.result
}

// HasWork reports whether there is something to schedule or to complete.
func (e *Engine) HasWork() bool { return e.hasUnfinished() || len(e.inFlight) > 0 }

func (e *Engine) hasUnfinished() bool { return len(e.running)+e.waiting.len() > 0 }

// SetCost changes how long the steps scheduled from now on take, as if a clock were throttled or another process used
// the memory's bandwidth.
func (e *Engine) SetCost(cost StepCost) error {
	if err := cost.Validate(); err != nil {
		return err
	}
	e.cost = cost
	return nil
}

// Stats returns the gauges and counters as they stand.
func (e *Engine) Stats() Stats {
	s := e.stats
	s.Running, s.Waiting = len(e.running), e.waiting.len()
	s.UsedBlocks = e.usedBlocks()
	return s
}

func (e *Engine) usedBlocks() int { return e.cfg.usableBlocks() - e.pool.freeCount }

// Schedule forms the next batch. Time never goes back between calls. If wait is true, the caller must call Complete at
// the time due. Otherwise it must schedule again at once, because the engine keeps a second batch ready
// (EngineCore.step_with_batch_queue, v1/engine/core.py@v0.23.0).
func (e *Engine) Schedule(now time.Duration) (due time.Duration, wait bool) {
	e.moveClock(now)
	if e.hasUnfinished() {
		b := e.formBatch()
		executed := len(b.entries) > 0
		var takes time.Duration
		if executed {
			takes = e.cost.timeStep(&b.work)
		}
		e.launchBatch(b, max(now, e.deviceEnd)+takes, takes)
		if len(e.inFlight) < e.depth && (executed || e.hasUnfinished()) {
			return 0, false
		}
	}
	if len(e.inFlight) == 0 {
		return now, false
	}
	return e.inFlight[0].end, true
}

// launchBatch puts a batch into execution until a time.
func (e *Engine) launchBatch(b *batch, end, takes time.Duration) {
	b.end = end
	if len(b.entries) > 0 {
		e.deviceEnd = end
		e.stats.Busy += takes
		e.stats.Peak.raiseTo(b.work)
	}
	e.inFlight = append(e.inFlight, b)
}

// Complete ends the oldest batch in execution and returns its tokens (Scheduler.update_from_output,
// v1/core/sched/scheduler.py@v0.23.0). The next call overwrites the slice.
func (e *Engine) Complete(now time.Duration) []Output {
	e.outputs = e.outputs[:0]
	if len(e.inFlight) == 0 {
		return e.outputs
	}
	e.moveClock(now)
	b := e.inFlight[0]
	e.inFlight = append(e.inFlight[:0], e.inFlight[1:]...)
	e.stats.Work.Add(b.work)
	// Requests that ended before the previous step are in no batch any more.
	e.unused = append(e.unused, e.retired[1]...)
	e.retired[0], e.retired[1] = e.retired[1][:0], e.retired[0]
	stopped := false
	for _, en := range b.entries {
		if en.samples && en.r.state != ended {
			stopped = e.deliverToken(en.r, now) || stopped
		}
	}
	if stopped {
		e.running = removeEnded(e.running)
		e.steady = false
	}
	b.entries = b.entries[:0]
	b.work = Work{}
	e.spare = append(e.spare, b)
	return e.outputs
}

// deliverToken appends a token to a request and reports whether that ended it.
func (e *Engine) deliverToken(r *request, now time.Duration) bool {
	was := r.state
	r.tokens++
	if e.cfg.AsyncScheduling {
		r.placeholders--
		if was == running {
			e.cacheBlocks(r, r.computed-r.placeholders) // async_scheduler.py@v0.23.0
		}
	}
	out := Output{ID: r.id}
	e.stats.GenerationTokens++
	r.result.OutputTokens++
	if r.generatedTokens() == 1 {
		out.First, out.Cached = true, r.result.CachedTokens
		e.prefillTokens -= r.prompt
		e.stats.PromptTokens += int64(r.prompt)
		r.result.FirstToken = now
		r.result.WorkAtFirst = e.stats.Work
	} else {
		e.recordGap(r, now-r.result.LastToken)
	}
	r.result.LastToken = now
	stopped := r.generatedTokens() >= r.target
	if stopped {
		if was != running {
			e.waiting.dropEnded()
		}
		e.endRequest(r, Finished, now)
		out.Result = &r.result
	}
	e.outputs = append(e.outputs, out)
	return stopped
}

func (e *Engine) recordGap(r *request, d time.Duration) {
	r.result.MaxITL = max(r.result.MaxITL, d)
	e.gaps.add(d, 1)
}

// A gapCounter counts gaps between tokens. Most gaps of one step are equal, so it counts runs.
type gapCounter struct {
	histogram *hdrhistogram.Histogram // nanoseconds; nil: not counted
	report    func(d time.Duration, n int64)
	last      time.Duration
	count     int64 // gaps equal to last that are not in the histogram yet

	limit time.Duration // 0: none
	above int64         // gaps longer than limit
}

func (g *gapCounter) add(d time.Duration, n int64) {
	if d != g.last {
		g.flush()
		g.last = d
	}
	g.count += n
	if g.limit > 0 && d > g.limit {
		g.above += n
	}
}

func (g *gapCounter) flush() {
	if g.histogram != nil && g.count > 0 {
		g.histogram.RecordValues(int64(g.last), g.count) //nolint:errcheck // longer gaps count in MaxITL only
	}
	if g.report != nil && g.count > 0 {
		g.report(g.last, g.count)
	}
	g.count = 0
}

// endRequest takes a request out of the engine; the caller removes it from its queue.
func (e *Engine) endRequest(r *request, o Outcome, at time.Duration) {
	e.pool.releaseBlocks(r.blocks)
	r.blocks = r.blocks[:0]
	if r.state == running { // other requests stay in the queue until they come up there
		e.retired[0] = append(e.retired[0], r)
	}
	r.state = ended
	r.result.Outcome = o
	r.result.Finish = at
	r.result.WorkAtLast = e.stats.Work
	if r.result.OutputTokens == 0 {
		e.prefillTokens -= r.prompt
	}
	delete(e.requests, r.id)
}

// moveClock moves the clock to now, with the samples until then.
func (e *Engine) moveClock(now time.Duration) {
	e.sampleUntil(now)
	e.now = now
}

// sampleUntil samples the present state for the time until now. Call it before the state changes.
func (e *Engine) sampleUntil(now time.Duration) {
	if e.sampler != nil {
		e.sampler.recordUntil(e, now)
	}
}

func removeFrom(rs []*request, r *request) []*request {
	for i, x := range rs {
		if x == r {
			return append(rs[:i], rs[i+1:]...)
		}
	}
	return rs
}

func removeEnded(rs []*request) []*request {
	kept := rs[:0]
	for _, r := range rs {
		if r.state != ended {
			kept = append(kept, r)
		}
	}
	clear(rs[len(kept):])
	return kept
}
