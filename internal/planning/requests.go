package planning

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// MaxRequests bounds a simulated workload: a day of a hundred requests per second would not fit in memory.
const MaxRequests = 2_000_000

// Draw draws requests from the sessions of a workload, for engines with a block size. It stops when the sessions end,
// after limit requests, or before the first that would arrive at until or later (0 is no bound). The pacer sets the
// arrivals of sessions; without one they have their own.
//
// Turns of a conversation arrive when their trace says, but not before the previous turn is answered.
func Draw(
	source workload.Source, pacer workload.Pacer, blockSize, limit int, until time.Duration,
) ([]sim.Request, error) {
	if limit <= 0 || limit > MaxRequests {
		limit = MaxRequests + 1
	}
	d := drawing{blockSize: blockSize, uses: map[uint64]int32{}}
	var s workload.Session
	for len(d.requests) < limit && nextSession(source, pacer, until, &s) {
		for i := range s.Turns {
			d.addTurn(s.Arrival+s.Turns[i].At, &s.Turns[i], len(s.Turns) > 1)
			if i > 0 {
				d.requests[len(d.requests)-1].After = len(d.requests) - 1
			}
		}
		if len(d.requests) == sampledRequests && until > 0 {
			// Allocate for about all requests: a list that grows takes its memory twice.
			all := 1.1 * sampledRequests * until.Seconds() / max(s.Arrival.Seconds(), 1e-9)
			d.requests = slices.Grow(d.requests, int(min(all, float64(limit))))
		}
		if len(d.requests) > MaxRequests {
			return nil, hint.With(fmt.Errorf("the workload has more than %d requests", MaxRequests),
				"give --requests or --duration")
		}
	}
	if len(d.requests) > limit {
		d.requests = d.requests[:limit]
	}
	d.shareBlocks()
	return sortByArrival(d.requests), nil
}

// sampledRequests is how many requests suffice to estimate their total number.
const sampledRequests = 4096

// nextSession sets the next session that arrives before until, and reports whether there is one.
func nextSession(source workload.Source, pacer workload.Pacer, until time.Duration, s *workload.Session) bool {
	if pacer == nil {
		return source.Next(s) && (until <= 0 || s.Arrival < until)
	}
	at, ok := pacer.Next()
	if !ok || until > 0 && at >= until || !source.Next(s) {
		return false
	}
	s.Arrival = at
	return true
}

// sortByArrival sorts requests by arrival. Turns stay behind their predecessors.
func sortByArrival(requests []sim.Request) []sim.Request {
	byArrival := func(a, b sim.Request) int { return cmp.Compare(a.Arrival, b.Arrival) }
	if slices.IsSortedFunc(requests, byArrival) {
		return requests
	}
	order, place := make([]int, len(requests)), make([]int, len(requests)) // old places by new ones, and the reverse
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(requests[a].Arrival, requests[b].Arrival) })
	out := make([]sim.Request, len(requests))
	for at, i := range order {
		place[i] = at
		out[at] = requests[i]
		if r := &out[at]; r.After > 0 {
			r.After = place[r.After-1] + 1
		}
	}
	return out
}

// DrawLoop draws n requests for clients in a closed loop (sim.Options.Clients). Each turn of a session becomes a
// request of its own. The clients begin one after the other within a time; each pauses after each answer.
func DrawLoop(source workload.Source, blockSize, n, clients int, within, pause time.Duration) ([]sim.Request, error) {
	if clients < 1 || n < 1 || n > MaxRequests || within < 0 || pause < 0 {
		return nil, fmt.Errorf("a closed loop of %d clients that send %d requests, at most %d, with pauses of %v",
			clients, n, MaxRequests, pause)
	}
	d := drawing{blockSize: blockSize, uses: map[uint64]int32{}}
	var s workload.Session
	for len(d.requests) < n && source.Next(&s) {
		for i := range s.Turns {
			d.addTurn(0, &s.Turns[i], len(s.Turns) > 1)
		}
	}
	d.requests = d.requests[:min(len(d.requests), n)]
	d.shareBlocks()
	for i := range d.requests {
		d.requests[i].Pause = pause
		if i < clients {
			d.requests[i].Arrival = within * time.Duration(i) / time.Duration(clients)
		}
	}
	return d.requests, nil
}

// A drawing collects requests and the prompts that may share a prefix with others.
type drawing struct {
	blockSize int
	requests  []sim.Request
	prompts   []prompt
	uses      map[uint64]int32 // number of prompts with a part, by the part's seed
}

// A prompt is the text of a request that may share a prefix with others.
type prompt struct {
	request int // index
	parts   []workload.PromptPart
	isTurn  bool // of a conversation with several turns
}

func (d *drawing) addTurn(at time.Duration, t *workload.Turn, isTurn bool) {
	if len(t.Parts) > 0 && !t.Parts[0].Own {
		d.prompts = append(d.prompts, prompt{len(d.requests), slices.Clone(t.Parts), isTurn})
		for _, p := range t.Parts {
			if !p.Own {
				d.uses[p.Seed]++
			}
		}
	}
	d.requests = append(d.requests,
		sim.Request{Arrival: at, PromptTokens: max(t.PromptTokens(), 1), OutputTokens: max(t.OutputTokens, 1)})
}

// shareBlocks gives each request the identity of its leading blocks, as far as another request has the same text.
func (d *drawing) shareBlocks() {
	longest := map[uint64][]uint64{} // texts with a common beginning share these blocks
	for _, whole := range d.prompts {
		if whole.request >= len(d.requests) {
			break
		}
		shared := 0 // leading parts that another prompt has
		for shared < len(whole.parts) && d.uses[whole.parts[shared].Seed] > 1 {
			shared++
		}
		if shared == 0 {
			continue
		}
		r := &d.requests[whole.request]
		parts := whole.parts[:shared]
		if whole.isTurn && len(whole.parts) == 1 {
			// Each prompt continues the previous one and contains its answer.
			parts = []workload.PromptPart{{Seed: parts[0].Seed, Tokens: r.PromptTokens + r.OutputTokens}}
		}
		tokens, text := 0, uint64(0)
		for i, p := range parts {
			tokens += p.Tokens
			text = stat.Mix(text, p.Seed)
			if i < len(parts)-1 {
				text = stat.Mix(text, uint64(p.Tokens))
			}
		}
		n := tokens / d.blockSize
		if n > len(longest[text]) {
			longest[text] = blockHashes(parts, d.blockSize)
		}
		r.Blocks = longest[text][:n:n]
	}
	d.prompts, d.uses = nil, nil
}

// blockHashes returns, for each full block of the leading parts' text, a hash of all text up to its end. Equal texts
// have equal hashes.
func blockHashes(leading []workload.PromptPart, size int) []uint64 {
	total := 0
	for _, p := range leading {
		total += p.Tokens
	}
	out := make([]uint64, 0, total/size)
	var prefix uint64
	part, at := 0, 0 // the place in the text
	for range total / size {
		for need := size; need > 0; {
			for at == leading[part].Tokens {
				part, at = part+1, 0
			}
			n := min(need, leading[part].Tokens-at)
			prefix = stat.Mix(stat.Mix(prefix, leading[part].Seed), uint64(at)<<32|uint64(n))
			at, need = at+n, need-n
		}
		out = append(out, prefix)
	}
	return out
}
