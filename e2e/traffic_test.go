//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// The token ids of prompts: the model's vocabulary without special tokens.
const (
	firstToken = 3
	lastToken  = 4000
	maxOpen    = 2000 // requests in flight per traffic, so that a hang stays bounded

	callTimeout = 10 * time.Second
)

// Lengths is a distribution of lengths in tokens; exactly one field is set.
type Lengths struct {
	Constant  int         `json:"constant,omitempty"`
	Uniform   *[2]int     `json:"uniform,omitempty"`   // least, most
	Lognormal *[4]float64 `json:"lognormal,omitempty"` // median, sigma, least, most
}

func constant(n int) Lengths          { return Lengths{Constant: n} }
func uniform(least, most int) Lengths { return Lengths{Uniform: &[2]int{least, most}} }
func lognormal(median, sigma, least, most float64) Lengths {
	return Lengths{Lognormal: &[4]float64{median, sigma, least, most}}
}

func (l Lengths) draw(r *rand.Rand) int {
	switch {
	case l.Uniform != nil:
		return l.Uniform[0] + r.IntN(l.Uniform[1]-l.Uniform[0]+1)
	case l.Lognormal != nil:
		p := *l.Lognormal
		return int(min(max(p[0]*math.Exp(p[1]*r.NormFloat64()), p[2]), p[3]))
	default:
		return max(l.Constant, 1)
	}
}

// Shared says how many prompts begin with one of a few common prefixes. Two
// traffics with the same key share their prefixes.
type Shared struct {
	Tokens   int     `json:"tokens"`
	Fraction float64 `json:"fraction"`
	Prefixes int     `json:"prefixes"`
	Key      string  `json:"key"`
	Front    int     `json:"front,omitempty"` // random tokens before the prefix, which makes it useless for the cache
}

// Bursts adds Size requests at once, every Every seconds.
type Bursts struct {
	Every float64 `json:"every"`
	Size  int     `json:"size"`
}

// Badness is the kind of a request that a server must refuse.
type Badness string

// What vLLM 0.23.0 answers, and what it counts in http_requests_total. An error after the request's validation becomes
// an answer outside of the middleware that counts, which sees an exception: 5xx.
const (
	BadMaxTokens  Badness = "max_tokens -1"   // 400, counted 4xx
	BadModel      Badness = "unknown model"   // 404, counted 4xx
	BadToken      Badness = "token id 999999" // 200 and an error chunk, counted 2xx
	BadEmptyBatch Badness = "no prompt"       // 400, counted 5xx
)

// Traffic is an open loop with a Rate, a closed loop with Clients, or both, with Bursts on top. Times are in seconds.
type Traffic struct {
	Rate    float64 `json:"rate,omitempty"`    // requests a second, Poisson
	RateTo  float64 `json:"rate_to,omitempty"` // Rate becomes this, linearly, by the end of the phase
	Clients int     `json:"clients,omitempty"` // each sends its next request when the last one ended
	Bursts  *Bursts `json:"bursts,omitempty"`

	Prompt Lengths `json:"prompt"`
	Output Lengths `json:"output"`
	Shared *Shared `json:"shared,omitempty"`

	CancelFraction float64   `json:"cancel_fraction,omitempty"` // clients that disconnect …
	CancelAfter    *[2]int   `json:"cancel_after,omitempty"`    // … after so many streamed chunks
	CancelSeconds  float64   `json:"cancel_seconds,omitempty"`  // … or so long after they asked
	Patience       float64   `json:"patience,omitempty"`        // disconnect when no first token came in this time
	BadFraction    float64   `json:"bad_fraction,omitempty"`
	Bad            []Badness `json:"bad,omitempty"`
	HangUp         bool      `json:"hang_up,omitempty"` // all clients disconnect when the phase ends
	Weights        []float64 `json:"weights,omitempty"` // shares of the servers; equal when empty
}

// Calls are requests that generate nothing, as gateways and operators' scripts send them, one every Every seconds.
type Calls struct {
	Method string  `json:"method"`
	Path   string  `json:"path"`
	Every  float64 `json:"every"`
	Target string  `json:"target"`
}

// An outcome is the result of one request, as its client saw it.
type outcome struct {
	Phase  int
	Status int    // 0: no answer
	End    string // ok, cancelled, gave up, hung up, refused, error chunk, driver end, broken
	TTFT   time.Duration
	E2E    time.Duration
	Gaps   []time.Duration // between streamed chunks
}

// A driver sends traffic to servers and collects the outcomes.
type driver struct {
	client  *http.Client
	servers []*Server
	seed    uint64

	mu       sync.Mutex
	outcomes []outcome
	wg       sync.WaitGroup
}

func newDriver(servers []*Server, seed uint64) *driver {
	return &driver{
		client:  &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 4 * time.Second}},
		servers: servers,
		seed:    seed,
	}
}

// start starts a traffic. It sends new requests until phase ends. Requests in flight continue until run ends, or, if
// the traffic hangs up, until phase ends.
func (d *driver) start(run, phase context.Context, number, index int, t Traffic) {
	life := run
	if t.HangUp {
		life = phase
	}
	r := rand.New(rand.NewPCG(d.seed, uint64(number*100+index)))
	var mu sync.Mutex // of r, which arrivals, clients and bursts share
	draw := func() request {
		mu.Lock()
		defer mu.Unlock()
		return d.draw(r, t)
	}
	open := make(chan struct{}, maxOpen)
	send := func() {
		select {
		case open <- struct{}{}:
		default:
			return
		}
		q := draw()
		d.wg.Go(func() {
			defer func() { <-open }()
			d.add(number, d.do(life, run, q))
		})
	}
	if t.Rate > 0 {
		begin := time.Now()
		d.wg.Go(func() {
			for sleep(phase, func() time.Duration {
				rate := t.rate(begin, phase)
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(r.ExpFloat64() / rate * float64(time.Second))
			}()) {
				send()
			}
		})
	}
	if t.Bursts != nil {
		d.wg.Go(func() {
			for sleep(phase, seconds(t.Bursts.Every)) {
				for range t.Bursts.Size {
					send()
				}
			}
		})
	}
	for i := range t.Clients {
		d.wg.Go(func() {
			for ok := sleep(phase, time.Duration(i)*40*time.Millisecond); ok; {
				o := d.do(life, run, draw())
				d.add(number, o)
				pause := time.Millisecond
				if o.Status != http.StatusOK {
					pause = time.Second // do not flood a server that is down
				}
				ok = sleep(phase, pause)
			}
		})
	}
}

// call repeats c until phase ends. No answer is awaited for longer than callTimeout.
func (d *driver) call(phase context.Context, c Calls) {
	for _, s := range d.servers {
		if s.Name != c.Target {
			continue
		}
		d.wg.Go(func() {
			for sleep(phase, seconds(c.Every)) {
				d.wg.Go(func() {
					ctx, cancel := context.WithTimeout(phase, callTimeout)
					defer cancel()
					req, err := http.NewRequestWithContext(ctx, c.Method, s.URL()+c.Path, nil)
					if err != nil {
						return
					}
					resp, err := d.client.Do(req)
					if err != nil {
						return // a sick server need not answer
					}
					_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
					resp.Body.Close()
				})
			}
		})
	}
}

// rate returns the present request rate, per second, of a phase that began at begin.
func (t *Traffic) rate(begin time.Time, phase context.Context) float64 {
	end, ok := phase.Deadline()
	if t.RateTo == 0 || !ok {
		return t.Rate
	}
	return t.Rate + (t.RateTo-t.Rate)*min(time.Since(begin).Seconds()/end.Sub(begin).Seconds(), 1)
}

// sleep waits, and reports whether ctx has not ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (d *driver) add(phase int, o outcome) {
	o.Phase = phase
	d.mu.Lock()
	defer d.mu.Unlock()
	d.outcomes = append(d.outcomes, o)
}

// firstTokens returns TTFT P95 of a phase's clients, and how many have got a first token so far.
func (d *driver) firstTokens(phase int) (p95 time.Duration, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []time.Duration
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.Phase == phase && o.TTFT > 0 {
			all = append(all, o.TTFT)
		}
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[len(all)*95/100], len(all)
}

// A request is one call of /v1/completions and how its client behaves.
type request struct {
	server      *Server
	prompt      []byte // a JSON value
	model       string
	maxTokens   int
	cancelAfter int           // chunks; 0: never
	leaveAfter  time.Duration // 0: never
	patience    time.Duration // 0: for ever
}

func (d *driver) draw(r *rand.Rand, t Traffic) request {
	server := d.pick(r, t.Weights)
	q := request{server: server, model: server.model(), maxTokens: t.Output.draw(r), patience: seconds(t.Patience)}
	n := t.Prompt.draw(r)
	var ids []int
	if s := t.Shared; s != nil && r.Float64() < s.Fraction {
		ids = slices.Concat(random(r, s.Front), prefix(s.Key, r.IntN(max(s.Prefixes, 1)), s.Tokens))
		n = max(n-s.Front, 1)
	} else if s != nil {
		n += s.Tokens // the same length without a shared prefix
	}
	q.prompt = tokens(r, ids, n)
	if r.Float64() < t.CancelFraction {
		q.leaveAfter = seconds(t.CancelSeconds)
		if t.CancelAfter != nil {
			q.cancelAfter = t.CancelAfter[0] + r.IntN(t.CancelAfter[1]-t.CancelAfter[0]+1)
		}
	}
	if len(t.Bad) > 0 && r.Float64() < t.BadFraction {
		switch t.Bad[r.IntN(len(t.Bad))] {
		case BadMaxTokens:
			q.maxTokens = -1
		case BadModel:
			q.model = "no-such-model"
		case BadToken:
			q.prompt = []byte("[999999]")
		case BadEmptyBatch:
			q.prompt = []byte("[]")
		}
	}
	return q
}

func (d *driver) pick(r *rand.Rand, weights []float64) *Server {
	if len(weights) != len(d.servers) {
		return d.servers[r.IntN(len(d.servers))]
	}
	var sum float64
	for _, w := range weights {
		sum += w
	}
	x := r.Float64() * sum
	for i, w := range weights {
		if x -= w; x < 0 {
			return d.servers[i]
		}
	}
	return d.servers[len(d.servers)-1]
}

// prefix returns the tokens of a shared prefix. They are the same for a key and number in every run.
func prefix(key string, number, n int) []int {
	h := fnv.New64a()
	_, _ = io.WriteString(h, key)
	return random(rand.New(rand.NewPCG(h.Sum64(), uint64(number))), n)
}

// random returns n token ids.
func random(r *rand.Rand, n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = firstToken + r.IntN(lastToken-firstToken)
	}
	return ids
}

// tokens returns a JSON list of the prefix and n random token ids.
func tokens(r *rand.Rand, prefix []int, n int) []byte {
	b := []byte{'['}
	for _, id := range slices.Concat(prefix, random(r, n)) {
		b = append(strconv.AppendInt(b, int64(id), 10), ',')
	}
	b[len(b)-1] = ']'
	return b
}

// do sends one request and reads its stream, until life or run ends: life is the client's, run the driver's.
func (d *driver) do(life, run context.Context, q request) (o outcome) {
	begin := time.Now()
	defer func() { o.E2E = time.Since(begin) }()
	ctx, cancel := context.WithCancelCause(life)
	defer cancel(nil)
	errGaveUp, errLeft := errors.New("gave up"), errors.New("cancelled")
	first := func() {}
	if q.patience > 0 {
		t := time.AfterFunc(q.patience, func() { cancel(errGaveUp) })
		defer t.Stop()
		first = func() { t.Stop() }
	}
	if q.leaveAfter > 0 {
		t := time.AfterFunc(q.leaveAfter, func() { cancel(errLeft) })
		defer t.Stop()
	}
	o = d.stream(ctx, q, begin, first, func() { cancel(errLeft) })
	switch {
	case o.End != "":
	case errors.Is(context.Cause(ctx), errGaveUp), errors.Is(context.Cause(ctx), errLeft):
		o.End = context.Cause(ctx).Error()
	case run.Err() != nil:
		o.End = "driver end"
	case life.Err() != nil:
		o.End = "hung up"
	default:
		o.End = "broken"
	}
	return o
}

// stream sends the request and reads its answer. If End is "", the connection ended early; the caller knows why.
func (d *driver) stream(ctx context.Context, q request, begin time.Time, first, leave func()) (o outcome) {
	body := fmt.Sprintf(`{"model":%q,"prompt":%s,"max_tokens":%d,"ignore_eos":true,"stream":true,"temperature":0}`, q.model, q.prompt, q.maxTokens)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, q.server.URL()+"/v1/completions",
		bytes.NewReader([]byte(body)))
	if err != nil {
		o.End = "broken"
		return o
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := d.client.Do(req)
	if err != nil {
		return o
	}
	defer resp.Body.Close()
	o.Status = resp.StatusCode
	if resp.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		o.End = "refused"
		return o
	}
	last := begin
	lines := bufio.NewScanner(resp.Body)
	for chunks := 0; lines.Scan(); {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		switch {
		case !ok:
			continue
		case bytes.Equal(data, []byte("[DONE]")):
			o.End = "ok"
			return o
		case bytes.HasPrefix(data, []byte(`{"error"`)):
			o.End = "error chunk"
			return o
		}
		now := time.Now()
		if chunks++; chunks == 1 {
			o.TTFT = now.Sub(begin)
			first()
		} else {
			o.Gaps = append(o.Gaps, now.Sub(last))
		}
		last = now
		if chunks == q.cancelAfter {
			leave()
			return o
		}
	}
	return o
}

// percentile returns the q-quantile of ds in milliseconds, by nearest rank.
func percentile(ds []time.Duration, q float64) float64 {
	if len(ds) == 0 {
		return 0
	}
	i := min(int(q*float64(len(ds))), len(ds)-1)
	return math.Round(float64(ds[i].Microseconds())/10) / 100
}
