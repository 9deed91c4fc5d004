// Package parquet reads tables that lie in Parquet files, one each: what
// nsys export --type parquetdir writes.
package parquet

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/sixty-dev/sixty/internal/profile/nsys/table"
)

// Magic is what a Parquet file begins with.
const Magic = "PAR1"

// ErrCorrupt is the error of a file that cannot be read.
var ErrCorrupt = errors.New("the Parquet file is damaged, or ends early")

const (
	rows      = 4096     // of a table that are read at once
	maxPage   = 64 << 20 // bytes of a page, unpacked: 1 MiB is usual
	maxValues = 4 << 20  // of a page: Arrow writes a million at most
)

// A File is one table's.
type File struct {
	io.ReaderAt
	Size int64
}

// A Dir is a directory of tables.
type Dir map[string]*file

// file is one of them.
type file struct {
	*parquet.File
	source  File
	columns []string
	err     error // why it cannot be read
}

// Open reads what the files say of themselves; those that are damaged say so when they are
// scanned.
func Open(files map[string]File) Dir {
	d := Dir{}
	for name, f := range files {
		t := &file{source: f, columns: []string{}}
		t.err = recoverPanic(func() error {
			err := footer(f)
			if err != nil {
				return err
			}
			if t.File, err = parquet.OpenFile(f, f.Size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true)); err != nil {
				return fmt.Errorf("%w: %w", ErrCorrupt, err)
			}
			for _, path := range t.Schema().Columns() {
				if len(path) != 1 {
					return fmt.Errorf("%w: its columns lie in each other", ErrCorrupt)
				}
				t.columns = append(t.columns, path[0])
			}
			return nil
		})
		d[name] = t
	}
	return d
}

// footer checks how long the file says that its end is: the library makes room for it.
func footer(f File) error {
	var end [8]byte
	if _, err := f.ReadAt(end[:], f.Size-int64(len(end))); f.Size < int64(len(end)) || err != nil && !errors.Is(err, io.EOF) {
		return ErrCorrupt
	}
	if n := int64(binary.LittleEndian.Uint32(end[:])); n > f.Size-int64(len(end)) || n > maxPage {
		return fmt.Errorf("%w: %d bytes of what it says of itself", ErrCorrupt, n)
	}
	return nil
}

// pages checks how much a column's pages say that they hold: a few bytes may be unpacked to
// gigabytes, and the library makes room for all of them.
func (f *file) pages(group, column int) error {
	m := &f.Metadata().RowGroups[group].Columns[column].MetaData
	switch m.Codec {
	case format.Uncompressed, format.Snappy, format.Gzip, format.Zstd:
	default: // the library makes room for a damaged page of LZ4 until there is none
		return fmt.Errorf("compressed by %s, which is not read", m.Codec)
	}
	at := m.DataPageOffset
	if m.DictionaryPageOffset > 0 {
		at = min(at, m.DictionaryPageOffset)
	}
	var compact thrift.CompactProtocol
	buffer := bufio.NewReaderSize(nil, 512)
	for end := at + m.TotalCompressedSize; at < end; {
		section := io.NewSectionReader(f.source, at, end-at)
		buffer.Reset(section)
		var h format.PageHeader
		if err := thrift.NewDecoder(compact.NewReader(buffer)).Decode(&h); err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		if h.CompressedPageSize < 0 || h.CompressedPageSize > maxPage || h.UncompressedPageSize > maxPage ||
			max(h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues, h.DictionaryPageHeader.V.NumValues) > maxValues {
			return fmt.Errorf("%w: a page of %d bytes", ErrCorrupt, h.UncompressedPageSize)
		}
		read, err := section.Seek(0, io.SeekCurrent)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		at += read - int64(buffer.Buffered()) + int64(h.CompressedPageSize)
	}
	return nil
}

// recoverPanic turns a panic into an error: the library trusts what a file says of itself.
func recoverPanic(read func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrCorrupt, p)
		}
	}()
	return read()
}

// Columns implements [table.Source].
func (d Dir) Columns(name string) []string {
	if f := d[name]; f != nil {
		return f.columns
	}
	return nil
}

// Parts implements [table.Source]. They are told apart by the number of their first row.
func (d Dir) Parts(_ context.Context, name string) ([]table.Chunk, error) {
	f := d[name]
	if f.err != nil {
		return nil, f.err
	}
	var parts []table.Chunk
	for from, n := int64(0), f.NumRows(); from < n; from += rows {
		if int64(len(parts)) > f.Size() { // a row takes more than a bit, even among millions that are alike
			return parts, fmt.Errorf("%w: %d rows", ErrCorrupt, n)
		}
		parts = append(parts, table.Chunk{From: from, Count: min(rows, n-from)})
	}
	return parts, nil
}

// Shared implements [table.Source]: a column is read from its beginning.
func (Dir) Shared() bool { return false }

// Reader implements [table.Source].
func (d Dir) Reader(name string, columns []int) table.Reader {
	r := &reader{row: make([]table.Value, len(columns))}
	for i, c := range columns {
		r.row[i].Null = true
		if c >= 0 {
			r.columns = append(r.columns, &column{file: d[name], number: c, value: i})
		}
	}
	return r
}

// reader reads a table's rows in order.
type reader struct {
	columns []*column
	row     []table.Value
}

func (r *reader) Read(p table.Chunk, _ *[]byte, yield func([]table.Value)) error {
	return recoverPanic(func() error {
		for range p.Count {
			for _, c := range r.columns {
				if c.at == len(c.values) {
					if err := c.readMore(); err != nil {
						return err
					}
				}
				set(&r.row[c.value], &c.values[c.at])
				c.at++
			}
			yield(r.row)
		}
		return nil
	})
}

// column is the place in one of a table's columns.
type column struct {
	file          *file
	number, value int // in the file, in the row
	group         int // the next one
	pages         parquet.Pages
	page          parquet.ValueReader
	buffer        [rows]parquet.Value
	values        []parquet.Value
	at            int
}

// readMore reads the next values.
func (c *column) readMore() error {
	for {
		if c.page == nil {
			switch groups := c.file.RowGroups(); {
			case c.pages != nil:
			case c.group == len(groups):
				return fmt.Errorf("%w: a column is shorter than its table", ErrCorrupt)
			default:
				if err := c.file.pages(c.group, c.number); err != nil {
					return err
				}
				c.pages = groups[c.group].ColumnChunks()[c.number].Pages()
				c.group++
			}
			page, err := c.pages.ReadPage()
			if errors.Is(err, io.EOF) {
				err = c.pages.Close()
				c.pages = nil
				if err == nil {
					continue
				}
			}
			if err != nil {
				return fmt.Errorf("%w: %w", ErrCorrupt, err)
			}
			c.page = page.Values() // the page is not released: rows that were not taken yet hold its text
		}
		n, err := c.page.ReadValues(c.buffer[:])
		if err != nil {
			if c.page = nil; !errors.Is(err, io.EOF) {
				return fmt.Errorf("%w: %w", ErrCorrupt, err)
			}
		}
		if n > 0 {
			c.values, c.at = c.buffer[:n], 0
			return nil
		}
	}
}

func set(v *table.Value, from *parquet.Value) {
	v.Int, v.Bytes, v.Null = 0, nil, false
	float := math.NaN()
	switch from.Kind() {
	case parquet.Int64:
		v.Int = from.Int64()
	case parquet.Int32:
		v.Int = int64(from.Int32())
	case parquet.ByteArray, parquet.FixedLenByteArray:
		v.Bytes = from.ByteArray()
	case parquet.Boolean:
		if from.Boolean() {
			v.Int = 1
		}
	case parquet.Double:
		float = from.Double()
	case parquet.Float:
		float = float64(from.Float())
	default:
		v.Null = true
	}
	if math.Abs(float) < 1<<62 {
		v.Int = int64(float)
	}
}
