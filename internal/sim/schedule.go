package sim

// formBatch builds the next batch: the running requests first, in order, then the waiting ones as long as tokens,
// sequences and blocks last (Scheduler.schedule, v1/core/sched/scheduler.py@v0.23.0).
func (e *Engine) formBatch() *batch {
	b := e.newBatch()
	budget := e.cfg.MaxNumBatchedTokens
	e.blocked = false
	budget, preempted := e.formRunning(b, budget)
	decodeOnly := !preempted && len(b.entries) == len(e.running)
	admitted := 0
	if !preempted {
		admitted = e.formWaiting(b, budget)
	}
	for i := range b.entries {
		en := &b.entries[i]
		r := en.r
		decodeOnly = decodeOnly && en.n == 1 && r.computed >= r.prompt
		b.work.addTokens(en.n, r.computed)
		r.computed += en.n
		en.samples = r.computed >= r.tokens+r.placeholders
		if en.samples && e.cfg.AsyncScheduling {
			r.placeholders++
		}
		decodeOnly = decodeOnly && en.samples
	}
	e.steady = decodeOnly && admitted == 0
	return b
}

func (e *Engine) newBatch() *batch {
	if n := len(e.spare); n > 0 {
		b := e.spare[n-1]
		e.spare = e.spare[:n-1]
		return b
	}
	return &batch{}
}

// formRunning schedules the running requests and preempts where blocks run out. It returns the tokens left and whether
// it preempted.
func (e *Engine) formRunning(b *batch, budget int) (int, bool) {
	preempted := false
	for i := 0; i < len(e.running) && budget > 0; {
		r := e.running[i]
		n := e.newTokens(r, budget)
		if n <= 0 {
			i++ // later requests may still be scheduled
			continue
		}
		fits := e.growBlocks(r, n)
		for !fits {
			victim, at := e.chooseVictim()
			e.running = append(e.running[:at], e.running[at+1:]...)
			if back := b.removeRequest(victim); back > 0 {
				budget += back
				i--
			}
			e.preemptRequest(victim)
			preempted = true
			if victim == r {
				break
			}
			fits = e.growBlocks(r, n)
		}
		if !fits {
			break
		}
		b.entries = append(b.entries, entry{r: r, n: n})
		budget -= n
		i++
	}
	return budget, preempted
}

// newTokens returns how many tokens a running request wants of the budget.
func (e *Engine) newTokens(r *request, budget int) int {
	if r.placeholders > 0 && r.computed+2-r.placeholders >= r.prompt+r.maxTokens {
		return 0 // the token in execution is its last
	}
	n := r.tokens + r.placeholders - r.computed
	if t := e.cfg.LongPrefillTokenThreshold; 0 < t && t < n {
		n = t
	}
	return min(n, budget, e.cfg.MaxModelLen-1-r.computed)
}

// chooseVictim chooses the request to preempt: the newest in the running list, or the last by priority and arrival.
// Among requests that are equal in both, vLLM takes the first in the list, and two such requests can preempt each other
// for ever; here the later one goes.
func (e *Engine) chooseVictim() (*request, int) {
	at := len(e.running) - 1
	if e.cfg.Policy == Priority {
		at = 0
		for i, r := range e.running {
			if e.running[at].ComesBefore(r) {
				at = i
			}
		}
	}
	return e.running[at], at
}

// removeRequest takes a request out of the batch and returns its tokens.
func (b *batch) removeRequest(r *request) int {
	for i, en := range b.entries {
		if en.r == r {
			b.entries = append(b.entries[:i], b.entries[i+1:]...)
			return en.n
		}
	}
	return 0
}

// preemptRequest frees a request's blocks, to be recomputed, and queues it first.
func (e *Engine) preemptRequest(r *request) {
	if e.cfg.PrefixCaching {
		r.rememberBlocks(e.pool)
	}
	e.pool.releaseBlocks(r.blocks)
	r.blocks = r.blocks[:0]
	r.cached = 0
	r.computed = 0
	r.state = preempted
	r.result.Preemptions++
	e.stats.Preemptions++
	e.waiting.pushFront(r)
}

// formWaiting admits waiting requests in order until one does not fit, and returns how many it admitted.
func (e *Engine) formWaiting(b *batch, budget int) int {
	admitted := 0
	for budget > 0 && len(e.running) < e.cfg.MaxNumSeqs {
		r := e.waiting.peek()
		if r == nil {
			break
		}
		e.findCachedBlocks(r)
		e.countLookup(r)
		hitTokens := len(e.hits) * e.cfg.BlockSize
		n := r.tokens - hitTokens
		if t := e.cfg.LongPrefillTokenThreshold; 0 < t && t < n {
			n = t
		}
		if !e.cfg.ChunkedPrefill && n > budget {
			e.blocked = true
			break
		}
		n = min(n, budget)
		if !e.admitRequest(r, n) {
			e.blocked = true
			break
		}
		e.waiting.pop()
		if r.state == waiting {
			r.result.Scheduled = e.now
			r.result.CachedTokens = hitTokens
			r.result.WorkAtScheduled = e.stats.Work
			e.stats.PrefixAdmittedLookedUp += int64(r.tokens)
			e.stats.PrefixAdmittedHit += int64(hitTokens)
		}
		r.state = running
		r.computed = hitTokens
		e.running = append(e.running, r)
		b.entries = append(b.entries, entry{r: r, n: n})
		budget -= n
		admitted++
	}
	return admitted
}

func (e *Engine) countLookup(r *request) {
	if e.cfg.PrefixCaching && r.result.Preemptions == 0 {
		e.stats.PrefixLookedUp += int64(r.tokens)
		e.stats.PrefixHit += int64(len(e.hits) * e.cfg.BlockSize)
	}
}

// findCachedBlocks finds the leading blocks of a waiting request in the prefix cache. The last token is always
// computed, for its logits (KVCacheManager.get_computed_blocks, v1/core/kv_cache_manager.py@v0.23.0).
func (e *Engine) findCachedBlocks(r *request) {
	e.hits = e.hits[:0]
	if !e.cfg.PrefixCaching {
		return
	}
	for i := range (r.tokens - 1) / e.cfg.BlockSize {
		var b int32
		var ok bool
		if i < len(r.hashes) {
			b, ok = e.pool.byHash[r.blockHash(i)]
		} else {
			b, ok = r.findOwnBlock(e.pool, i)
		}
		if !ok {
			return
		}
		e.hits = append(e.hits, b)
	}
}

// admitRequest gives a waiting request the blocks that findCachedBlocks found and blocks for n new tokens, or nothing
// if they do not fit. Found blocks without a holder come out of the free ones (KVCacheManager.allocate_slots).
func (e *Engine) admitRequest(r *request, n int) bool {
	free := e.pool.freeCount
	if len(e.running) > 0 {
		free -= int(e.cfg.Watermark * float64(e.cfg.NumBlocks))
	}
	unheld := 0
	for _, b := range e.hits {
		if e.pool.ref[b] == 0 {
			unheld++
		}
	}
	found := len(e.hits)
	hitTokens := found * e.cfg.BlockSize
	if e.cfg.ReserveFullPrompt {
		full := min(r.tokens, e.cfg.MaxModelLen)
		if max(blocksFor(full, e.cfg.BlockSize)-found, 0)+unheld > free {
			return false
		}
	}
	fresh := max(blocksFor(min(hitTokens+n, e.cfg.MaxModelLen), e.cfg.BlockSize)-found, 0)
	if fresh+unheld > free {
		return false
	}
	for _, b := range e.hits {
		e.pool.referenceBlock(b)
	}
	r.blocks = append(r.blocks[:0], e.hits...)
	r.cached, r.found = found, found
	for range fresh {
		r.blocks = append(r.blocks, e.pool.allocateBlock())
	}
	e.cacheBlocks(r, min(hitTokens+n, r.tokens))
	return true
}

// growBlocks gives a running request the blocks for n more tokens, or nothing if they are not free.
func (e *Engine) growBlocks(r *request, n int) bool {
	need := blocksFor(min(r.computed+n, e.cfg.MaxModelLen), e.cfg.BlockSize) - len(r.blocks)
	if need > e.pool.freeCount {
		return false
	}
	for range need {
		r.blocks = append(r.blocks, e.pool.allocateBlock())
	}
	e.cacheBlocks(r, min(r.computed+n, r.tokens))
	return true
}

// cacheBlocks makes the full blocks of a request's first tokens findable. This happens when they are scheduled, so that
// a request of the same batch can hit them.
func (e *Engine) cacheBlocks(r *request, tokens int) {
	if !e.cfg.PrefixCaching {
		return
	}
	for full := tokens / e.cfg.BlockSize; r.cached < full; r.cached++ {
		e.pool.storeHash(r.blocks[r.cached], r.blockHash(r.cached))
	}
}
