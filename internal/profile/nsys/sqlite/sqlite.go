// Package sqlite scans the tables of an SQLite database file, row by row. It has no SQL, no indexes and no writing,
// which is enough for the export of a profiler. It is many times as fast as a database engine, needs no dependency, and
// its memory does not grow with the file.
//
// Open reads the header and the schema. Scan finds a table's leaf pages, reads runs of them on all processors, and
// takes the wanted columns from each row (readRecord). https://www.sqlite.org/fileformat2.html describes the format.
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

// Magic begins a database file.
const Magic = "SQLite format 3\x00"

// Errors of files that cannot be read.
var (
	ErrNoDatabase = errors.New("not an SQLite database")
	ErrCorrupt    = errors.New("the database is damaged, or its file ends early")
)

const (
	headerSize = 100
	maxRun     = 128 << 10 // bytes of a run
	maxPayload = 64 << 20  // bytes of a row
	maxDepth   = 40        // levels of a tree
	maxSchema  = 10_000    // tables and indexes
)

// A tree is a table.
type tree struct {
	columns []string
	root    uint32
	rowid   int // index of the column that is an alias of the row's number, or -1
}

// A DB is an open database.
type DB struct {
	r        io.ReaderAt
	pageSize int64 // bytes
	usable   int
	pages    uint32
	tables   map[string]*tree
	WAL      bool // the newest rows may be in a -wal file beside it
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
	d := &DB{r: r, pageSize: page, usable: int(page) - int(h[20]), WAL: h[19] == 2, tables: map[string]*tree{}}
	d.pages = uint32(min((size+page-1)/page, math.MaxUint32)) //nolint:gosec // bounded
	return d, d.readSchema()
}

const master = "sqlite_master"

func (d *DB) readSchema() error {
	d.tables[master] = &tree{columns: []string{"type", "name", "tbl_name", "rootpage", "sql"}, root: 1, rowid: -1}
	n := 0
	err := Scan(context.Background(), d, master, []string{"type", "name", "rootpage", "sql"}, CopyRow,
		func(row *[]Value) bool {
			n++
			if v := *row; v[0].Text() == "table" && v[1].Text() != master {
				t := &tree{root: uint32(v[2].Int)} //nolint:gosec // checked when it is read
				t.columns, t.rowid = parseColumns(v[3].Text())
				d.tables[v[1].Text()] = t
			}
			return n < maxSchema
		})
	if err != nil {
		return fmt.Errorf("read the list of tables: %w", err)
	}
	return nil
}

// parseColumns reads the names of a table's columns from its CREATE statement, and the index of the column that is an
// alias of the row's number, or -1.
func parseColumns(sql string) (names []string, rowid int) {
	names, rowid = []string{}, -1
	for _, definition := range splitDefinitions(sql) {
		words := strings.Fields(definition)
		if len(words) == 0 {
			continue
		}
		switch strings.ToUpper(words[0]) {
		case "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "CONSTRAINT":
			continue
		}
		key := strings.Contains(strings.ToUpper(strings.Join(words, " ")), "PRIMARY KEY")
		if len(words) > 1 && strings.EqualFold(words[1], "INTEGER") && key {
			rowid = len(names)
		}
		names = append(names, strings.Trim(words[0], "\"`[]'"))
	}
	return names, rowid
}

// splitDefinitions returns the definitions between the parentheses of a CREATE statement, without comments.
func splitDefinitions(sql string) (definitions []string) {
	open := strings.IndexByte(sql, '(')
	if open < 0 {
		return nil
	}
	var text strings.Builder
	depth := 0
	for i := open + 1; i < len(sql); i++ {
		c := sql[i]
		switch {
		case c == '-' && strings.HasPrefix(sql[i:], "--"):
			end := strings.IndexByte(sql[i:], '\n')
			if end < 0 {
				return append(definitions, text.String())
			}
			i += end
			c = ' '
		case c == '(':
			depth++
		case c == ')' && depth == 0:
			return append(definitions, text.String())
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			definitions = append(definitions, text.String())
			text.Reset()
			continue
		}
		text.WriteByte(c)
	}
	return append(definitions, text.String())
}

// Columns are the names of a table's columns; nil if the table does not exist.
func (d *DB) Columns(name string) []string {
	if t := d.tables[name]; t != nil {
		return t.columns
	}
	return nil
}

// findRuns returns a table's leaf pages in runs, in order, with an error if some are missing.
func (d *DB) findRuns(ctx context.Context, name string) ([]run, error) {
	leaves, err := d.findLeaves(ctx, d.tables[name])
	most := uint32(max(1, maxRun/d.pageSize)) //nolint:gosec // a few pages
	var runs []run
	for _, n := range leaves {
		if k := len(runs) - 1; k >= 0 && runs[k].from+runs[k].pages == n && runs[k].pages < most {
			runs[k].pages++
			continue
		}
		runs = append(runs, run{n, 1})
	}
	return runs, err
}

// readPages reads neighbouring pages from page n on. It returns fewer pages at the end of the file.
func (d *DB) readPages(n, pages uint32, into []byte) ([]byte, error) {
	if n == 0 || n > d.pages {
		return nil, fmt.Errorf("%w: page %d of %d", ErrCorrupt, n, d.pages)
	}
	size := int(d.pageSize) * int(pages)
	into = slices.Grow(into[:0], size)[:size]
	k, err := d.r.ReadAt(into, int64(n-1)*d.pageSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read page %d: %w", n, err)
	}
	return into[:k/int(d.pageSize)*int(d.pageSize)], nil
}

const (
	interior = 0x05
	leaf     = 0x0d
)

// listCells reads the header of a table's page n: its kind, where its array of cell positions begins, and their number.
func (d *DB) listCells(p []byte, n uint32) (kind byte, first, cells int, err error) {
	at := 0
	if n == 1 {
		at = headerSize
	}
	kind, cells = p[at], int(binary.BigEndian.Uint16(p[at+3:]))
	first = at + 8
	if kind == interior {
		first = at + 12
	}
	if kind != interior && kind != leaf || first+2*cells > len(p) {
		return 0, 0, 0, fmt.Errorf("%w: page %d is not a table's", ErrCorrupt, n)
	}
	return kind, first, cells, nil
}

// findLeaves returns the pages with a table's rows, in order, with an error if some are missing.
// Every leaf of a tree is as deep as the first.
func (d *DB) findLeaves(ctx context.Context, t *tree) ([]uint32, error) {
	level, seen := []uint32{t.root}, uint32(0)
	var damaged error
	var p []byte
	for range maxDepth {
		var below []uint32
		for i, n := range level {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			var kind byte
			var children []uint32
			var err error
			if p, err = d.readPages(n, 1, p); err == nil {
				kind, children, err = d.listChildren(p, n)
			}
			if err == nil && kind == leaf && i == 0 {
				return level, damaged
			}
			below = append(below, children...)
			if seen += uint32(len(children)); err == nil && (kind == leaf || seen > d.pages) { //nolint:gosec // 16 bits
				err = fmt.Errorf("%w: it has more pages than the file", ErrCorrupt)
			}
			if err != nil {
				damaged = err // the leaves before it are complete
				break
			}
		}
		if level = below; len(level) == 0 {
			return nil, damaged
		}
	}
	return nil, fmt.Errorf("%w: its pages go in a circle", ErrCorrupt)
}

// listChildren returns the kind of page n and, of an interior page, the pages below it, in order.
func (d *DB) listChildren(p []byte, n uint32) (kind byte, children []uint32, err error) {
	if len(p) == 0 {
		return 0, nil, ErrCorrupt
	}
	kind, first, cells, err := d.listCells(p, n)
	if err != nil || kind == leaf {
		return kind, nil, err
	}
	for k := range cells {
		c := int(binary.BigEndian.Uint16(p[first+2*k:]))
		if c+4 > len(p) {
			return kind, children, fmt.Errorf("%w: page %d", ErrCorrupt, n)
		}
		children = append(children, binary.BigEndian.Uint32(p[c:]))
	}
	return kind, append(children, binary.BigEndian.Uint32(p[first-4:])), nil // the last child is in the header
}

// A scanner reads rows of a table.
type scanner struct {
	*DB
	rowid  int     // the table's rowid
	wanted []slot  // by column
	values []Value // the last row's values
}

// A slot says which column of a row goes to which value.
type slot struct{ column, value int }

// newScanner returns a scanner for columns of a table, by their indexes; an index below zero reads as
// null.
func (d *DB) newScanner(name string, columns []int) *scanner {
	s := &scanner{DB: d, rowid: d.tables[name].rowid, values: make([]Value, len(columns))}
	for i, column := range columns {
		s.values[i].Null = true
		if column >= 0 {
			s.wanted = append(s.wanted, slot{column, i})
		}
	}
	slices.SortFunc(s.wanted, func(a, b slot) int { return a.column - b.column })
	return s
}

// readRun calls yield for every row of a run. The bytes of values may be in buffer, until its next use.
func (s *scanner) readRun(r run, buffer *[]byte, yield func([]Value)) error {
	data, err := s.readPages(r.from, r.pages, *buffer)
	if err != nil {
		return err
	}
	*buffer = data
	for n := r.from; n < r.from+r.pages; n++ {
		if len(data) == 0 {
			return ErrCorrupt
		}
		p := data[:s.pageSize:s.pageSize]
		data = data[s.pageSize:]
		kind, first, cells, err := s.listCells(p, n)
		if err == nil && kind != leaf {
			err = fmt.Errorf("%w: page %d is no leaf", ErrCorrupt, n)
		}
		for i := 0; err == nil && i < cells; i++ {
			if err = s.readCell(p, int(binary.BigEndian.Uint16(p[first+2*i:]))); err == nil {
				yield(s.values)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readVarint reads SQLite's big-endian varint; n is 0 if the bytes end early.
func readVarint(b []byte) (v int64, n int) {
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

// readCell reads the row whose cell begins at p[at].
func (s *scanner) readCell(p []byte, at int) error {
	if at >= len(p) {
		return ErrCorrupt
	}
	size, n := readVarint(p[at:])
	if n == 0 || size < 0 || size > maxPayload {
		return fmt.Errorf("%w: a row of %d bytes", ErrCorrupt, size)
	}
	at += n
	id, n := readVarint(p[min(at, len(p)):])
	if n == 0 {
		return ErrCorrupt
	}
	at += n
	row := p[min(at, len(p)):]
	total := int(size)
	if local := s.localBytes(total); local < total {
		if len(row) < local+4 {
			return ErrCorrupt
		}
		var err error
		if row, err = s.gatherRow(row[:local], binary.BigEndian.Uint32(row[local:]), total); err != nil {
			return err
		}
	}
	if len(row) < total {
		return ErrCorrupt
	}
	return s.readRecord(row[:total], id)
}

// localBytes returns how many bytes of a row are on its own page.
func (d *DB) localBytes(total int) int {
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

// gatherRow returns a row that begins with local and goes on in overflow pages, from page next.
func (d *DB) gatherRow(local []byte, next uint32, total int) ([]byte, error) {
	row := slices.Clone(local)
	var p []byte
	for len(row) < total {
		var err error
		if p, err = d.readPages(next, 1, p); err != nil {
			return nil, err
		}
		if len(p) == 0 {
			return nil, ErrCorrupt
		}
		next = binary.BigEndian.Uint32(p)
		row = append(row, p[4:min(d.usable, 4+total-len(row))]...)
	}
	return row, nil
}

// sizes are the bytes of a value by its serial type, for types of a single byte.
var sizes = func() (n [128]uint8) {
	copy(n[:], []uint8{0, 1, 2, 3, 4, 6, 8, 8})
	for t := uint8(12); int(t) < len(n); t++ {
		n[t] = (t - 12) / 2
	}
	return n
}()

// readRecord reads the wanted columns of a row into s.values. It may read the bytes after the row, up to the
// slice's capacity.
func (s *scanner) readRecord(row []byte, id int64) error {
	header, n := readVarint(row)
	if n == 0 || header < int64(n) || header > int64(len(row)) {
		return ErrCorrupt
	}
	types, body := row[n:header], row[header:]
	next, at := 0, 0 // position of the next value
	for _, w := range s.wanted {
		t, size := int64(0), 0 // null, for a column that the row lacks
		for ; next <= w.column && len(types) > 0; next++ {
			at += size
			n := 1
			if t = int64(types[0]); t > math.MaxInt8 {
				t, n = readVarint(types)
			}
			switch types = types[n:]; {
			case n == 0 || t < 0 || t > 2*maxPayload:
				return ErrCorrupt
			case t < int64(len(sizes)):
				size = int(sizes[t])
			default:
				size = int(t-12) / 2
			}
		}
		if next <= w.column {
			t, size = 0, 0
		}
		if at+size > len(body) {
			return ErrCorrupt
		}
		v := &s.values[w.value]
		if setValue(v, t, body[at:at+size]); t == 0 && w.column == s.rowid {
			v.Int, v.Null = id, false
		}
		at += size
	}
	return nil
}

// setValue sets a value of a serial type from its bytes. It assigns field by field, because making and copying a whole
// Value takes longer than reading it.
func setValue(v *Value, t int64, b []byte) {
	v.Int, v.Bytes, v.Null = 0, nil, t == 0
	switch {
	case t >= 12:
		v.Bytes = b
	case t >= 8:
		v.Int = t & 1
	case t == 7:
		if f := math.Float64frombits(binary.BigEndian.Uint64(b)); math.Abs(f) < 1<<62 {
			v.Int = int64(f)
		}
	case cap(b) >= 8:
		v.Int = int64(binary.BigEndian.Uint64(b[:8])) >> (64 - 8*len(b)) //nolint:gosec // two's complement
	case len(b) > 0: // at a page's end
		v.Int = int64(int8(b[0])) //nolint:gosec // two's complement
		for _, c := range b[1:] {
			v.Int = v.Int<<8 | int64(c)
		}
	}
}
