package top

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/render"
)

// TestKeys presses keys in a recording.
func TestKeys(t *testing.T) {
	o := Options{Pathologies: pathologies.All()}
	f, err := o.Open(t.Context(), []string{filepath.Join("..", "..", "testdata", "incident.tar.zst")})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	first, _ := f.Span()
	m := &model{ctx: t.Context(), screen: screen{feed: f, history: &history{}, Options: render.Options{Width: 80}, height: 24}}
	press := func(k tea.Key) tea.Msg {
		_, cmd := m.Update(tea.KeyPressMsg(k))
		if cmd == nil {
			return nil
		}
		return cmd()
	}
	m.Update(m.fetchOverview()())
	if text := strings.Join(m.lines(), "\n"); !strings.Contains(text, "KV cache thrashing (page)") || !strings.Contains(text, "failing") || !strings.Contains(text, "● 06:47:40  ←→ step  Home End") {
		t.Errorf("the end of the recording:\n%s", text)
	}
	m.Update(press(tea.Key{Code: tea.KeyHome}))
	if !m.overview.At.Equal(first) || !strings.Contains(strings.Join(m.lines(), "\n"), first.UTC().Format(time.TimeOnly)+" ●") {
		t.Errorf("Home leads to %s, want %s:\n%s", m.overview.At, first, strings.Join(m.lines(), "\n"))
	}
	press(tea.Key{Code: '?', Text: "?"})
	for _, l := range m.depth {
		if render.Cells(l) > 80 {
			t.Errorf("help has a line of %d columns: %s", render.Cells(l), l)
		}
	}
	if _, ok := press(tea.Key{Code: 'q', Text: "q"}).(tea.QuitMsg); !ok {
		t.Error("q does not quit from help")
	}
	press(tea.Key{Code: tea.KeyEscape})
	if m.depth != nil {
		t.Error("Esc does not lead back from help")
	}
}
