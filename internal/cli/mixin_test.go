package cli

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
)

var update = flag.Bool("update", false, "rewrite mixin/")

// TestMixinIsFresh compares mixin/ with what sixty generate all writes today.
func TestMixinIsFresh(t *testing.T) {
	const mixin = "../../mixin"
	fresh := t.TempDir()
	var stdout, stderr bytes.Buffer
	root := newRoot(&stdout, &stderr)
	root.SetArgs([]string{"generate", "all", "--tests", "--out", fresh})
	must.Succeed(t, root.Execute())
	want := read(t, fresh)
	if *update {
		for _, dir := range []string{"rules", "dashboards", "grafana-provisioning", "scrape", "runbooks"} {
			must.Succeed(t, os.RemoveAll(filepath.Join(mixin, dir)))
		}
		must.Succeed(t, os.CopyFS(mixin, os.DirFS(fresh)))
	}
	got := read(t, mixin)
	delete(got, "README.md")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mixin/ is stale: make generate\n-fresh +committed:\n%.2000s", diff)
	}
}

// read returns the files of a directory by path.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, path))
		out[path] = string(content)
		return err
	})
	must.Succeed(t, err)
	return out
}
