// Package table hands over the rows of a profiler's tables, whatever files hold them.
package table

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// A Value is one of a row. Its bytes are valid until the row was taken.
type Value struct {
	Int   int64  // of a floating-point number the whole part
	Bytes []byte // of text and blobs; nil for numbers
	Null  bool
}

// Text is a value's text.
func (v Value) Text() string { return string(v.Bytes) }

// CopyRow is a read for Scan that keeps the values.
func CopyRow(v []Value, row *[]Value) { *row = slices.Clone(v) }

// A Chunk is neighbouring pages or rows of a table.
type Chunk struct{ From, Count int64 }

// A Source holds tables.
type Source interface {
	// Columns are the names of a table's columns; nil where there is no such table.
	Columns(table string) []string
	// Parts are those of a table, in order, and why they are not all.
	Parts(ctx context.Context, table string) ([]Chunk, error)
	// Reader reads columns of a table, by their numbers, those below zero as null.
	Reader(table string, columns []int) Reader
	// Shared reports whether several Readers may divide a table's parts among them. If
	// not, one reads them all in order.
	Shared() bool
}

// A Reader reads parts of one table, for one goroutine.
type Reader interface {
	// Read calls yield for every row, whose bytes may lie in buffer until that is read into again.
	Read(p Chunk, buffer *[]byte, yield func([]Value)) error
}

// Column is the number of a table's column, or -1.
func Column(s Source, table, column string) int {
	return slices.IndexFunc(s.Columns(table), func(c string) bool { return strings.EqualFold(c, column) })
}

// ahead is how many parts are read ahead by each worker.
const ahead = 3

// chunk is one that is read or taken.
type chunk[T any] struct {
	Chunk
	data []byte
	rows []T
	err  error // after those rows
	done chan struct{}
}

// Scan makes of the wanted columns of every row what read makes of them in a zero T, and
// hands it to take, in order, until that returns false. A column that the table lacks is
// null; each is wanted once. A table that is damaged ends with an error after the rows
// before.
//
// The processors share the parts: read is called by several goroutines at once, and must
// change nothing; take is called by the caller's. The bytes of a value may be kept from
// read to take.
func Scan[T any](ctx context.Context, s Source, table string, want []string, read func([]Value, *T), take func(*T) bool) error {
	if s.Columns(table) == nil {
		return nil
	}
	columns := make([]int, len(want))
	for i, w := range want {
		columns[i] = Column(s, table, w)
	}
	if err := scan(ctx, s, table, columns, read, take); err != nil {
		return fmt.Errorf("table %s: %w", table, err)
	}
	return nil
}

func scan[T any](ctx context.Context, s Source, table string, columns []int, read func([]Value, *T), take func(*T) bool) error {
	parts, damaged := s.Parts(ctx, table)
	workers := 1
	if s.Shared() {
		workers = min(runtime.GOMAXPROCS(0), 1+len(parts)/ahead)
	}
	work, ordered := make(chan *chunk[T], ahead*workers), make(chan *chunk[T], ahead*workers)
	free := make(chan *chunk[T], ahead*workers)
	for range ahead * workers {
		free <- &chunk[T]{done: make(chan struct{}, 1)}
	}
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() {
		defer close(ordered)
		defer close(work)
		for _, next := range parts {
			select {
			case p := <-free:
				p.Chunk = next
				work <- p
				ordered <- p
			case <-ctx.Done():
				return
			}
		}
	})
	for range workers {
		r := s.Reader(table, columns)
		all.Go(func() {
			for p := range work {
				if ctx.Err() == nil {
					p.rows = p.rows[:0]
					p.err = r.Read(p.Chunk, &p.data, func(v []Value) {
						n := len(p.rows)
						p.rows = slices.Grow(p.rows, 1)[:n+1]
						row := &p.rows[n]
						*row = *new(T)
						read(v, row)
					})
				}
				p.done <- struct{}{}
			}
		})
	}
	for p := range ordered {
		<-p.done
		if ctx.Err() != nil {
			break
		}
		for i := range p.rows {
			if !take(&p.rows[i]) {
				return nil
			}
		}
		if p.err != nil {
			return p.err
		}
		free <- p
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return damaged
}
