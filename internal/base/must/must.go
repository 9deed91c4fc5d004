// Package must ends a test whose setup fails, or that got something else than it wants.
package must

import (
	"os"

	"github.com/google/go-cmp/cmp"
)

// T is a test, a benchmark, a fuzz target, or a case of a property.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Succeed ends a test, from its own goroutine, unless the error is nil.
func Succeed(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Equal ends a test, from its own goroutine, that got something else than it wants, with the difference.
func Equal(t T, want, got any, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Fatal("-want +got:\n" + diff)
	}
}

// ReadFile returns the content of a file.
func ReadFile(t T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	Succeed(t, err)
	return content
}
