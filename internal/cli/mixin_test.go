package cli

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

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
		for _, dir := range []string{"rules", "dashboards", "scrape", "runbooks"} {
			must.Succeed(t, os.RemoveAll(filepath.Join(mixin, dir)))
		}
		must.Succeed(t, os.CopyFS(mixin, os.DirFS(fresh)))
	}
	got := read(t, mixin)
	for _, own := range []string{
		"README.md", "jsonnetfile.json", "mixin.libsonnet",
		"grafana-provisioning/dashboards/sixty.yaml", "grafana-provisioning/datasources/sixty.yaml",
	} {
		delete(got, own)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mixin/ is stale: make generate\n-fresh +committed:\n%.2000s", diff)
	}
}

// TestTheMixinHasEverything: jsonnet's face of mixin/ imports every dashboard and the rules, and no file that is not there.
func TestTheMixinHasEverything(t *testing.T) {
	files := read(t, "../../mixin")
	named := map[string]bool{"rules/rules.yaml": true}
	for path := range files {
		if strings.HasPrefix(path, "dashboards/grafana/") {
			named[path] = true
		}
	}
	for _, i := range regexp.MustCompile(`(?m)^[^/]*import(?:str)? '([^']+)'`).FindAllStringSubmatch(files["mixin.libsonnet"], -1) {
		if !named[i[1]] {
			t.Errorf("mixin.libsonnet imports %s", i[1])
		}
		delete(named, i[1])
	}
	if len(named) > 0 {
		t.Errorf("mixin.libsonnet does not import %v", named)
	}
}

// TestDashboardsOfKubernetes: the sidecar's ConfigMaps and the operator's objects hold Grafana's dashboards as they are.
func TestDashboardsOfKubernetes(t *testing.T) {
	written := func(format string) map[string]string {
		dir := t.TempDir()
		_, _, err := sixty(t, "generate", "dashboards", "-o", format, "--out", dir)
		must.Succeed(t, err)
		return read(t, dir)
	}
	plain := written("grafana")
	for _, format := range []string{"configmap", "grafanadashboard"} {
		objects := written(format)
		if len(objects) != len(plain)+1 || !strings.Contains(objects["kustomization.yaml"], "- sixty-incident.yaml") {
			t.Errorf("%s: %d files of %d dashboards", format, len(objects), len(plain))
		}
		for path, content := range plain {
			name := strings.TrimSuffix(path, ".json")
			var o struct {
				Kind     string
				Metadata struct {
					Name   string
					Labels map[string]string
				}
				Data map[string]string
				Spec struct{ JSON string }
			}
			must.Succeed(t, yaml.Unmarshal([]byte(objects[name+".yaml"]), &o))
			switch {
			case o.Metadata.Name != name || o.Data[path]+o.Spec.JSON != content:
				t.Errorf("%s of %s: %.300s", format, path, objects[name+".yaml"])
			case (format == "configmap") != (o.Kind == "ConfigMap" && o.Metadata.Labels["grafana_dashboard"] == "1"):
				t.Errorf("%s is a %s with labels %v", format, o.Kind, o.Metadata.Labels)
			}
		}
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
