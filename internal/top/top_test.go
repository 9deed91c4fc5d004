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

func TestKeysInARecording(t *testing.T) {
	o := Options{Pathologies: pathologies.All()}
	f, err := o.Open(t.Context(), []string{filepath.Join("..", "..", "testdata", "incident.tar.zst")})
	must.Succeed(t, err)
	defer f.Close()
	first, _ := f.Span()
	shown := screen{feed: f, history: &history{}, Options: render.Options{Width: 80}, height: 24}
	m := &model{ctx: t.Context(), screen: shown}
	mustShow := func(when string, want ...string) {
		t.Helper()
		text := strings.Join(m.drawLines(), "\n")
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q is missing in\n%s", when, w, text)
			}
		}
	}
	press := func(k tea.Key) tea.Msg {
		_, cmd := m.Update(tea.KeyPressMsg(k))
		if cmd == nil {
			return nil
		}
		return cmd()
	}
	m.Update(m.fetchOverview()())
	mustShow("the end of the recording", "KV cache thrashing on tiny (page), since 06:46:48Z\n",
		"  Now: Cap this model at 6 requests", "failing", "● 06:47:40  ←→ step  Home End")
	m.Update(press(tea.Key{Code: tea.KeyHome}))
	mustShow("Home", first.UTC().Format(time.TimeOnly)+" ●")
	if !m.overview.At.Equal(first) {
		t.Errorf("Home leads to %s, want %s", m.overview.At, first)
	}
	for range 4 {
		m.Update(press(tea.Key{Code: tea.KeyRight}))
	}
	m.Color = true
	mustShow("20 s later, when nothing is certain", "\x1b[1;35mNot certain yet whether tiny is healthy\x1b[m\n"+
		"  Unexplained degradation on 127.0.0.1:8100 for 2 s.\n", " uncertain ")
	m.Color = false
	press(tea.Key{Code: '?', Text: "?"})
	for _, l := range m.page {
		if render.Cells(l) > 80 {
			t.Errorf("help has a line of %d columns: %s", render.Cells(l), l)
		}
	}
	if _, ok := press(tea.Key{Code: 'q', Text: "q"}).(tea.QuitMsg); !ok {
		t.Error("q does not quit from help")
	}
	press(tea.Key{Code: tea.KeyEscape})
	if m.page != nil {
		t.Error("Esc does not lead back from help")
	}
}

func TestNamesLoseTheirCommonPrefix(t *testing.T) {
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
