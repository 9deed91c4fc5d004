//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	codes "github.com/sixty-dev/sixty/internal/cli/command"
)

// TestPrintedCommandsRun takes the commands out of what the program prints, joins the lines of long
// ones as a shell does, and runs each.
func TestPrintedCommandsRun(t *testing.T) {
	sh := documentShell(t)
	long := strings.Repeat("a directory with a long name, ", 4) + "it's quoted"
	must.Succeed(t, os.Mkdir(filepath.Join(sh.dir, long), 0o700))
	copied(t, filepath.Join(sh.dir, long, "incident.tar.zst"), filepath.Join(sh.dir, "incident.tar.zst"))
	for line, least := range map[string]int{
		`sixty diagnose "` + long + `/incident.tar.zst" --use-case chat --set 'kv_cache_full=95%'`: 1,
		"sixty diagnose testdata/recordings/full-but-quiet.tar.zst":                                1,
		"sixty demo --fast --fault kv-cache-thrashing":                                             1,
	} {
		code, out := sh.do(t, line)
		printed := commandsOf(line, strings.ReplaceAll("    "+out, "\n", "\n    "))
		if code == codes.ExitCannotCheck || len(printed) < least {
			t.Errorf("exit code %d, %d commands printed by %s:\n%s", code, len(printed), line, out)
		}
		for _, c := range printed {
			text := c.text
			if strings.Contains(text, "--page") || strings.Contains(text, "--serve") || strings.Contains(text, "localhost:8000") {
				text += " --help" // it goes on until it is interrupted, or needs the server that the one before is
			}
			if code, out := sh.do(t, text); code == codes.ExitCannotCheck || strings.Contains(out, "error: ") {
				t.Errorf("%s prints %s, which ends with %d:\n%s", line, text, code, out)
			}
		}
	}
}
