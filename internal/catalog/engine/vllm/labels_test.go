package vllm

import (
	"encoding/csv"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

const extracted = "../../../../research/vllmlabels/"

// TestLabelsAreThoseOfTheSources: the labels of families are what the syntax trees of the releases have, in any
// of them. A family of which they do not tell it has none, but the one that has all settings of the cache.
func TestLabelsAreThoseOfTheSources(t *testing.T) {
	file, err := os.Open(extracted + "labels.csv")
	must.Succeed(t, err)
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	must.Succeed(t, err)
	labels := map[string][]string{}
	for _, row := range rows[1:] {
		labels[row[0]] = append(labels[row[0]], strings.FieldsFunc(row[1], func(r rune) bool { return r == ';' })...)
	}
	if len(labels) < 150 {
		t.Fatalf("labels of %d families", len(labels))
	}
	for _, f := range families() {
		if f.Engine != ID || slices.Contains(f.Labels, "*") {
			continue
		}
		got, want := slices.Sorted(slices.Values(f.Labels)), slices.Sorted(slices.Values(labels[f.Name]))
		if want = slices.Compact(want); !slices.Equal(got, want) {
			t.Errorf("%s: %q, in the sources %q", f.Name, got, want)
		}
		delete(labels, f.Name)
	}
	for name := range labels {
		if !strings.HasPrefix(name, "vllm:cache_config") {
			t.Errorf("%s is missing", name)
		}
	}
}

// TestLabelsAreExtracted: every shape in which the sources make families is understood, and what they do not say is
// left out.
func TestLabelsAreExtracted(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3, in which the sources are read")
	}
	got, err := exec.CommandContext(t.Context(), python, extracted+"labels.py", extracted+"testdata/9.9.9").Output()
	must.Succeed(t, err)
	want, err := os.ReadFile(extracted + "testdata/want.csv")
	must.Succeed(t, err)
	if string(got) != string(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
