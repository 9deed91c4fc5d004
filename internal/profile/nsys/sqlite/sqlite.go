// Package sqlite scans the tables of an SQLite database file, read only, row by row,
// and nothing else: no SQL, no indexes, no writing. That is what the export of a
// profiler needs, many times as fast as a database engine, in memory that does not
// grow with the file, and without a dependency.
//
// The format is that of https://www.sqlite.org/fileformat2.html.
package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Magic is what a database file begins with.
const Magic = "SQLite format 3\x00"

// Errors of files that cannot be read.
var (
	ErrNoDatabase = errors.New("not an SQLite database")
	ErrCorrupt    = errors.New("the database is damaged, or its file ends early")
)

const (
	headerSize = 100
	blockSize  = 1 << 20  // that is read at once
	blocks     = 16       // that are held
	maxPayload = 64 << 20 // of one row
	maxDepth   = 40       // of a tree
	maxSchema  = 10_000   // tables and indexes
)

// A Table is one table of a database.
type Table struct {
	Name    string
	Columns []string
	root    uint32
	rowid   int // the column that is the row's number, or -1
}

// A DB is an open database. It must not be used by two goroutines at once.
type DB struct {
	r        io.ReaderAt
	size     int64
	page     int64 // bytes
	usable   int
	pages    uint32
	Tables   map[string]*Table
	WAL      bool // the newest rows may be in a -wal file beside it
	cache    [blocks]block
	tick     uint64
	overflow []byte
	moved    bool // pages were read for a row that goes on in them
}

type block struct {
	at   int64
	data []byte
	used uint64
}

// Open reads a database's header and schema.
func Open(r io.ReaderAt, size int64) (*DB, error) {
	var h [headerSize]byte
	if n, err := r.ReadAt(h[:], 0); n < headerSize {
		if n > 0 && !strings.HasPrefix(string(h[:n]), Magic[:min(n, len(Magic))]) || err == nil {
			return nil, ErrNoDatabase
		}
		return nil, fmt.Errorf("%w: %d bytes", ErrCorrupt, n)
	}
	if string(h[:16]) != Magic {
		return nil, ErrNoDatabase
	}
	page := int64(binary.BigEndian.Uint16(h[16:]))
	if page == 1 {
		page = 65536
	}
	if page < 512 || page&(page-1) != 0 || int(h[20]) > int(page)-480 {
		return nil, fmt.Errorf("%w: a page size of %d", ErrCorrupt, page)
	}
	if e := binary.BigEndian.Uint32(h[56:]); e > 1 {
		return nil, fmt.Errorf("the database's text is UTF-16, which no profiler writes")
	}
	d := &DB{r: r, size: size, page: page, usable: int(page) - int(h[20]), WAL: h[19] == 2, Tables: map[string]*Table{}}
	d.pages = uint32(min((size+page-1)/page, math.MaxUint32)) //nolint:gosec // bounded
	return d, d.schema()
}

// schema reads the table of tables.
func (d *DB) schema() error {
	master := &Table{root: 1, rowid: -1}
	n := 0
	err := d.scan(context.Background(), master, []int{0, 1, 3, 4}, func(v []Value) bool {
		n++
		if v[0].Text() == "table" {
			t := &Table{Name: v[1].Text(), root: uint32(v[2].Int)} //nolint:gosec // checked when it is read
			t.Columns, t.rowid = columns(v[3].Text())
			d.Tables[t.Name] = t
		}
		return n < maxSchema
	})
	if err != nil {
		return fmt.Errorf("read the list of tables: %w", err)
	}
	return nil
}

// columns reads the names of a table's columns from the statement that made it, and
// which of them is another name of the row's number.
func columns(sql string) (names []string, rowid int) {
	rowid = -1
	open := strings.IndexByte(sql, '(')
	if open < 0 {
		return nil, rowid
	}
	var def strings.Builder
	depth := 0
	flush := func() {
		words := strings.Fields(def.String())
		def.Reset()
		if len(words) == 0 {
			return
		}
		switch strings.ToUpper(words[0]) {
		case "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "CONSTRAINT":
			return
		}
		if len(words) > 1 && strings.EqualFold(words[1], "INTEGER") && strings.Contains(strings.ToUpper(strings.Join(words, " ")), "PRIMARY KEY") {
			rowid = len(names)
		}
		names = append(names, strings.Trim(words[0], "\"`[]'"))
	}
	for i := open + 1; i < len(sql); i++ {
		switch c := sql[i]; {
		case c == '-' && strings.HasPrefix(sql[i:], "--"):
			end := strings.IndexByte(sql[i:], '\n')
			if end < 0 {
				i = len(sql)
				break
			}
			i += end
			def.WriteByte(' ')
		case c == '(':
			depth++
			def.WriteByte(c)
		case c == ')' && depth == 0:
			flush()
			return names, rowid
		case c == ')':
			depth--
			def.WriteByte(c)
		case c == ',' && depth == 0:
			flush()
		default:
			def.WriteByte(c)
		}
	}
	flush()
	return names, rowid
}

// Column returns the number of a column, or -1.
func (t *Table) Column(name string) int {
	return slices.IndexFunc(t.Columns, func(c string) bool { return strings.EqualFold(c, name) })
}

// A Value is one of a row. Its bytes are valid until the next row.
type Value struct {
	Null  bool
	Int   int64
	Bytes []byte // of text and blobs; nil for numbers
	Real  float64
}

// Text is a value's text.
func (v Value) Text() string { return string(v.Bytes) }

// Scan calls yield with the wanted columns of every row, in the order of the row's
// numbers, until it returns false. A column that the table lacks, or whose name is
// empty, is null. A table that is damaged ends with ErrCorrupt after the rows before.
func (d *DB) Scan(ctx context.Context, table string, want []string, yield func([]Value) bool) error {
	t := d.Tables[table]
	if t == nil {
		return nil
	}
	numbers := make([]int, len(want))
	for i, w := range want {
		numbers[i] = -1
		if w != "" {
			numbers[i] = t.Column(w)
		}
	}
	if err := d.scan(ctx, t, numbers, yield); err != nil {
		return fmt.Errorf("table %s: %w", table, err)
	}
	return nil
}

// scanner walks one table.
type scanner struct {
	*DB
	ctx     context.Context //nolint:containedctx // of one call of Scan
	table   *Table
	slots   []int // for each column up to the last wanted, the place in values or -1
	values  []Value
	yield   func([]Value) bool
	visited uint32
	stopped bool
}

func (d *DB) scan(ctx context.Context, t *Table, want []int, yield func([]Value) bool) error {
	s := &scanner{DB: d, ctx: ctx, table: t, values: make([]Value, len(want)), yield: yield}
	for i, column := range want {
		if column < 0 {
			continue
		}
		for len(s.slots) <= column {
			s.slots = append(s.slots, -1)
		}
		s.slots[column] = i
	}
	return s.walk(t.root, 0)
}

// pageAt returns a page's bytes. They are valid until blocks further pages were read.
func (d *DB) pageAt(n uint32) ([]byte, error) {
	if n == 0 || n > d.pages {
		return nil, fmt.Errorf("%w: page %d of %d", ErrCorrupt, n, d.pages)
	}
	at := int64(n-1) * d.page
	start := at / blockSize * blockSize
	d.tick++
	oldest := 0
	for i := range d.cache {
		b := &d.cache[i]
		if b.at == start && b.data != nil {
			b.used = d.tick
			return b.page(at-start, d.page)
		}
		if b.used < d.cache[oldest].used {
			oldest = i
		}
	}
	b := &d.cache[oldest]
	if b.data == nil {
		b.data = make([]byte, 0, blockSize)
	}
	b.at, b.used = start, d.tick
	k, err := d.r.ReadAt(b.data[:blockSize], start)
	b.data = b.data[:k]
	if err != nil && !errors.Is(err, io.EOF) {
		b.at = -1
		return nil, fmt.Errorf("read page %d: %w", n, err)
	}
	return b.page(at-start, d.page)
}

func (b *block) page(at, size int64) ([]byte, error) {
	if at+size > int64(len(b.data)) {
		return nil, ErrCorrupt
	}
	return b.data[at : at+size : at+size], nil
}

const (
	interior = 0x05
	leaf     = 0x0d
)

func (s *scanner) walk(n uint32, depth int) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if s.visited++; depth > maxDepth || s.visited > s.pages {
		return fmt.Errorf("%w: its pages go in a circle", ErrCorrupt)
	}
	p, err := s.pageAt(n)
	if err != nil {
		return err
	}
	at := 0
	if n == 1 {
		at = headerSize
	}
	kind, cells := p[at], int(binary.BigEndian.Uint16(p[at+3:]))
	first := at + 8
	if kind == interior {
		first = at + 12
	}
	if kind != interior && kind != leaf || first+2*cells > len(p) {
		return fmt.Errorf("%w: page %d is none of a table", ErrCorrupt, n)
	}
	if kind == leaf {
		for i := range cells {
			if err := s.cell(p, int(binary.BigEndian.Uint16(p[first+2*i:]))); err != nil || s.stopped {
				return err
			}
			if s.moved { // the row's further pages may have taken this one's place
				if p, err = s.pageAt(n); err != nil {
					return err
				}
				s.moved = false
			}
		}
		return nil
	}
	children := make([]uint32, 0, cells+1)
	for i := range cells {
		c := int(binary.BigEndian.Uint16(p[first+2*i:]))
		if c+4 > len(p) {
			return fmt.Errorf("%w: page %d", ErrCorrupt, n)
		}
		children = append(children, binary.BigEndian.Uint32(p[c:]))
	}
	children = append(children, binary.BigEndian.Uint32(p[at+8:]))
	for _, c := range children {
		if err := s.walk(c, depth+1); err != nil || s.stopped {
			return err
		}
	}
	return nil
}

// varint reads SQLite's big-endian varint; n is 0 where the bytes end early.
func varint(b []byte) (v int64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return int64(b[0]), 1
	}
	var u uint64
	for i := 0; i < len(b) && i < 9; i++ {
		if i == 8 {
			return int64(u<<8 | uint64(b[i])), 9 //nolint:gosec // two's complement
		}
		u = u<<7 | uint64(b[i]&0x7f)
		if b[i] < 0x80 {
			return int64(u), i + 1 //nolint:gosec // two's complement
		}
	}
	return 0, 0
}

// cell reads the row at a place of a leaf.
func (s *scanner) cell(p []byte, at int) error {
	if at >= len(p) {
		return ErrCorrupt
	}
	size, n := varint(p[at:])
	if n == 0 || size < 0 || size > maxPayload {
		return fmt.Errorf("%w: a row of %d bytes", ErrCorrupt, size)
	}
	at += n
	id, n := varint(p[min(at, len(p)):])
	if n == 0 {
		return ErrCorrupt
	}
	at += n
	row := p[min(at, len(p)):]
	total := int(size)
	if local := s.local(total); local < total {
		if len(row) < local+4 {
			return ErrCorrupt
		}
		var err error
		if row, err = s.whole(row[:local], binary.BigEndian.Uint32(row[local:]), total); err != nil {
			return err
		}
	}
	if len(row) < total {
		return ErrCorrupt
	}
	if err := s.record(row[:total], id); err != nil {
		return err
	}
	if !s.yield(s.values) {
		s.stopped = true
	}
	return nil
}

// local is how much of a row lies on its page.
func (d *DB) local(total int) int {
	most := d.usable - 35
	if total <= most {
		return total
	}
	least := (d.usable-12)*32/255 - 23
	if k := least + (total-least)%(d.usable-4); k <= most {
		return k
	}
	return least
}

// whole gathers a row that goes on in further pages.
func (d *DB) whole(local []byte, next uint32, total int) ([]byte, error) {
	d.overflow, d.moved = append(d.overflow[:0], local...), true
	for len(d.overflow) < total {
		p, err := d.pageAt(next)
		if err != nil {
			return nil, err
		}
		next = binary.BigEndian.Uint32(p)
		d.overflow = append(d.overflow, p[4:min(d.usable, 4+total-len(d.overflow))]...)
	}
	return d.overflow, nil
}

// sizes of the serial types below 12.
var sizes = [12]int{0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0}

// record reads the wanted columns of a row.
func (s *scanner) record(row []byte, id int64) error {
	header, n := varint(row)
	if n == 0 || header < int64(n) || header > int64(len(row)) {
		return ErrCorrupt
	}
	types, body := row[n:header], row[header:]
	for i := range s.values {
		s.values[i] = Value{Null: true}
	}
	at := 0
	for column := 0; column < len(s.slots) && len(types) > 0; column++ {
		t, n := varint(types)
		if n == 0 || t < 0 {
			return ErrCorrupt
		}
		types = types[n:]
		size := 0
		if t < 12 {
			size = sizes[t]
		} else {
			if t > 2*maxPayload {
				return ErrCorrupt
			}
			size = int(t-12) / 2
		}
		if at+size > len(body) {
			return ErrCorrupt
		}
		if slot := s.slots[column]; slot >= 0 {
			s.values[slot] = value(t, body[at:at+size])
			if t == 0 && column == s.table.rowid {
				s.values[slot] = Value{Int: id}
			}
		}
		at += size
	}
	return nil
}

func value(t int64, b []byte) Value {
	switch {
	case t == 0:
		return Value{Null: true}
	case t == 7:
		f := math.Float64frombits(binary.BigEndian.Uint64(b))
		v := Value{Real: f}
		if math.Abs(f) < 1<<62 {
			v.Int = int64(f)
		}
		return v
	case t == 9:
		return Value{Int: 1}
	case t >= 12:
		return Value{Bytes: b}
	}
	var n int64
	if len(b) > 0 {
		n = int64(int8(b[0])) //nolint:gosec // two's complement
		for _, c := range b[1:] {
			n = n<<8 | int64(c)
		}
	}
	return Value{Int: n}
}
