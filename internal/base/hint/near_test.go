package hint

import (
	"slices"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"rules", "dashboards", "seed", "serve", "kv-cache-thrashing", "page"}
	for word, want := range map[string][]string{
		"rulez": {"rules"}, "sede": {"seed"}, "dash": {"dashboards"}, "KV-cache-trashing": {"kv-cache-thrashing"},
		"pgae": {"page"}, "milk": nil, "": nil, "x": nil, "se": {"seed", "serve"}, "seed-value": {"seed"},
	} {
		if got := Nearest(word, names); !slices.Equal(got, want) {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
	if got := Nearest("x", nil); got != nil {
		t.Errorf("of no names: %q", got)
	}
}

func TestDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "ab", 1}, {"abc", "xyz", 3},
		{"kitten", "sitting", 3}, {"", "abc", 3}, {"a", "abcdefghijkl", 9},
	} {
		if got := Distance(tc.a, tc.b, 9); got != tc.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
		if got := Distance(tc.b, tc.a, 9); got != tc.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", tc.b, tc.a, got, tc.want)
		}
	}
}
