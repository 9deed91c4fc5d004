package checks

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// largeBoard returns a dashboard on a single line, as programs export them.
func largeBoard(panels int) File {
	var b bytes.Buffer
	b.WriteString(`{"title":"x","panels":[`)
	for i := range panels {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"title":"panel %d","targets":[{"expr":"histogram_quantile(0.95, sum by (le) (rate(vllm:time_per_output_token_seconds_bucket[$__interval])))"}]}`, i)
	}
	b.WriteString("]}")
	return File{Name: "board.json", Data: b.Bytes()}
}

func BenchmarkLint(b *testing.B) {
	s, err := SurfaceOf("vllm-v1")
	must.Succeed(b, err)
	f := largeBoard(500)
	b.SetBytes(int64(len(f.Data)))
	for b.Loop() {
		if found, errs := lint([]File{f}, s); len(found) != 500 || len(errs) > 0 {
			b.Fatal(len(found), errs)
		}
	}
}
