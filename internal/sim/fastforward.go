package sim

import "time"

// fastForwardScratch is memory of Engine.fastForward, kept between calls.
type fastForwardScratch struct {
	events [][]blockEvent // by step modulo block size, in order of the running requests
	allocs []int          // number of allocations in each of these steps
}

// A blockEvent is what a running request does to its blocks in a step of pure decode: it takes a block, or fills one,
// or both.
type blockEvent struct {
	r                      *request
	takesBlock, fillsBlock bool
}

// fastForward runs steps of pure decode up to until, and returns the time reached. In these steps every running request
// decodes one token, no request ends, is preempted, or is admitted, and nothing arrives or leaves. It does to the
// engine exactly what Schedule and Complete would have done, at a cost of O(1) for a step, O(1) for a block and
// O(running) for the call. The caller calls it between Complete and Schedule.
func (e *Engine) fastForward(now, until time.Duration) time.Duration {
	if !e.steady || len(e.running) == 0 || len(e.inFlight) != e.depth-1 {
		return now
	}
	steps := e.untilFirstEnd()
	if steps < 2 {
		return now
	}
	e.prepareBlockEvents()
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
		if e.ff.allocs[slot] > e.pool.freeCount || e.blocked && e.fillsShared(slot, done) {
			break
		}
		work.KVTokens += seqs
		d := e.cost.timeStep(&work)
		stepEnd := max(now, e.deviceEnd) + d
		due := stepEnd
		if e.depth == 2 {
			due = e.inFlight[0].end
		}
		if due > until {
			break
		}
		e.moveClock(now)
		e.applyBlockEvents(slot, done)
		e.deviceEnd = stepEnd
		e.stats.Busy += d
		peak = work // its KVTokens only grow
		e.moveClock(due)
		completed := work
		if e.depth == 2 {
			completed = e.inFlight[0].work
			e.inFlight[0].work, e.inFlight[0].end = work, stepEnd
		}
		e.stats.Work.Add(completed)
		if done == 0 {
			for _, r := range e.running {
				e.recordGap(r, due-r.result.LastToken)
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
	e.stats.Peak.raiseTo(peak)
	for _, r := range e.running {
		r.tokens += done
		r.computed += done
		r.result.OutputTokens += done
		r.result.LastToken = last
		r.result.MaxITL = max(r.result.MaxITL, gapMax)
	}
	e.stats.GenerationTokens += int64(done) * seqs
	return now
}

// untilFirstEnd counts the steps of pure decode before the one in which a running request ends.
func (e *Engine) untilFirstEnd() int {
	steps := e.running[0].target
	for _, r := range e.running {
		steps = min(steps, r.target-r.generatedTokens()-1)
	}
	return steps
}

// calmSteps returns a number of steps, including the one in execution, at whose ends no request ends, is preempted or
// is admitted. If it does not know, it returns 0 or less.
func (e *Engine) calmSteps() int {
	n := len(e.running)
	if !e.steady || n == 0 || e.blocked && e.cfg.PrefixCaching {
		return 0
	}
	// In BlockSize steps each request takes one block.
	lasts := (e.pool.freeCount/n - 1) * e.cfg.BlockSize
	return min(e.untilFirstEnd(), lasts) - e.depth
}

// shortestStep is a lower bound of the next steps' durations while nothing but decoding happens.
func (e *Engine) shortestStep() time.Duration {
	n := int64(len(e.running))
	return e.cost.timeStep(&Work{Seqs: n, Tokens: n})
}

// prepareBlockEvents sorts the running requests' block events by step.
func (e *Engine) prepareBlockEvents() {
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
		// In step j the request computes token r.computed+j, and takes a block if that token begins one. It fills a
		// block, for the cache, when the tokens known before the step (asynchronous) or computed in it reach the
		// block's end.
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

// applyBlockEvents performs the block events of a step.
func (e *Engine) applyBlockEvents(slot, done int) {
	for _, ev := range e.ff.events[slot] {
		if ev.takesBlock {
			ev.r.blocks = append(ev.r.blocks, e.pool.allocateBlock())
		}
		if ev.fillsBlock {
			e.cacheBlocks(ev.r, ev.r.tokens+done)
		}
	}
	if !e.blocked {
		return
	}
	// In each step the scheduler looks up the blocks of the head of the queue again, and cannot admit it: free blocks
	// only became fewer, and no block that it could share was added.
	r := e.waiting.peek()
	if e.ff.allocs[slot] > 0 || done == 0 {
		e.findCachedBlocks(r)
	}
	e.countLookup(r)
}

// fillsShared reports whether a step fills a block that another request may hit. Then the blocked head of the queue
// could be admitted.
func (e *Engine) fillsShared(slot, done int) bool {
	if !e.cfg.PrefixCaching {
		return false
	}
	for _, ev := range e.ff.events[slot] {
		if ev.fillsBlock && (ev.r.tokens+done)/e.cfg.BlockSize-1 < len(ev.r.hashes) {
			return true
		}
	}
	return false
}
