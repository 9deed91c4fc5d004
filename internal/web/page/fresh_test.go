package page_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/sixty-dev/sixty/internal/indicator"
)

var update = flag.Bool("update", false, "write the files that tests compare with")

// numbers.json holds examples of how numbers are written, for the tests of the page.
func TestThePageWritesNumbersAsTheCommandLineDoes(t *testing.T) {
	type example struct {
		Value float64        `json:"value"`
		Unit  indicator.Unit `json:"unit"`
		Text  string         `json:"text"`
	}
	var list []example
	for _, unit := range []indicator.Unit{
		indicator.Seconds, indicator.SecondsPerToken, indicator.Ratio, indicator.Tokens, indicator.TokensPerSecond, indicator.Requests, indicator.RequestsPerSecond,
		indicator.PerSecond, indicator.PerRequest, indicator.Count, indicator.Bytes, indicator.BytesPerSecond, indicator.Watts, indicator.Celsius, indicator.Megahertz, indicator.Times,
	} {
		for _, v := range []float64{0, 0.000012, 0.00345, 0.0099, 0.0123, 0.5, 0.999, 1, 2.5, 9.996, 12.34, 53, 99.96, 123.4, 299.9, 300, 4321, 7200, 90000, 1.5e9, -2.5} {
			list = append(list, example{v, unit, indicator.FormatNumber(v, unit)})
		}
	}
	want, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	want = append(bytes.ReplaceAll(want, []byte("},{"), []byte("},\n{")), '\n')
	file := filepath.Join("..", "..", "..", "web", "src", "numbers.json")
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not fresh (error %v): go test ./internal/web/page -run Numbers -update, and then make page", file, err)
	}
}
