// Package embeddedtest opens stores and recordings for tests.
package embeddedtest

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

// New returns an empty store, which is closed with the test.
func New(tb testing.TB) *embedded.Store {
	tb.Helper()
	store, err := embedded.Open(embedded.Config{})
	must.Succeed(tb, err)
	tb.Cleanup(func() { store.Close() })
	return store
}

// Append stores a page of unknown scrape duration.
func Append(tb testing.TB, store *embedded.Store, target embedded.Target, at time.Time, page string) {
	tb.Helper()
	_, err := store.Append(target, at, []byte(page), "", 0)
	must.Succeed(tb, err)
}

// Open loads a recording into a store, which is closed with the test, and returns the times of its first and its last
// scrape. For the function name see [embedded.Store.Load].
func Open(
	tb testing.TB, path string, name func(target string) embedded.Target,
) (store *embedded.Store, first, last time.Time) {
	tb.Helper()
	rec, err := recording.Open(tb.Context(), path)
	must.Succeed(tb, err)
	defer rec.Close()
	store = New(tb)
	must.Succeed(tb, store.Load(tb.Context(), rec, name))
	first, last = rec.Times()
	return store, first, last
}

// ReadTruth reads the JSON beside a recording into v: the faults that were injected into the recorded servers
// (testdata/recordings/README.md).
func ReadTruth(tb testing.TB, path string, v any) {
	tb.Helper()
	text, err := os.ReadFile(strings.TrimSuffix(path, ".tar.zst") + ".json")
	must.Succeed(tb, err)
	if err := json.Unmarshal(text, v); err != nil {
		tb.Fatalf("the truth of %s: %v", path, err)
	}
}
