package profile

// A chunkList holds elements in chunks, so that it never copies them while it grows. The zero value is empty.
type chunkList[T any] struct {
	chunks [][]T
	n      int
}

// Chunks have minChunk elements at first, then each has twice as many, up to maxChunk.
const (
	minChunk = 64
	maxChunk = 1 << 14
)

func (l *chunkList[T]) add(e T) {
	if len(l.chunks) == 0 || len(l.chunks[len(l.chunks)-1]) == cap(l.chunks[len(l.chunks)-1]) {
		size := minChunk
		if len(l.chunks) > 0 {
			size = min(2*cap(l.chunks[len(l.chunks)-1]), maxChunk)
		}
		l.chunks = append(l.chunks, make([]T, 0, size))
	}
	c := &l.chunks[len(l.chunks)-1]
	*c = append(*c, e)
	l.n++
}

func (l *chunkList[T]) at(i int) *T {
	for size, c := minChunk, 0; ; c++ {
		if i < len(l.chunks[c]) || size == maxChunk {
			if size == maxChunk { // all later chunks have this size
				return &l.chunks[c+i/maxChunk][i%maxChunk]
			}
			return &l.chunks[c][i]
		}
		i -= len(l.chunks[c])
		size *= 2
	}
}

func (l *chunkList[T]) all(yield func(*T) bool) {
	for _, c := range l.chunks {
		for i := range c {
			if !yield(&c[i]) {
				return
			}
		}
	}
}
