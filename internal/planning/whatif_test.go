package planning

import (
	"errors"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Ask gives the numbers that PredictFixes has for the same change, and longer answers at a higher load.
func TestAQuestionIsAnsweredAsAFixIsPredicted(t *testing.T) {
	t.Parallel()
	const file = "../../testdata/recordings/thrashing-and-http-errors.tar.zst"
	d, store, asked := diagnoseRecording(t, file), openRecording(t, file).store, 0
	for _, f := range d.LeadingFinding(&d.Verdict).Fixes {
		if f.Predicted == nil || f.Predicted.Reason != "" || len(f.Changes) != 1 || f.Changes[0].To == "" {
			continue
		}
		asked++
		args := engine.Config{}
		args.Set(strings.TrimPrefix(f.Changes[0].Flag, "--"), f.Changes[0].To, "the test")
		a, err := Ask(t.Context(), store, &d, Question{Args: args})
		must.Succeed(t, err)
		for name, s := range map[string]*indicator.Signal{"ttft_p95": indicator.TTFTP95, "itl_p95": indicator.ITLP95,
			"e2e_mean": indicator.E2EMean, "output_tokens_rate": indicator.GenerationTokenRate} {
			if e, ok := f.Predicted.Effect(s); !ok || a.Changed[name] != e.After || a.Present[name] != e.Unchanged {
				t.Errorf("%s: %s is %v, unchanged %v; the fix says %v and %v", f.Summary, name, a.Changed[name],
					a.Present[name], e.After, e.Unchanged)
			}
		}
		later, err := Ask(t.Context(), store, &d, Question{Args: args, Arrivals: 1.3, Output: 1.3})
		if err != nil {
			t.Logf("%s, with more load: %v", f.Summary, err)
			continue
		}
		if got := later.Changed["e2e_mean"].Value; got <= a.Changed["e2e_mean"].Value ||
			later.Present["e2e_mean"] != a.Present["e2e_mean"] {
			t.Errorf("%s, with more load: %g s, want more than %g s", f.Summary, got, a.Changed["e2e_mean"].Value)
		}
	}
	if asked < 2 {
		t.Errorf("%d fixes were predicted", asked)
	}
}

// Ask gives the reason that PredictFixes has.
func TestAQuestionWithoutAnAnswerSaysWhy(t *testing.T) {
	t.Parallel()
	const file = "../../testdata/recordings/embeddings-saturated.tar.zst"
	d := diagnoseRecording(t, file)
	_, err := Ask(t.Context(), openRecording(t, file).store, &d, Question{Arrivals: 2})
	reason := ""
	for _, f := range d.LeadingFinding(&d.Verdict).Fixes {
		if f.Predicted != nil {
			reason = f.Predicted.Reason
		}
	}
	if !errors.Is(err, ErrNoPrediction) || reason == "" || !strings.Contains(err.Error(), reason) {
		t.Errorf("%v, want %q", err, reason)
	}
}
