package workload

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestParseLengths(t *testing.T) {
	tests := map[string]struct {
		text string
		mean float64 // of many draws
		err  string
	}{
		"a number is fixed":                                {"512", 512, ""},
		"uniform includes both ends":                       {"uniform:100-300", 200, ""},
		"normal has its mean":                              {"normal:500,50", 500, ""},
		"lognormal has its mean, not its median":           {"lognormal:800,1.2", 800, ""},
		"bounds cut":                                       {"normal:500,5000:500-500", 500, ""},
		"zero tokens are refused":                          {"0", 0, "want a number"},
		"an unknown name is refused":                       {"zipf:1,2", 0, "unknown distribution"},
		"a reversed span is refused":                       {"uniform:9-3", 0, "MIN-MAX"},
		"a normal distribution without deviation errs":     {"normal:100", 0, "two numbers"},
		"not a number where a number should be is refused": {"normal:NaN,1", 0, "two numbers"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l, err := ParseLengths(tt.text)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			must.Succeed(t, err)
			rng, sum := rand.New(rand.NewPCG(1, 2)), 0.0
			const n = 200_000
			for range n {
				sum += float64(l.Draw(rng))
			}
			if mean := sum / n; math.Abs(mean-tt.mean) > 0.02*tt.mean {
				t.Errorf("mean %v, want %v", mean, tt.mean)
			}
		})
	}
}

func TestFromHistogramDrawsWhatTheServerSaw(t *testing.T) {
	l, err := FromHistogram([]Bucket{{10, 0}, {20, 300}, {50, 0}, {100, 100}, {math.Inf(1), 0}}, 0)
	must.Succeed(t, err)
	rng, short, long := rand.New(rand.NewPCG(1, 2)), 0, 0
	for range 10_000 {
		switch n := l.Draw(rng); {
		case n > 10 && n <= 20:
			short++
		case n > 50 && n <= 100:
			long++
		default:
			t.Fatalf("drew %d, which no bucket with observations holds", n)
		}
	}
	if share := float64(short) / 10_000; math.Abs(share-0.75) > 0.02 {
		t.Errorf("%.3f of the lengths are short, want 0.75", share)
	}
	if _, err := FromHistogram([]Bucket{{10, 0}}, 0); err == nil {
		t.Error("an empty histogram is no distribution")
	}
}

func TestGeneratorMeetsItsSpec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{
			Prompt:       Fixed(rapid.IntRange(1, 2000).Draw(t, "prompt")),
			Output:       Fixed(rapid.IntRange(1, 200).Draw(t, "output")),
			SystemTokens: rapid.IntRange(0, 300).Draw(t, "system"),
			PrefixShare:  rapid.Float64Range(0, 1).Draw(t, "share"),
			PrefixGroups: rapid.IntRange(0, 5).Draw(t, "groups"),
			CancelShare:  rapid.Float64Range(0, 1).Draw(t, "cancel"),
		}
		seed := rapid.Uint64().Draw(t, "seed")
		a, err := NewGenerator(spec, seed)
		must.Succeed(t, err)
		b, _ := NewGenerator(spec, seed)
		var sa, sb Session
		for range 20 {
			a.Next(&sa)
			b.Next(&sb)
			if diff := cmp.Diff(sa, sb); diff != "" {
				t.Fatalf("the same seed gave two sessions:\n%s", diff)
			}
			for i := range sa.Turns {
				turn := &sa.Turns[i]
				if turn.PromptTokens() != int(spec.Prompt.a) || turn.OutputTokens != int(spec.Output.a) {
					t.Fatalf("turn %d: %d/%d tokens, want %v/%v", i, turn.PromptTokens(), turn.OutputTokens,
						spec.Prompt, spec.Output)
				}
				if turn.CancelAfter < 0 || turn.CancelAfter > turn.OutputTokens {
					t.Fatalf("turn %d: %+v", i, *turn)
				}
			}
		}
	})
}

func TestReplaySharesExactlyThePrefixesOfTheTrace(t *testing.T) {
	tr := &Trace{BlockTokens: 512, Requests: []Request{
		{PromptTokens: 1000, OutputTokens: 1, Blocks: []uint64{0, 1}},
		{Arrival: time.Second, PromptTokens: 600, OutputTokens: 1, Blocks: []uint64{0, 2}},
		{Arrival: 2 * time.Second, PromptTokens: 600, OutputTokens: 0, Session: 9},
		{Arrival: 3 * time.Second, PromptTokens: 700, OutputTokens: 4, Session: 9, Turn: 1},
	}}
	rp, err := NewReplay(tr, 2, 32)
	must.Succeed(t, err)
	var got []Session
	for s := (Session{}); rp.Next(&s); {
		got = append(got, s)
	}
	if len(got) != 3 || got[1].Arrival != 500*time.Millisecond {
		t.Fatalf("got %d sessions, second at %s; want 3 and 0.5 s at twice the speed", len(got), got[1].Arrival)
	}
	a, b := got[0].Turns[0].Parts, got[1].Turns[0].Parts
	if a[0] != b[0] || a[1].Seed == b[1].Seed {
		t.Errorf("parts %v and %v: want the first block shared and the second not", a, b)
	}
	if a[1].Tokens != 488 || b[1].Tokens != 88 {
		t.Errorf("last blocks hold %d and %d tokens, want the prompts cut at their length", a[1].Tokens, b[1].Tokens)
	}
	chat := got[2].Turns
	if len(chat) != 2 || chat[0].Parts[0].Seed != chat[1].Parts[0].Seed || chat[0].OutputTokens != 32 ||
		chat[1].At != 500*time.Millisecond {
		t.Errorf("a session without blocks must grow one text: %+v", chat)
	}
}
