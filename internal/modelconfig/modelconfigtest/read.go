// Package modelconfigtest reads the models that tests of several packages share.
package modelconfigtest

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/sixty-dev/sixty/internal/modelconfig"
)

// Read returns a model of internal/modelconfig/testdata by its file's name, without .json.
func Read(t testing.TB, name string) *modelconfig.Model {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	content, err := os.ReadFile(filepath.Join(filepath.Dir(here), "..", "testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := modelconfig.Parse(content)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
