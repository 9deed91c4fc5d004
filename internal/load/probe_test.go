package load

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/load/loadtest"
	"github.com/sixty-dev/sixty/internal/workload"
)

func TestProbeLearnsTheLengthOfPrompts(t *testing.T) {
	tests := map[string]loadtest.Script{
		"a token a word":               {},
		"a chat template":              {Overhead: 13},
		"words of more than a token":   {TokensPerWord: 1.25, Overhead: 5},
		"a server that wants no extra": {RefuseOptions: true},
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := loadtest.Start(script)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			p, err := Probe(context.Background(), Target{URL: s.URL(), API: Chat, Stream: true, IgnoreEOS: true}, nil, false)
			if err != nil {
				t.Fatal(err)
			}
			if p.Target.Model != "scripted" || p.MaxLength != 131072 {
				t.Errorf("model %q of length %d", p.Target.Model, p.MaxLength)
			}
			if refused := p.Target.Counting == CountFinal; refused != script.RefuseOptions {
				t.Errorf("counting %q, notes %q", p.Target.Counting, p.Notes)
			}
			g, _ := workload.NewGenerator(spec(400, 2), 1)
			r, err := New(Config{Target: p.Target, Vocabulary: p.Vocabulary, Source: g, Concurrency: 1, MaxRequests: 3})
			if err != nil {
				t.Fatal(err)
			}
			rec, err := r.Run(context.Background(), time.Second, nil)
			if err != nil {
				t.Fatal(err)
			}
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
		script loadtest.Script
		model  string
		err    string
		hint   string
	}{
		"a wrong model":        {loadtest.Script{Models: []string{"llama", "qwen"}}, "gpt", `no model "gpt"`, "llama, qwen"},
		"an overloaded server": {loadtest.Script{Status: 503}, "", "503", "overloaded"},
		"a refused key":        {loadtest.Script{Status: 401}, "", "401", "--api-key-env"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := loadtest.Start(tt.script)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			_, err = Probe(context.Background(), Target{URL: s.URL(), Model: tt.model, Stream: true}, nil, false)
			if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(hint.Of(err), tt.hint) {
				t.Errorf("error %v with hint %q, want %q and %q", err, hint.Of(err), tt.err, tt.hint)
			}
		})
	}
}

func TestReadTokenizer(t *testing.T) {
	words := strings.Fields(defaultWords)
	var b strings.Builder
	b.WriteString(`{"model":{"type":"BPE","vocab":{"<s>":0`)
	seen, id := map[string]bool{}, 0
	for _, w := range words {
		if len(w) >= 3 && len(w) <= 8 && !seen[w] {
			seen[w] = true
			id++
			b.WriteString(`,"Ġ` + w + `":` + itoa(id))
		}
	}
	b.WriteString(`,"Ġx9":` + itoa(id+1) + `,"whole":` + itoa(id+2) + `}}}`)
	v, err := ReadTokenizer(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(v.words) != id {
		t.Errorf("%d words, want the %d with a space before them and letters only", len(v.words), id)
	}
	prompt := v.Append(nil, []workload.Part{{Seed: 3, Tokens: 100}}, 0)
	if n := strings.Count(string(prompt), " "); n != 100 {
		t.Errorf("prompt of %d words, want 100", n)
	}
	for name, bad := range map[string]string{"no JSON": "x", "no vocabulary": `{"model":{}}`, "a tiny vocabulary": `{"model":{"vocab":{"Ġabc":1}}}`} {
		if _, err := ReadTokenizer(strings.NewReader(bad)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func itoa(n int) string { return string(appendRequestID(nil, 0, uint64(n))[len("sixty-0-"):]) }

func TestPromptsShareTheirBeginnings(t *testing.T) {
	v := DefaultVocabulary()
	v.TokensPerWord = 1.3
	a := string(v.Append(nil, []workload.Part{{Seed: 1, Tokens: 500}, {Seed: 2, Tokens: 100}}, 0))
	b := string(v.Append(nil, []workload.Part{{Seed: 1, Tokens: 500}, {Seed: 3, Tokens: 100}}, 0))
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	if words := strings.Count(a[:n], " "); words < 384 || words > 390 {
		t.Errorf("%d words in common, want the 385 that 500 tokens are", words)
	}
}
