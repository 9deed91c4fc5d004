package render

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLowestRanksLeaveFirst(t *testing.T) {
	type piece struct{ rank, lines int }
	for name, tt := range map[string]struct {
		width, kept int
		pieces      []piece
		want        string // the numbers of the pieces that stay
	}{
		"all fit":                            {80, 0, []piece{{0, 10}, {1, 5}, {2, 5}}, "012"},
		"the lowest rank leaves":             {80, 0, []piece{{0, 10}, {2, 8}, {1, 5}}, "01"},
		"of one rank the last":               {80, 0, []piece{{0, 10}, {1, 5}, {1, 5}, {1, 5}}, "012"},
		"lines are kept":                     {80, 2, []piece{{0, 10}, {1, 5}, {1, 5}}, "01"},
		"a short one finds its place again":  {80, 0, []piece{{0, 10}, {1, 2}, {2, 12}, {3, 5}}, "013"},
		"but not one behind a gap":           {80, 0, []piece{{0, 10}, {1, 12}, {1, 2}}, "0"},
		"what stays may be more than a room": {80, 0, []piece{{0, 30}, {1, 1}}, "0"},
		"a narrow terminal has more lines":   {40, 0, []piece{{0, 30}, {1, 10}, {1, 1}}, "01"},
	} {
		t.Run(name, func(t *testing.T) {
			text := NewText(Options{Width: tt.width})
			for i, p := range tt.pieces {
				text.BeginDroppable(p.rank)
				for range p.lines {
					text.Line(fmt.Sprint(i))
				}
			}
			whole := text.DropToFit(tt.kept)
			var b strings.Builder
			if _, err := text.WriteTo(&b); err != nil {
				t.Fatal(err)
			}
			got := ""
			for line := range strings.Lines(b.String()) {
				if n := strings.TrimSpace(line); !strings.HasSuffix(got, n) {
					got += n
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || whole != (len(got) == len(tt.pieces)) {
				t.Errorf("whole %v (-want +got):\n%s", whole, diff)
			}
		})
	}
}

func TestTheEmptyLineOfADroppedPartIsDropped(t *testing.T) {
	text := NewText(Options{Width: 80})
	for range screenLines - 1 {
		text.Line("stays")
	}
	text.BeginDroppable(1)
	text.Line("")
	text.BeginDroppable(1)
	text.Line("leaves")
	if text.DropToFit(0) || strings.HasSuffix(text.String(), "\n\n") || strings.Contains(text.String(), "leaves") {
		t.Errorf("%q", text.String())
	}
}
