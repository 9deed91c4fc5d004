package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/cli"
)

func TestEveryCommandHasAManPage(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, write(dir))
	for _, c := range cli.Root().Commands() {
		if c.Hidden || !c.IsAvailableCommand() {
			continue
		}
		page, err := os.ReadFile(filepath.Join(dir, "man", "sixty-"+c.Name()+".1"))
		if err != nil || !bytes.Contains(page, []byte(c.Short)) && !bytes.Contains(page, []byte("sixty-"+c.Name())) {
			t.Errorf("%s: %v\n%s", c.Name(), err, page)
		}
	}
	for _, name := range []string{"sixty.bash", "_sixty", "sixty.fish"} {
		if content, err := os.ReadFile(filepath.Join(dir, "completions", name)); err != nil || len(content) < 1000 {
			t.Errorf("%s: %d bytes, %v", name, len(content), err)
		}
	}
}
