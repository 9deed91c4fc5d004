package sqlite

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// testdata/types.sqlite was written by SQLite 3.40 with pages of 512 bytes: 200 rows of a
// table with all types, four of them too long for a page, and an empty table.

func fixture(t testing.TB) []byte {
	t.Helper()
	return must.ReadFile(t, "testdata/types.sqlite")
}

func scanTable(t testing.TB, db *DB, name string, want []string, take func([]Value) bool) error {
	t.Helper()
	return Scan(t.Context(), db, name, want, CopyRow, func(v *[]Value) bool { return take(*v) })
}

func TestScan(t *testing.T) {
	b := fixture(t)
	db, err := Open(bytes.NewReader(b), int64(len(b)))
	must.Succeed(t, err)
	if got := strings.Join(db.Columns("t"), ","); got != "id,a,b,c,d" {
		t.Fatalf("columns %s", got)
	}
	want := []int64{0, 1, -1, 127, -128, 99, -8000000, 1 << 40, -1 << 62, 0}
	n := 0
	err = scanTable(t, db, "t", []string{"b", "id", "none", "a", "c", "d"}, func(v []Value) bool {
		text := v[0].Text()
		if i := strings.TrimRight(text, "x"); i != "row "+strconv.Itoa(n) || n%50 == 0 && len(text) != len(i)+20*n {
			t.Fatalf("row %d: text %q of %d", n, i, len(text))
		}
		if v[1].Int != int64(3*n+1) || !v[2].Null || v[3].Int != want[n%10] || v[3].Null != (n%10 == 9) {
			t.Fatalf("row %d: %+v", n, v[1:4])
		}
		if v[4].Int != int64(n/4) {
			t.Fatalf("row %d: %v of a real", n, v[4])
		}
		if len(v[5].Bytes) != 2*(n%5) {
			t.Fatalf("row %d: blob %v", n, v[5].Bytes)
		}
		n++
		return true
	})
	if err != nil || n != 200 {
		t.Fatalf("%d rows, %v", n, err)
	}
	for _, name := range []string{"empty", "nowhere"} {
		if err := scanTable(t, db, name, []string{"x"}, func([]Value) bool { t.Error("a row of", name); return true }); err != nil {
			t.Error(err)
		}
	}
}

func TestAScanEnds(t *testing.T) {
	b := fixture(t)
	db, err := Open(bytes.NewReader(b), int64(len(b)))
	must.Succeed(t, err)
	n := 0
	if err := scanTable(t, db, "t", nil, func([]Value) bool { n++; return n < 3 }); err != nil || n != 3 {
		t.Errorf("%d rows, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Scan(ctx, db, "t", nil, CopyRow, func(*[]Value) bool { return true }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestDamagedDatabasesAreErrors(t *testing.T) {
	b := fixture(t)
	for name, tc := range map[string]struct {
		data []byte
		want error
	}{
		"empty":             {nil, ErrCorrupt},
		"text":              {[]byte(strings.Repeat("not a database ", 10)), ErrNoDatabase},
		"a header alone":    {b[:100], ErrCorrupt},
		"short":             {b[:10], ErrCorrupt},
		"odd page size":     {patched(b, 16, 3, 1), ErrCorrupt},
		"schema to nowhere": {patched(b, 100, 9), ErrCorrupt},
	} {
		if _, err := Open(bytes.NewReader(tc.data), int64(len(tc.data))); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	half := b[:len(b)/2]
	db, err := Open(bytes.NewReader(half), int64(len(half)))
	must.Succeed(t, err)
	n := 0
	if err := scanTable(t, db, "t", []string{"id"}, func([]Value) bool { n++; return true }); !errors.Is(err, ErrCorrupt) {
		t.Errorf("half a file: %v", err)
	}
	if n == 0 || n >= 200 {
		t.Errorf("half a file gave %d rows", n)
	}
}

// TestEverySerialTypeIsRead reads records with one value, whose serial type takes two bytes instead of one.
func TestEverySerialTypeIsRead(t *testing.T) {
	for _, tc := range []struct {
		record string
		want   Value
		err    error
	}{
		{"\x03\x80\x05\x01\x02\x03\x04\x05\x06", Value{Int: 0x010203040506}, nil},
		{"\x03\x80\x00", Value{Null: true}, nil},
		{"\x03\x80\x09", Value{Int: 1}, nil},
		{"\x03\x80\x02\xff\xfe", Value{Int: -2}, nil},
		{"\x03\x80\x11ab", Value{Bytes: []byte("ab")}, nil},
		{"\x03\x80\x11a", Value{}, ErrCorrupt},
		{"\x02\x80", Value{}, ErrCorrupt},
		{"\x01", Value{Null: true}, nil},
	} {
		s := &scanner{rowid: -1, wanted: []slot{{}}, values: make([]Value, 1)}
		if err := s.readRecord([]byte(tc.record), 0); !errors.Is(err, tc.err) ||
			err == nil && !reflect.DeepEqual(s.values[0], tc.want) {
			t.Errorf("%x: %+v, %v", tc.record, s.values[0], err)
		}
	}
}

func patched(b []byte, at int, with ...byte) []byte {
	out := bytes.Clone(b)
	copy(out[at:], with)
	return out
}

func FuzzScan(f *testing.F) {
	b := fixture(f)
	f.Add(b)
	f.Add(b[:600])
	f.Fuzz(func(t *testing.T, data []byte) {
		db, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		for name, tree := range db.tables {
			n := 0
			_ = scanTable(t, db, name, tree.columns, func([]Value) bool { n++; return n < 10_000 })
		}
	})
}
