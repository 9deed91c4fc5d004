package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

func TestRank(t *testing.T) {
	predicted := func(name string, times float64, f Fix) Fix {
		f.Summary = name
		f.Predicted = &Prediction{Benefit: Estimate{Value: times, Low: times, High: times}}
		return f
	}
	fixes := []Fix{
		predicted("worse", 0.6, Fix{}),
		{Summary: "shed", Stops: true},
		{Summary: "may hurt", MayHurt: true},
		predicted("four servers for three times", 3, Fix{Replicas: 4}),
		predicted("nothing", 1, Fix{}),
		{Summary: "not simulated"},
		{Summary: "no prediction", Predicted: &Prediction{Reason: "too few scrapes"}},
		predicted("a risk for twice", 2, Fix{Risk: true}),
		predicted("a flag for nearly twice", 1.9, Fix{}),
		{Summary: "may hurt, no prediction", MayHurt: true, Predicted: &Prediction{Reason: "too few scrapes"}},
	}
	Rank(fixes)
	var got []string
	for _, f := range fixes {
		got = append(got, f.Summary)
	}
	want := []string{
		"shed", "a flag for nearly twice", "a risk for twice", "not simulated", "no prediction", "four servers for three times", "nothing", "may hurt", "may hurt, no prediction", "worse",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestHeads(t *testing.T) {
	useless := Fix{Predicted: &Prediction{Benefit: Estimate{Value: 0.9, Low: 0.8, High: 1}}}
	for _, tt := range []struct {
		fixes []Fix
		want  []string
	}{
		{nil, []string{}},
		{[]Fix{{}, {}}, []string{Only, Else}},
		{[]Fix{{Stops: true}, {}, {}}, []string{Now, Then, Else}},
		{[]Fix{{Stops: true}, {Stops: true}, {}}, []string{Now, Else, Then}},
		{[]Fix{{Stops: true}}, []string{Now}},
		{[]Fix{{Stops: true}, useless, {}}, []string{Now, Else, Then}},
		{[]Fix{useless, useless}, []string{Else, Else}},
	} {
		if got := Heads(tt.fixes); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.fixes, got, tt.want)
		}
	}
}

func TestArgs(t *testing.T) {
	for _, tt := range []struct {
		changes                 []Change
		args, replaced, leftOut string
	}{
		{[]Change{{"--max-num-seqs", "16", "9"}}, "--max-num-seqs 9", "--max-num-seqs 16", ""},
		{[]Change{{"--enable-chunked-prefill", "false", "true"}, {"--max-num-batched-tokens", "", "2048"}}, "--enable-chunked-prefill --max-num-batched-tokens 2048", "--no-enable-chunked-prefill", ""},
		{[]Change{{"--enable-prefix-caching", "true", "false"}}, "--no-enable-prefix-caching", "--enable-prefix-caching", ""},
		{[]Change{{"--num-gpu-blocks-override", "160", ""}}, "", "", "--num-gpu-blocks-override 160"},
		{nil, "", "", ""},
	} {
		f := Fix{Changes: tt.changes}
		if f.Args() != tt.args || f.Replaced() != tt.replaced || f.LeftOut() != tt.leftOut {
			t.Errorf("%v: %q in place of %q, without %q; want %q, %q, %q", tt.changes, f.Args(), f.Replaced(), f.LeftOut(), tt.args, tt.replaced, tt.leftOut)
		}
	}
}

func TestSet(t *testing.T) {
	f := Fix{Summary: "Lower --max-num-seqs from 16 to 6", Changes: []Change{{"--max-num-seqs", "16", "6"}}}
	was := f
	f.Set("--max-num-seqs", "12")
	if f.Summary != "Lower --max-num-seqs from 16 to 12" || f.Args() != "--max-num-seqs 12" {
		t.Errorf("%q, %q", f.Summary, f.Args())
	}
	if was.Args() != "--max-num-seqs 6" {
		t.Errorf("a copy changed to %q", was.Args())
	}
}

func TestFor(t *testing.T) {
	fixes := []Fix{
		{Summary: "seats", Changes: []Change{{"--max-num-seqs", "16", "9"}}},
		{Summary: "watermark", Changes: []Change{{"--watermark", "", "0.05"}}},
		{Summary: "refuse", Changes: []Change{{"--max-num-queued-reqs", "", "30"}}},
		{Summary: "ask"},
	}
	flags := engine.Flags{"max-num-seqs": {}, "watermark": {Since: "0.24"}, "max-num-queued-reqs": {Since: "0.29"}}
	for _, tt := range []struct {
		version string
		want    []string
		later   int
	}{
		{"0.23.0", []string{"seats", "ask"}, 2},
		{"0.20 or later, before 0.30", []string{"seats", "ask"}, 2},
		{"0.24.0", []string{"seats", "watermark", "ask"}, 1},
		{"0.33.0", []string{"seats", "watermark", "refuse", "ask"}, 0},
		{"", []string{"seats", "ask"}, 2},
	} {
		fit, later := FixesFor(flags, tt.version, fixes)
		var got []string
		for _, f := range fit {
			got = append(got, f.Summary)
			if f.Summary == "refuse at the gateway" && len(f.Changes) > 0 {
				t.Errorf("%s: the gateway has flags of the server: %v", tt.version, f.Changes)
			}
		}
		if !slices.Equal(got, tt.want) || len(later) != tt.later {
			t.Errorf("%q: %q and %q, want %q", tt.version, got, later, tt.want)
		}
		for _, l := range later {
			if !strings.Contains(l, ", also try --") {
				t.Errorf("%q does not tell since when", l)
			}
		}
	}
}

func TestForAnotherEngine(t *testing.T) {
	flags := engine.Flags{
		engine.MaxNumSeqs:    {Name: "max-running-requests"},
		engine.PrefixCaching: {Name: "disable-radix-cache", Off: true},
		engine.KVCacheDtype:  {Values: map[string]string{"fp8": "fp8_e4m3"}},
	}
	fixes := []Fix{
		{
			Summary: "Lower --max-num-seqs from 16 to 9", Arithmetic: []string{"--max-num-seqs 9 is …"}, Search: &Search{Flag: "--max-num-seqs"},
			Changes: []Change{{"--max-num-seqs", "16", "9"}},
		},
		{Summary: "Cache prefixes", Changes: []Change{{"--enable-prefix-caching", "false", "true"}}},
		{Summary: "An fp8 cache", Changes: []Change{{"--kv-cache-dtype", "", "fp8"}}},
		{Summary: "What it does not have", Changes: []Change{{"--watermark", "", "0.05"}}},
	}
	was := fixes[0].Arithmetic[0]
	fit, later := FixesFor(flags, "", fixes)
	if len(fit) != 3 || len(later) != 0 {
		t.Fatalf("%d fixes and %q", len(fit), later)
	}
	if got, want := fit[0].Summary+"|"+fit[0].Arithmetic[0]+"|"+fit[0].Args(), "Lower --max-running-requests from 16 to 9|--max-running-requests 9 is …|--max-running-requests 9"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if fit[0].Search != nil || fixes[0].Arithmetic[0] != was {
		t.Error("a search in another engine's flag is left, or the caller's fix changed")
	}
	if got := fit[1].Changes[0]; got != (Change{"--disable-radix-cache", "true", ""}) {
		t.Errorf("%+v", got)
	}
	if got := fit[2].Args(); got != "--kv-cache-dtype fp8_e4m3" {
		t.Errorf("%q", got)
	}
}
