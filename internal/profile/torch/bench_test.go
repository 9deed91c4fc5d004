package torch

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

const profiles = "../../../../shared/data/profiles"

func sample(t testing.TB, name string) []byte {
	t.Helper()
	file, err := os.Open(filepath.Join(profiles, name))
	if err != nil {
		t.Skip("the real traces are not here: ", err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	must.Succeed(t, err)
	b, err := io.ReadAll(z)
	must.Succeed(t, err)
	return b
}

func BenchmarkRead(b *testing.B) {
	for _, name := range []string{
		"hta_nccl_data.json.gz", "hta_ns_resolution_rank0.pt.trace.json.gz", "tracelens_h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
		"tracelens_inference_vllm_prefilldecode_piecewise_graph_execution.json.gz",
	} {
		b.Run(name, func(b *testing.B) {
			text := sample(b, name)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := Read(b.Context(), bytes.NewReader(text), name, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
