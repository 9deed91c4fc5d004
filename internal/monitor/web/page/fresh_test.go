package page_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/monitor/web/page"
)

var update = flag.Bool("update", false, "write the files that tests compare with")

// numbers.test.json holds examples of how numbers are written, for the tests of the page.
func TestThePageWritesNumbersAsTheCommandLineDoes(t *testing.T) {
	type example struct {
		Value float64        `json:"value"`
		Unit  indicator.Unit `json:"unit"`
		Text  string         `json:"text"`
	}
	list := []example{}
	add := func(unit indicator.Unit, values ...float64) {
		for _, v := range values {
			list = append(list, example{v, unit, indicator.FormatNumber(v, unit)})
		}
	}
	add(indicator.Count, -2.5, 0, 0.000012, 0.00345, 0.0099, 0.0123, 0.5, 9.996, 12.34, 99.96, 123.4, 4321, 1.5e9)
	add(indicator.Seconds, -2.5, 0, 0.000012, 0.00345, 0.0099, 0.999, 1, 9.996, 99.96, 299.9, 300, 4321, 7200, 1.5e9)
	add(indicator.Bytes, -2.5, 0, 1023, 1024, 4321, 1.5e6, 1.5e9, 1.5e12)
	for _, unit := range []indicator.Unit{
		indicator.SecondsPerToken, indicator.Ratio, indicator.Tokens, indicator.TokensPerSecond, indicator.Requests,
		indicator.RequestsPerSecond, indicator.PerSecond, indicator.PerRequest, indicator.BytesPerSecond,
		indicator.Watts, indicator.Celsius, indicator.Megahertz, indicator.Times,
	} {
		add(unit, 0, 0.0123, 4321) // the digits are those above
	}
	fresh(t, "numbers.test.json", list)
}

// fresh compares a file of the page's sources with a list, one element a line, or writes it.
func fresh[T any](t *testing.T, name string, list []T) {
	t.Helper()
	want, err := json.Marshal(list)
	must.Succeed(t, err)
	want = append(bytes.ReplaceAll(want, []byte("},{"), []byte("},\n{")), '\n')
	file := filepath.Join(sources, "src", name)
	if *update {
		must.Succeed(t, os.WriteFile(file, want, 0o644))
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not fresh (error %v): go test ./internal/monitor/web/page -run ThePage -update, and then make page", file, err)
	}
}

// sources is where the page is written.
var sources = filepath.Join("..", "..", "..", "..", "web")

// npx runs one of the page's tools, or skips where they are not installed.
func npx(t *testing.T, tool string, args ...string) {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(sources, "node_modules", ".bin", tool))
	if err == nil {
		_, err = os.Stat(program)
	}
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("needs the page's tools: make page-tools installs them, where npm is")
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("needs node, to build the page")
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = sources
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", tool, args, err, out)
	}
}

func TestThePagesTypesHold(t *testing.T) { npx(t, "tsc", "--noEmit") }

func TestThePagesLogic(t *testing.T) { npx(t, "vitest", "run") }

// built skips a test of the bundle where there is none.
func built(t *testing.T) {
	t.Helper()
	if !page.Built() {
		t.Skip("the page's bundle was not built: make page builds it, where npm is")
	}
}
