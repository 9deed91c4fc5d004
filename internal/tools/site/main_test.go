package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const repository = "../../.."

// TestAllLinksResolve builds the site: every link of the documents leads to a file, and to a
// heading where it names one.
func TestAllLinksResolve(t *testing.T) {
	s, err := read(repository)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if err := s.write(out); err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join(out, "docs", "README.html"))
	if err != nil {
		t.Fatal(err)
	}
	listed := string(index)
	for name := range s.pages {
		if strings.HasPrefix(name, "docs/") && strings.Count(name, "/") == 1 && name != first && !strings.Contains(listed, address(name)) {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

func TestBrokenLinksAreErrors(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"README.md": "# A\n[b](docs/README.md#b-1)", "CHANGELOG.md": "", "docs/README.md": "# B\n## B\n[no](absent.md) [heading](../README.md#absent)",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := read(root)
	if err == nil || strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), "absent.md: no such file") || !strings.Contains(err.Error(), "#absent: no such heading") {
		t.Errorf("got %v", err)
	}
}
