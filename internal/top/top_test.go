package top

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/render"
)

// TestKeys presses keys in a recording.
func TestKeys(t *testing.T) {
	o := Options{Pathologies: pathologies.All()}
	f, err := o.Open(t.Context(), []string{filepath.Join("..", "..", "testdata", "incident.tar.zst")})
	must.Succeed(t, err)
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
	if text := strings.Join(m.drawLines(), "\n"); !strings.Contains(text, "KV cache thrashing on tiny (page), since 06:46:48Z\n") || !strings.Contains(text, "  Now: Cap this model at 6 requests") || !strings.Contains(text, "failing") || !strings.Contains(text, "● 06:47:40  ←→ step  Home End") {
		t.Errorf("the end of the recording:\n%s", text)
	}
	m.Update(press(tea.Key{Code: tea.KeyHome}))
	if !m.overview.At.Equal(first) || !strings.Contains(strings.Join(m.drawLines(), "\n"), first.UTC().Format(time.TimeOnly)+" ●") {
		t.Errorf("Home leads to %s, want %s:\n%s", m.overview.At, first, strings.Join(m.drawLines(), "\n"))
	}
	for range 4 {
		m.Update(press(tea.Key{Code: tea.KeyRight}))
	}
	m.Color = true
	if text := strings.Join(m.drawLines(), "\n"); !strings.Contains(text, "\x1b[1;35mNot certain yet whether tiny is healthy\x1b[m\n  Unexplained degradation on 127.0.0.1:8100 for 2 s.\n") || !strings.Contains(text, " uncertain ") {
		t.Errorf("20 s on, when nothing is certain:\n%q", text)
	}
	m.Color = false
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

func TestNamesLeaveOutWhatAllBeginWith(t *testing.T) {
	for _, c := range []struct {
		targets, want []string
		width         int
	}{
		{[]string{"a:1", "a:2"}, []string{"a:1", "a:2"}, 7},
		{[]string{"localhost:22000", "localhost:22001"}, []string{"…:22000", "…:22001"}, 7},
		{[]string{"10.0.3.17:8000", "10.0.4.2:8000", "10.0.4.2:8001"}, []string{"….3.17:8000", "….4.2:8000", "….4.2:8001"}, 11},
		{[]string{"llama-0.llama.prod.svc:8000", "x"}, []string{"llama-0.llama.prod.svc:8000", "x"}, 12},
		{[]string{"localhost:22000"}, []string{"localhost:22000"}, 12},
		{[]string{"same-long-name:1", "same-long-name:1"}, []string{"…:1", "…:1"}, 7},
	} {
		var rows []view.Replica
		for _, name := range c.targets {
			rows = append(rows, view.Replica{Target: name})
		}
		if got, width := shortenNames(rows, 12); !slices.Equal(got, c.want) || width != c.width {
			t.Errorf("%v: %v in %d cells, want %v in %d", c.targets, got, width, c.want, c.width)
		}
	}
	if got, width := shortenNames(nil, 12); got != nil || width != 7 {
		t.Errorf("no replicas: %v, %d", got, width)
	}
}
