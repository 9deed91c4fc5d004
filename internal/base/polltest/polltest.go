// Package polltest lets a test wait for a condition that signals nothing. The waiting time does not affect the
// result.
package polltest

import (
	"testing"
	"time"
)

// patience makes a condition that never holds fail the waiting test, before the timeout of the test binary.
const patience = 3 * time.Minute

// longest is the longest pause between two checks.
const longest = 100 * time.Millisecond

// True polls a condition until it holds, and reports whether it ever did.
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

// Until polls a condition until it holds, and fails the test if it never does. Call it from the test's goroutine.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	if !True(is) {
		t.Fatalf("not within %s: %s", patience, what)
	}
}
