package slo

import (
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestMatchers(t *testing.T) {
	for name, tt := range map[string]struct {
		o    Objective
		want []string
	}{
		"everything":           {Objective{Model: "*", TTFTP95: 1}, nil},
		"equality":             {Objective{Model: "meta-llama/Llama-3.1-8B", Cluster: "eu"}, []string{`model_name="meta-llama/Llama-3.1-8B"`, `cluster="eu"`}},
		"a star and a dot":     {Objective{Model: "Llama-3.1-*"}, []string{`model_name=~"Llama-3\\.1-.*"`}},
		"one character":        {Objective{Namespace: "prod-?"}, []string{`namespace=~"prod-."`}},
		"classes":              {Objective{Service: "api[a-c][^x]"}, []string{`service=~"api[a-c][^x]"`}},
		"what is escaped":      {Objective{Model: `a\*b`}, []string{`model_name=~"a\\*b"`}},
		"a class with hyphens": {Objective{Model: `[\-a^]`}, []string{`model_name=~"[\\-a\\^]"`}},
	} {
		t.Run(name, func(t *testing.T) {
			ms, err := tt.o.Matchers()
			must.Succeed(t, err)
			var got []string
			for _, m := range ms {
				got = append(got, m.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	for _, bad := range []string{"[", "[]", "a[b", `\`, "[a-", "[-]"} {
		if ms, err := (Objective{Model: bad}).Matchers(); err == nil {
			t.Errorf("%q gives %v", bad, ms)
		}
	}
}

func TestAPatternAndItsRegexpMatchTheSameTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`([a-d.*?+$(){}|&~]|\\[a*?\[]|\[\^?[a-c]([.+&~^]|-[d-f])?\]){0,6}`).Draw(t, "pattern")
		text := rapid.StringMatching(`[a-f.*?+$(){}|&~^/-]{0,8}`).Draw(t, "text")
		if _, err := path.Match(pattern, ""); err != nil {
			t.Skip("no pattern")
		}
		if pattern == "" {
			t.Skip("matches everything, and gives no matcher")
		}
		re, err := regexp.Compile("^(?s:" + Regexp(pattern) + ")$")
		if err != nil {
			t.Fatalf("%q: %v", pattern, err)
		}
		if got, want := re.MatchString(text), matchPattern(pattern, text); got != want && !strings.Contains(text, "/") {
			t.Errorf("%q and %q: regexp %s says %v, the pattern %v", pattern, text, re, got, want)
		}
	})
}

func FuzzRegexp(f *testing.F) {
	for _, s := range []string{"a*", "[", "[^", `\`, "[]a]", `[\]`, "[a-\\", "é?[ä-ö]"} {
		f.Add(s, "a")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		expr := Regexp(pattern) // no panic on what is no pattern either
		if _, err := path.Match(pattern, ""); err != nil || !utf8.ValidString(pattern) || !utf8.ValidString(text) {
			return // YAML and label values are UTF-8
		}
		if _, err := (Objective{Model: pattern}).Matchers(); err != nil {
			t.Skipf("%q: %v", pattern, err) // a class that holds nothing, as [b-a]
		}
		re, err := regexp.Compile("^(?s:" + expr + ")$")
		if err != nil {
			t.Fatalf("%q becomes %q: %v", pattern, expr, err)
		}
		if got, want := re.MatchString(text), matchPattern(pattern, text); pattern != "" && pattern != "*" && got != want && !strings.ContainsAny(text, "/\x00\n") {
			t.Errorf("%q and %q: %s says %v, the pattern %v", pattern, text, expr, got, want)
		}
	})
}
