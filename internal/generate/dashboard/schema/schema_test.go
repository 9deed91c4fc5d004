// Package schema_test checks the generated dashboards against the types that
// Grafana and Perses publish as npm packages.
package schema_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/generate/dashboard/grafana"
	"github.com/sixty-dev/sixty/internal/generate/dashboard/perses"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

const tsconfig = `{"compilerOptions": {"strict": true, "noEmit": true, "skipLibCheck": true, "module": "esnext", "moduleResolution": "bundler", "target": "es2022", "types": []}, "include": ["*.ts"]}`

func TestDashboardsFitTheSchemasOfGrafanaAndPerses(t *testing.T) {
	modules, err := filepath.Abs("node_modules")
	must.Succeed(t, err)
	compiler := filepath.Join(modules, ".bin", "tsc")
	if _, err := os.Stat(compiler); err != nil {
		t.Skip("needs the schemas from npm: make schemas")
	}
	dir := t.TempDir()
	must.Succeed(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	write := func(name string, content []byte) {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), content, 0o644))
	}
	for _, name := range []string{"schema.ts", "faults.ts"} {
		content := must.ReadFile(t, name)
		write(name, content)
	}
	write("tsconfig.json", []byte(tsconfig))
	for _, id := range []string{"vllm-v1", "vllm-v0"} {
		d, err := dialect.Named(id)
		must.Succeed(t, err)
		cfg := dashboard.Config{Pathologies: pathologies.All(), Period: slo.DefaultPeriod, Deployment: dialect.Deployment{Dialects: []dialect.Dialect{d}}}
		for typ, render := range map[string]func(dashboard.Config) ([]generate.File, error){
			"GrafanaDashboard": grafana.Files, "PersesDashboard": perses.Files,
		} {
			files, err := render(cfg)
			must.Succeed(t, err)
			write(typ+"-"+id+".ts", typed(typ, files))
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, compiler, "-p", dir, "--pretty", "false").CombinedOutput()
	if err != nil {
		t.Errorf("tsc: %v\n%.6000s", err, out)
	}
}

// typed makes a program that assigns every dashboard to a type.
func typed(typ string, files []generate.File) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "import type { %s } from \"./schema\";\n", typ)
	for _, f := range files {
		name := strings.NewReplacer("-", "_", ".json", "").Replace(f.Path)
		fmt.Fprintf(&b, "export const %s: %s = %s;\n", name, typ, bytes.TrimSpace(f.Content))
	}
	return b.Bytes()
}
