package sqlite

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// A Value is a value of a row. Its bytes are valid until Scan's take returns.
type Value struct {
	Int   int64  // a number without its fraction
	Bytes []byte // text and blobs; nil for numbers
	Null  bool
}

// Text is a value's text.
func (v Value) Text() string { return string(v.Bytes) }

// CopyRow is a read for Scan that keeps the values.
func CopyRow(v []Value, row *[]Value) { *row = slices.Clone(v) }

// A run is a number of neighbouring pages with rows of a table. It is the unit of work.
type run struct{ from, pages uint32 }

// Column returns the index of a table's column by its name, in any case, or -1.
func (d *DB) Column(table, name string) int {
	return slices.IndexFunc(d.Columns(table), func(c string) bool { return strings.EqualFold(c, name) })
}

// ahead is how many runs each worker reads ahead.
const ahead = 3

// A chunk is the rows of a run.
type chunk[T any] struct {
	run
	data []byte
	rows []T
	err  error // that ended the run after rows
	done chan struct{}
}

// Scan calls read for every row of a table, and take for every T that read filled, in the order of the rows, until take
// returns false. read gets the wanted columns and a zero T. A missing column is null. No column may be wanted twice. A
// damaged table gives the rows before the damage, and an error.
//
// Several goroutines call read at once, so it must not change shared data. The caller's goroutine calls take. A T may
// hold the bytes of values until take returns.
func Scan[T any](ctx context.Context, d *DB, table string, want []string, read func([]Value, *T),
	take func(*T) bool,
) error {
	if d.Columns(table) == nil {
		return nil
	}
	indexes := make([]int, len(want))
	for i, w := range want {
		indexes[i] = d.Column(table, w)
	}
	if err := scanRuns(ctx, d, table, indexes, read, take); err != nil {
		return fmt.Errorf("table %s: %w", table, err)
	}
	return nil
}

// scanRuns scans the runs on all processors: one goroutine hands free chunks with the next runs to the workers, and in
// the same order to this function, which waits for each and returns it.
func scanRuns[T any](ctx context.Context, d *DB, table string, columns []int, read func([]Value, *T),
	take func(*T) bool,
) error {
	runs, damaged := d.findRuns(ctx, table)
	workers := min(runtime.GOMAXPROCS(0), 1+len(runs)/ahead)
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
		for _, next := range runs {
			select {
			case p := <-free:
				p.run = next
				work <- p
				ordered <- p
			case <-ctx.Done():
				return
			}
		}
	})
	for range workers {
		r := d.newScanner(table, columns)
		all.Go(func() {
			for p := range work {
				if ctx.Err() == nil {
					p.rows = p.rows[:0]
					p.err = r.readRun(p.run, &p.data, func(v []Value) {
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
