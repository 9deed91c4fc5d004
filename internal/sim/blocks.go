package sim

// A blockPool is the KV cache: blocks with reference counts, a free list in order of eviction, and an index of full
// blocks by the hash of their content (v1/core/block_pool.py@v0.23.0). A free block keeps its content, and can be hit,
// until it is allocated again. Two blocks may hold the same content, because a block that becomes full is not merged
// with an older one; a lookup finds the oldest. Most content belongs to one request only and is not in the index: the
// request keeps a list of its own blocks (request.kept).
type blockPool struct {
	ref        []int32
	hashOf     []uint64 // 0: not cached
	next, prev []int32  // free list; index 0 is its sentinel, the null block
	freeCount  int

	byHash           map[uint64]int32 // the oldest block of each content
	dupNext, dupPrev []int32          // ring of blocks of equal content, oldest first
}

func newBlockPool(size int) *blockPool {
	p := &blockPool{
		ref:       make([]int32, size),
		hashOf:    make([]uint64, size),
		next:      make([]int32, size),
		prev:      make([]int32, size),
		freeCount: size - 1,
		byHash:    make(map[uint64]int32),
		dupNext:   make([]int32, size),
		dupPrev:   make([]int32, size),
	}
	for i := range p.next {
		p.next[i] = int32((i + 1) % size)
		p.prev[i] = int32((i - 1 + size) % size)
	}
	return p
}

// allocateBlock allocates the free block that is first to be evicted. The caller has checked that there is one.
func (p *blockPool) allocateBlock() int32 {
	b := p.next[0]
	p.unlinkFree(b)
	p.evictBlock(b)
	p.ref[b] = 1
	return b
}

// referenceBlock adds a reference to a block that a lookup found.
func (p *blockPool) referenceBlock(b int32) {
	if p.ref[b] == 0 {
		p.unlinkFree(b)
	}
	p.ref[b]++
}

// releaseBlocks drops a request's references, last block first, so that the end of a sequence is evicted before its
// beginning.
func (p *blockPool) releaseBlocks(blocks []int32) {
	for i := len(blocks) - 1; i >= 0; i-- {
		b := blocks[i]
		if p.ref[b]--; p.ref[b] > 0 {
			continue
		}
		last := p.prev[0]
		p.next[last], p.prev[b] = b, last
		p.next[b], p.prev[0] = 0, b
		p.freeCount++
	}
}

func (p *blockPool) unlinkFree(b int32) {
	p.next[p.prev[b]], p.prev[p.next[b]] = p.next[b], p.prev[b]
	p.freeCount--
}

// storeHash adds a full block to the index.
func (p *blockPool) storeHash(b int32, hash uint64) {
	p.hashOf[b] = hash
	if hash >= privateHash {
		return
	}
	oldest, ok := p.byHash[hash]
	if !ok {
		p.byHash[hash] = b
		p.dupNext[b], p.dupPrev[b] = b, b
		return
	}
	newest := p.dupPrev[oldest]
	p.dupNext[newest], p.dupPrev[b] = b, newest
	p.dupNext[b], p.dupPrev[oldest] = oldest, b
}

// evictBlock removes a block's content from the index.
func (p *blockPool) evictBlock(b int32) {
	hash := p.hashOf[b]
	if hash == 0 {
		return
	}
	p.hashOf[b] = 0
	if hash >= privateHash {
		return
	}
	after := p.dupNext[b]
	if after == b {
		delete(p.byHash, hash)
		return
	}
	p.dupNext[p.dupPrev[b]], p.dupPrev[after] = after, p.dupPrev[b]
	if p.byHash[hash] == b {
		p.byHash[hash] = after
	}
}
