package render

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		name, in, indent string
		want             []string
	}{
		{"a short text is one line", "  a b", "  ", []string{"  a b"}},
		{"words move to the next line", "aaa bbb ccc ddd", "  ", []string{"aaa bbb", "  ccc ddd"}},
		{"a word longer than a line gets its own", "aa bbbbbbbbbbbbbbbb cc", " ", []string{"aa", " bbbbbbbbbbbbbbbb", " cc"}},
		{"runes count, not bytes", "µµµµ ×××××", "", []string{"µµµµ ×××××"}},
		{"spaces that align columns stay", "a   b c d e f g", "    ", []string{"a   b c d", "    e f g"}},
	} {
		if diff := cmp.Diff(c.want, Wrap(c.in, 10, c.indent)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.name, diff)
		}
	}
}

func laid(o Options, lay func(t *Text)) string {
	t := NewText(o)
	lay(t)
	var b strings.Builder
	_, _ = t.WriteTo(&b) // a Builder takes everything
	return b.String()
}

func TestANumberStaysWithItsUnit(t *testing.T) {
	must.Equal(t, []string{"TTFT of", "12.3 ms now"}, Wrap("TTFT of 12.3 ms now", 11, ""))
}

func TestWideAndColouredCharactersAreMeasured(t *testing.T) {
	if n := Cells("日本 \x1b[1mx\x1b[0m"); n != 6 {
		t.Errorf("%d cells, want 6", n)
	}
	if got := Clip("日本語 a long text with an end", 12); Cells(got) > 12 || !strings.HasSuffix(got, "end") || !strings.Contains(got, "…") {
		t.Errorf("%q", got)
	}
}

func TestColoursAreOnlyColours(t *testing.T) {
	lay := func(t *Text) {
		t.Heading("A heading that is longer than one line of this narrow terminal")
		t.Styled(Bad, "  ", "    ", strings.Repeat("word ", 20))
		t.Item(12, t.Paint(Good, "fine"), strings.Repeat("words ", 20))
		t.Table(Columns("name", "value"), [][]string{{"a", "1"}, {"b", "22"}})
	}
	plain, coloured := laid(Options{Width: 44}, lay), laid(Options{Width: 44, Color: true}, lay)
	if !strings.Contains(coloured, "\x1b[") || strings.Contains(plain, "\x1b") {
		t.Error("colours where none were asked for, or none where they were")
	}
	if diff := cmp.Diff(plain, ansi.Strip(coloured)); diff != "" {
		t.Errorf("-plain +coloured:\n%s", diff)
	}
}

func TestBriefEndsWithAWholeWord(t *testing.T) {
	got := laid(Options{Width: 40}, func(t *Text) {
		t.Brief(2, "  ", "  ", "near saturation; extrapolated; more arrives than it serves; the calibration does not reach that far")
	})
	lines := strings.Split(strings.TrimRight(got, "\n"), "\n")
	if last := lines[len(lines)-1]; len(lines) != 2 || !strings.HasSuffix(last, "calibration …") && !strings.HasSuffix(last, "serves …") && !strings.HasSuffix(last, "the …") || Cells(last) > 40 {
		t.Errorf("got %q", lines)
	}
	styled := laid(Options{Width: 40, Color: true}, func(t *Text) { t.Brief(1, "", "", t.Paint(Dim, strings.Repeat("words ", 20))) })
	if !strings.HasSuffix(strings.TrimRight(styled, "\n"), "\x1b[0m") && !strings.HasSuffix(strings.TrimRight(styled, "\n"), "\x1b[m") && strings.Contains(styled, "\x1b[") {
		t.Errorf("the style goes on: %q", styled)
	}
}

func TestTableFitsAnyWidth(t *testing.T) {
	columns := Words([]Column{{Title: "name", Left: true}, {Title: "P50"}, {Title: "P90", Rank: 2}, {Title: "P99", Rank: 1}, {Title: "why"}})
	rows := [][]string{
		{"time to first token", "12.3 ms", "45.6 ms", "1.23 s", "the queue is long because the cache is full"},
		{"inter-token latency", "7.00 ms", "8.00 ms", "9.00 ms", ""},
		{"end to end", "was not measured, for no request came to its end in this time"},
	}
	for _, width := range []int{40, 50, 60, 70, 80, 160} {
		got := laid(Options{Width: width}, func(t *Text) { t.Table(columns, rows) })
		for line := range strings.Lines(got) {
			if n := Cells(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("width %d: %d cells in %q", width, n, line)
			}
		}
		for _, want := range []string{"12.3 ms", "7.00 ms", "full", "was not measured"} {
			if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
				t.Errorf("width %d: no %q in\n%s", width, want, got)
			}
		}
		if width <= 60 && strings.Contains(got, "1.23 s") && strings.Contains(got, "P50  P99") {
			t.Errorf("width %d: the column of the lowest rank is still there:\n%s", width, got)
		}
	}
	want := "  name                      P50       P90       P99   why\n"
	if got, _, _ := strings.Cut(laid(Options{Width: 160}, func(t *Text) { t.Table(columns, rows) }), "  time"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestACommandIsContinuedBetweenArguments(t *testing.T) {
	got := laid(Options{Width: 40}, func(t *Text) {
		t.Command("  ", `sixty audit --match '{namespace="prod", x="y"}' --at 10:00 --output json`)
		t.Command("  ", `sixty diagnose 'it'\''s a directory with a long name'`)
	})
	want := "  sixty audit \\\n      --match '{namespace=\"prod\", x=\"y\"}' \\\n      --at 10:00 --output json\n" +
		"  sixty diagnose \\\n      'it'\\''s a directory with a long name'\n"
	must.Equal(t, want, got)
}

func TestMarkdownIsLaidOutForATerminal(t *testing.T) {
	const source = "# Title\n\nA paragraph of words that goes\non over lines.\n\n- one item that is quite a bit longer than the others\n- two\n\n" +
		"1. first\n\n   ```promql\n   sum by (instance, model_name) (rate(vllm:request_prompt_tokens_sum[5m]))\n   ```\n\n" +
		"| TTFT | Look for |\n|---|---|\n| high | more load than capacity \\| large prefills that hold the scheduler |\n"
	want := `# Title

A paragraph of words that goes on over
lines.

- one item that is quite a bit longer
  than the others
- two

1. first

     sum by (instance, model_name) (rate(vllm:request_prompt_tokens_sum[5m]))

  TTFT  Look for
  high  more load than capacity | large
        prefills that hold the scheduler
`
	must.Equal(t, want, laid(Options{Width: 40}, func(t *Text) { t.Markdown(source) }))
}

func TestForeignTextIsCleaned(t *testing.T) {
	if got := Clean("a\x1b[31mb\u202ec\nd"); got != "a [31mb c d" {
		t.Errorf("%q", got)
	}
	if got := Escape("<b>|`*_[x](y)&\n"); strings.ContainsAny(got, "<>\n") || !strings.Contains(got, `\|`) || !strings.Contains(got, "&amp;") {
		t.Errorf("%q", got)
	}
	if Fence("a ``` b") != "````" || Code("a`b") != "`a'b`" {
		t.Error("code can end its own block")
	}
}

func TestNumbersForPeople(t *testing.T) {
	for got, want := range map[string]string{
		Number(0): "0", Number(1.234): "1.23", Number(123.4): "123", Number(9999): "9999", Number(12345): "12.3 k", Number(2.5e6): "2.50 M",
		Grouped(-1234567): "-1,234,567", Grouped(-123): "-123", Grouped(999): "999", Large(8.03e9): "8.03 billion", GiB(79.25 * (1 << 30)): "79.25 GiB", GiB(5 << 20): "5 MiB",
		Seconds(0.0123): "12.3 ms", Seconds(math.Inf(1)): "never", Percent(0.973): "97.3 %", Plural(1, "GPU"): "1 GPU", Plural(3, "GPU"): "3 GPUs", And([]string{"a", "b", "c"}): "a, b and c",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

type brokenPipe struct{}

var errClosed = errors.New("closed")

func (brokenPipe) Write([]byte) (int, error) { return 0, errClosed }

func TestErrorsOfTheWriterAreReturned(t *testing.T) {
	text := NewText(Options{})
	text.Line("x")
	if _, err := text.WriteTo(brokenPipe{}); !errors.Is(err, errClosed) {
		t.Errorf("text: %v", err)
	}
	if err := JSON(brokenPipe{}, 1); !errors.Is(err, errClosed) {
		t.Errorf("JSON: %v", err)
	}
	if err := NewDocument("t").HTML(brokenPipe{}); !errors.Is(err, errClosed) {
		t.Errorf("HTML: %v", err)
	}
}
