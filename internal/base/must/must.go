// Package must ends a test whose setup fails.
package must

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
