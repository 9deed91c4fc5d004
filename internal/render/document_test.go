package render

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// sample returns a document with every kind of block, and foreign characters.
func sample() *Document {
	d := NewDocument("What was said")
	d.More = "the rest"
	d.Answer(Bad, "sick (page)", "It is <b>ill</b>\x1b[31m.")
	d.Paragraph("", "Since noon.")
	d.Item("why", "because")
	d.Rank(1)
	d.Item("however", strings.TrimSpace(strings.Repeat("there is much to say ", 100)))
	d.Rank(0)
	d.ShowIn(Details)
	d.Section("Evidence", " from r0")
	d.Table(Words(Columns("signal", "now", "threshold")), [][]string{{"TTFT_P95", "2 s", "> 1 s"}, {"ITL", "not known"}})
	d.Paragraph("Runbook", "sixty explain it")
	d.Section("Fix", "").Folded = true
	d.Command("vllm serve m --max-num-seqs 8")
	d.List("one", "two")
	d.Figures(Draw("a caption", Chart{Title: "A chart", Series: []Series{{X: []float64{1, 2}, Y: []float64{1, 2}}}}))
	return d
}

func written(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	must.Succeed(t, write(&b))
	return b.String()
}

func TestADocumentIsOneInEveryForm(t *testing.T) {
	d := sample()
	for name, tt := range map[string]struct {
		write func(io.Writer) error
		want  string
	}{
		"a screen": {func(w io.Writer) error { return d.Text(w, Options{}, false) }, `sick (page): It is <b>ill</b> [31m.
  Since noon.

why      because

--full shows what was left out, the rest.
`},
		"Markdown": {func(w io.Writer) error {
			d := sample()
			d.blocks = append(d.blocks[:3], d.blocks[4:]...)
			return d.Markdown(w)
		}, `# What was said

**sick (page)**: It is &lt;b&gt;ill&lt;/b&gt; \[31m.

Since noon.

- **why**: because

## Evidence from r0

| signal | now | threshold |
| --- | --- | --- |
| TTFT\_P95 | 2 s | &gt; 1 s |
| ITL | not known |  |

Runbook: sixty explain it

## Fix

` + "```\nvllm serve m --max-num-seqs 8\n```" + `

- one
- two
`},
	} {
		if diff := cmp.Diff(tt.want, written(t, tt.write)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	full := written(t, func(w io.Writer) error { return d.Text(w, Options{}, true) })
	if want := `
EVIDENCE from r0
  signal     now   threshold
  TTFT_P95   2 s   > 1 s
  ITL        not known
  Runbook: sixty explain it

FIX
    vllm serve m --max-num-seqs 8
  one
  two
`; !strings.HasSuffix(full, want) || !strings.Contains(full, "\nhowever  there is much") {
		t.Errorf("the full text ends otherwise:\n%s", full)
	}
	page := written(t, d.HTML)
	for _, want := range []string{
		`<header class="banner critical"><h1>sick (page)</h1>`, "&lt;b&gt;ill", "<td>why</td><td>because</td>", `<td class="l" colspan="2">not known</td>`,
		"<b>Runbook:</b> sixty explain it", "<details><summary>Fix</summary>", "<pre>vllm serve m", "<li>two</li>", "<svg ", "a caption",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, bad := range []string{"<b>ill", "\x1b", "ZgotmplZ"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

// Rows of a table leave one by one, and a table with its last row stays.
func TestRowsLeaveAScreen(t *testing.T) {
	d := NewDocument("")
	d.More = "all"
	d.Answer(Good, "", "Fine.")
	var rows [][]string
	var ranks []int
	for i := range 40 {
		rows, ranks = append(rows, []string{fmt.Sprint(i), "x"}), append(ranks, min(i, 1))
	}
	d.Table(Columns("n", ""), rows).Ranks = ranks
	got := written(t, func(w io.Writer) error { return d.Text(w, Options{}, false) })
	if n := strings.Count(got, "\n"); n != 20 || !strings.Contains(got, "\n  0 ") || !strings.Contains(got, "\n  14") || strings.Contains(got, "\n  15") {
		t.Errorf("%d lines:\n%s", n, got)
	}
}
