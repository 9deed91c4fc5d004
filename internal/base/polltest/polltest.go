// Package polltest waits for what nothing tells a test of: how long that takes decides nothing.
package polltest

import (
	"testing"
	"time"
)

// patience is only there so that what never comes is a failure of the test that waits, and
// not of the package.
const patience = 3 * time.Minute

// longest is the longest pause between two looks.
const longest = 100 * time.Millisecond

// True looks again and again until is returns true, and reports whether it ever did.
func True(is func() bool) bool {
	end := time.Now().Add(patience)
	for pause := time.Millisecond; !is(); pause = min(2*pause, longest) {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// Until fails the test, from its own goroutine, unless is returns true some time.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	if !True(is) {
		t.Fatalf("not within %s: %s", patience, what)
	}
}
