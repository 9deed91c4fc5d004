// Package must ends a test at an error of what it needs before it can try anything.
package must

// T is what ends: a test, a benchmark, a fuzz target, or a case of a property.
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
