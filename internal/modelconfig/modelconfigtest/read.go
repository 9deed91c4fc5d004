// Package modelconfigtest reads the models that tests of several packages share.
package modelconfigtest

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/modelconfig/testdata"
)

// Read returns a model of internal/modelconfig/testdata by its file's name, without .json.
func Read(t testing.TB, name string) *modelconfig.Model {
	t.Helper()
	content, err := testdata.Files.ReadFile(name + ".json")
	must.Succeed(t, err)
	m, err := modelconfig.Parse(content)
	must.Succeed(t, err)
	return m
}
