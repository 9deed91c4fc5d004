package synonym_test

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine/dcgm"
	"github.com/sixty-dev/sixty/internal/catalog/synonym"
)

// TestSuccessorsExist: what a synonym leads to is a metric of the newest release or of NVIDIA's exporter.
func TestSuccessorsExist(t *testing.T) {
	for _, s := range synonym.All() {
		name, metric := strings.CutPrefix(s.Here, "rate(")
		name, _, _ = strings.Cut(name, "[")
		_, field := dcgm.FieldOf(name)
		f, known := dialect.Known(name)
		switch {
		case !metric && s.Exposed() == "": // a word
		case s.Meaning == "", !field && (!known || f.Gone()):
			t.Errorf("%s leads to %q", s.Name, s.Here)
		}
	}
}

func TestTranslate(t *testing.T) {
	for name, want := range map[string]string{
		"tbt-p95": "itl-p95", "tbt_objective": "itl_objective", "TBT": "itl", "ttft-p95": "ttft-p95", "": "", "batbt": "batbt",
	} {
		if got := synonym.Translate(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
}

func TestSuffixesStay(t *testing.T) {
	if s, ok := synonym.Of("vllm_ttft_seconds_bucket"); !ok || s.Here != "vllm:time_to_first_token_seconds_bucket" || s.Name != "vllm_ttft_seconds_bucket" {
		t.Errorf("%+v", s)
	}
	if _, ok := synonym.Of("vllm_ttft_seconds_else"); ok {
		t.Error("any ending will do")
	}
}
