package sim

import "time"

// fastForward is scratch of Engine.fastForward, kept between calls.
type fastForward struct {
	events [][]blockEvent // by step modulo block size, in order of the running requests
	allocs []int          // allocations among them
}

// blockEvent is what a running request does to its blocks in a step of pure
// decode: it takes a block, or fills one, or both.
type blockEvent struct {
	r            *request
	takes, fills bool
}

// fastForward runs steps in which every running request decodes one token, none
// ends, none is preempted, nobody is admitted and nothing arrives or leaves
// before until, and returns the time reached. It does to the engine exactly what
// Schedule and Complete would have done, at a cost of O(1) for a step, O(1) for
// a block and O(running) for the call. The caller calls it between Complete and
// Schedule.
func (e *Engine) fastForward(now, until time.Duration) time.Duration {
	if !e.steady || len(e.running) == 0 || len(e.inFlight) != e.depth-1 {
		return now
	}
	steps := e.untilFirstEnd()
	if steps < 2 {
		return now
	}
	e.prepare()
	var (
		seqs   = int64(len(e.running))
		work   = Work{Seqs: seqs, Tokens: seqs}
		start  = now
		peak   Work
		gapMax time.Duration
		last   time.Duration // when the previous token came
		done   = 0
	)
	for _, r := range e.running {
		work.KVTokens += int64(r.computed)
	}
	for ; done < steps && now < until; done++ {
		slot := done % e.cfg.BlockSize
		if e.ff.allocs[slot] > e.pool.free || e.blocked && e.fillsShared(slot, done) {
			break
		}
		work.KVTokens += seqs
		d := e.cost.step(&work)
		end := max(now, e.deviceEnd) + d
		due := end
		if e.depth == 2 {
			due = e.inFlight[0].end
		}
		if due > until {
			break
		}
		e.advance(now)
		e.blocksOf(slot, done)
		e.deviceEnd = end
		e.stats.Busy += d
		peak = work // its KVTokens only grow
		e.advance(due)
		completed := work
		if e.depth == 2 {
			completed = e.inFlight[0].work
			e.inFlight[0].work, e.inFlight[0].end = work, end
		}
		e.stats.Work.Add(completed)
		if done == 0 {
			for _, r := range e.running {
				e.gap(r, due-r.res.LastToken)
			}
		} else {
			gapMax = max(gapMax, due-last)
			e.gaps.add(due-last, seqs)
		}
		last, now = due, due
	}
	if done == 0 {
		return start
	}
	e.stats.Peak.raise(peak)
	for _, r := range e.running {
		r.tokens += done
		r.computed += done
		r.res.OutputTokens += done
		r.res.LastToken = last
		r.res.MaxITL = max(r.res.MaxITL, gapMax)
	}
	e.stats.GenerationTokens += int64(done) * seqs
	return now
}

// untilFirstEnd is how many steps of pure decode there are before one in which a running
// request ends.
func (e *Engine) untilFirstEnd() int {
	steps := e.running[0].target
	for _, r := range e.running {
		steps = min(steps, r.target-r.generated()-1)
	}
	return steps
}

// calmSteps is a number of steps, that in execution among them, at whose ends no request
// ends, is preempted or is admitted; 0 where nothing is known.
func (e *Engine) calmSteps() int {
	n := len(e.running)
	if !e.steady || n == 0 || e.blocked && e.cfg.PrefixCaching {
		return 0
	}
	// Of so many steps each request takes a block in one of BlockSize.
	lasts := (e.pool.free/n - 1) * e.cfg.BlockSize
	return min(e.untilFirstEnd(), lasts) - e.depth
}

// shortest is less than any of the next steps takes if nothing but decoding happens.
func (e *Engine) shortest() time.Duration {
	n := int64(len(e.running))
	return e.cost.step(&Work{Seqs: n, Tokens: n})
}

// prepare sorts the running requests' block events by step.
func (e *Engine) prepare() {
	size := e.cfg.BlockSize
	if len(e.ff.events) == 0 {
		e.ff.events = make([][]blockEvent, size)
		e.ff.allocs = make([]int, size)
	}
	for i := range e.ff.events {
		e.ff.events[i] = e.ff.events[i][:0]
		e.ff.allocs[i] = 0
	}
	for _, r := range e.running {
		// In step j the request computes token r.computed+j, which takes a block when
		// it begins one. It fills a block, for the cache, when the tokens known before
		// the step (asynchronous) or computed in it reach the block's end.
		takes := (size - r.computed%size) % size
		fills := (size - r.tokens%size) % size
		e.ff.allocs[takes]++
		if takes == fills {
			e.ff.events[takes] = append(e.ff.events[takes], blockEvent{r, true, true})
			continue
		}
		e.ff.events[takes] = append(e.ff.events[takes], blockEvent{r, true, false})
		e.ff.events[fills] = append(e.ff.events[fills], blockEvent{r, false, true})
	}
}

// blocksOf performs the block events of a step.
func (e *Engine) blocksOf(slot, done int) {
	for _, ev := range e.ff.events[slot] {
		if ev.takes {
			ev.r.blocks = append(ev.r.blocks, e.pool.allocate())
		}
		if ev.fills {
			e.cache(ev.r, ev.r.tokens+done)
		}
	}
	if !e.blocked {
		return
	}
	// The head of the queue tried again, in vain: free blocks only became fewer,
	// and no block that it could share was added.
	r := e.waiting.peek()
	if e.ff.allocs[slot] > 0 || done == 0 {
		e.lookup(r)
	}
	e.countLookup(r)
}

// fillsShared reports whether a step makes a block findable that another
// request may hit, which could let the blocked head of the queue in.
func (e *Engine) fillsShared(slot, done int) bool {
	if !e.cfg.PrefixCaching {
		return false
	}
	for _, ev := range e.ff.events[slot] {
		if ev.fills && (ev.r.tokens+done)/e.cfg.BlockSize-1 < len(ev.r.hashes) {
			return true
		}
	}
	return false
}
