// Package outputtest lets a test read the output of a program that is still running.
package outputtest

import (
	"bytes"
	"sync"
)

// A Buffer holds the output so far. It is safe for concurrent use; the zero value is empty.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
