package load

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

func TestProbeLearnsTheLengthOfPrompts(t *testing.T) {
	tests := map[string]script{
		"a token a word":               {},
		"a chat template":              {Overhead: 13},
		"words of more than a token":   {TokensPerWord: 1.25, Overhead: 5},
		"a server that wants no extra": {RefuseOptions: true},
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			s := startScripted(script)
			defer s.Close()
			p, err := Probe(context.Background(), Target{URL: s.URL(), API: Chat, IgnoreEOS: true})
			must.Succeed(t, err)
			if p.Target.Model != "scripted" {
				t.Errorf("model %q", p.Target.Model)
			}
			if p.Target.FinalUsage != script.RefuseOptions {
				t.Errorf("usage at the end only: %v, notes %q", p.Target.FinalUsage, p.Notes)
			}
			g, _ := workload.NewGenerator(spec(400, 2), 1)
			r, err := New(Config{Target: p.Target, Vocabulary: p.Vocabulary, Source: g, Concurrency: 1, MaxRequests: 3})
			must.Succeed(t, err)
			rec, err := r.Run(context.Background(), time.Second, nil)
			must.Succeed(t, err)
			for r := range rec.Records() {
				if r.PromptTokens < 398 || r.PromptTokens > 402 {
					t.Errorf("prompt of %d tokens, want 400; vocabulary %v per word, overhead %d", r.PromptTokens, p.Vocabulary.TokensPerWord, p.Vocabulary.Overhead)
				}
			}
		})
	}
}

func TestProbeSaysWhatIsWrong(t *testing.T) {
	tests := map[string]struct {
		status int
		model  string
		err    string
		hint   string
	}{
		"a wrong model":        {200, "gpt", `no model "gpt"`, "llama, qwen"},
		"an overloaded server": {503, "", "503", "overloaded"},
		"a refused key":        {401, "", "401", "--bearer-token-file"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Probe(context.Background(), Target{URL: refusing(t, tt.status, "llama", "qwen"), Model: tt.model})
			if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(hint.Of(err), tt.hint) {
				t.Errorf("error %v with hint %q, want %q and %q", err, hint.Of(err), tt.err, tt.hint)
			}
		})
	}
}
