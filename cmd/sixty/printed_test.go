//go:build unix

package main

import (
	"strings"
	"testing"

	codes "github.com/sixty-dev/sixty/internal/cli/command"
)

// TestPrintedCommandsRun runs the commands that the demo prints.
func TestPrintedCommandsRun(t *testing.T) {
	sh := documentShell(t)
	const line = "sixty demo --fault kv-cache-thrashing"
	code, out := sh.do(t, line)
	printed := commandsOf(line, strings.ReplaceAll("    "+out, "\n", "\n    "))
	if code == codes.ExitCannotCheck || len(printed) < 3 {
		t.Errorf("exit code %d, %d commands printed by %s:\n%s", code, len(printed), line, out)
	}
	for _, c := range printed {
		text := c.text
		if strings.Contains(text, "--serve") || strings.Contains(text, "localhost:8000") {
			text += " --help" // it runs until it is interrupted, or needs the server that such a command starts
		}
		if code, out := sh.do(t, text); code == codes.ExitCannotCheck || strings.Contains(out, "error: ") {
			t.Errorf("%s prints %s, which ends with %d:\n%s", line, text, code, out)
		}
	}
}
