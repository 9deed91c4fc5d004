package parquet

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/profile/nsys/table"
)

const ranges = "NVTX_EVENTS"

func fixture(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "testdata", "parquet", ranges+".parquet"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// count reads a file as a table, and counts its rows.
func count(ctx context.Context, b []byte, want ...string) (int, error) {
	n := 0
	d := Open(map[string]File{"t": {bytes.NewReader(b), int64(len(b))}})
	err := table.Scan(ctx, d, "t", want, table.CopyRow, func(*[]table.Value) bool {
		n++
		return n < 100_000
	})
	return n, err
}

func TestADamagedFileIsAnError(t *testing.T) {
	b := fixture(t)
	if n, err := count(t.Context(), b, "start", "text", "none"); err != nil || n != 12 {
		t.Fatalf("%d rows, %v", n, err)
	}
	for size := range len(b) - 1 {
		if _, err := count(t.Context(), b[:size], "start", "text"); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
	for want, bad := range map[string][]byte{
		"4294967295 bytes of what": slices.Concat(b[:len(b)-8], []byte("\xff\xff\xff\xff"+Magic)),
		"page of 2147483647 bytes": slices.Concat(b[:7], []byte("\xfe\xff\xff\xff\x0f"), b[9:]), // the first page's size, unpacked
	} {
		if _, err := count(t.Context(), bad, "start", "text"); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	lz4, err := os.ReadFile("testdata/lz4.parquet") // by pyarrow 26.0.1
	if err != nil {
		t.Fatal(err)
	}
	if _, err := count(t.Context(), lz4, "start"); err == nil || !strings.Contains(err.Error(), "LZ4") {
		t.Errorf("LZ4: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := count(ctx, b, "start"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func FuzzScan(f *testing.F) {
	f.Add(fixture(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, err := count(t.Context(), data, "start", "end", "text"); err == nil && n > 100_000 {
			t.Errorf("%d rows", n)
		}
	})
}
