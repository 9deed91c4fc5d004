package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// PrintOnce writes one screen, and returns what it showed.
func PrintOnce(ctx context.Context, w io.Writer, f Feed, o render.Options) (view.Overview, error) {
	var last view.Overview
	for began := time.Now(); ; {
		var err error
		if last, err = f.Overview(ctx); err != nil {
			return last, err
		}
		if last.State != view.Starting {
			break
		}
		if time.Since(began) > time.Minute {
			return last, errors.New("no verdict within a minute")
		}
		select {
		case <-ctx.Done():
			return last, context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
	h := &history{}
	h.add(&last)
	s := screen{feed: f, overview: last, history: h, Options: o}
	_, err := fmt.Fprintln(w, strings.Join(s.lines(), "\n"))
	return last, err
}

// Run shows the screen until the user leaves it.
func Run(ctx context.Context, f Feed, o render.Options) error {
	m := &model{ctx: ctx, screen: screen{feed: f, history: &history{}, Options: o, height: 24}}
	_, err := tea.NewProgram(m, tea.WithContext(ctx)).Run()
	if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, tea.ErrInterrupted) || ctx.Err() != nil {
		return nil
	}
	return err
}

// Messages to the model.
type (
	overviewMsg struct {
		view.Overview
		err error
	}
	textMsg struct {
		text string
		err  error
	}
	tickMsg struct{}
)

// model is the program's state, as bubbletea wants it.
type model struct {
	ctx context.Context
	screen
	typing bool

	depth []string // lines of what is looked at in depth; nil for the table
	title string
	top   int // first line that is shown
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tea.Batch(m.fetchOverview(), m.tick()) }

func (m *model) fetchOverview() tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, servedTimeout)
		defer cancel()
		o, err := m.feed.Overview(ctx)
		return overviewMsg{o, err}
	}
}

func (m *model) tick() tea.Cmd {
	if m.feed.Every() == 0 {
		return nil
	}
	return tea.Tick(min(m.feed.Every(), time.Second), func(time.Time) tea.Msg { return tickMsg{} })
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.Width, m.height = msg.Width, msg.Height
	case tickMsg:
		return m, tea.Batch(m.fetchOverview(), m.tick())
	case overviewMsg:
		m.note = ""
		if msg.err != nil {
			m.note = msg.err.Error()
			m.overview.State = view.Stale
			return m, nil
		}
		m.overview = msg.Overview
		m.history.add(&msg.Overview)
		m.choose(0)
	case textMsg:
		if m.depth == nil {
			return m, nil
		}
		text := msg.text
		if msg.err != nil {
			text = msg.err.Error()
		}
		m.depth = strings.Split(strings.TrimRight(text, "\n"), "\n")
	case tea.KeyPressMsg:
		return m.key(msg)
	}
	return m, nil
}

// choose moves the selection by some rows.
func (m *model) choose(by int) {
	rows := m.rows()
	if len(rows) == 0 {
		return
	}
	at := -1
	for i, r := range rows {
		if r.Target == m.selected {
			at = i
		}
	}
	if at < 0 {
		by, at = 0, 0
	}
	m.selected = rows[max(0, min(at+by, len(rows)-1))].Target
}

func (m *model) key(msg tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	key := msg.String()
	if m.typing {
		return m.typed(msg)
	}
	if key == "ctrl+c" || key == "q" {
		return m, tea.Quit
	}
	if m.depth != nil {
		m.scroll(key)
		return m, nil
	}
	switch key {
	case "up", "k":
		m.choose(-1)
	case "down", "j":
		m.choose(1)
	case "pgup":
		m.choose(-10)
	case "pgdown", "space":
		m.choose(10)
	case "g":
		m.choose(-1 << 20)
	case "G":
		m.choose(1 << 20)
	case "home":
		return m, m.seek(-1 << 20)
	case "end":
		return m, m.seek(1 << 20)
	case "s":
		m.order = (m.order + 1) % len(orders)
	case "/":
		m.typing, m.asked = true, "filter: "+m.filter+"▏"
	case "esc":
		m.filter = ""
	case "enter":
		return m, m.open("evidence", m.feed.Text)
	case "r":
		return m, m.open("requests in flight", func(ctx context.Context, _ render.Options) (string, error) {
			text, err := m.feed.Requests(ctx)
			if text == "" && err == nil {
				text = "No gateway is known. Requests in flight are visible at sixty gateway;\nname it in the configuration of sixty serve, under sixty.gateways."
			}
			return text, err
		})
	case "?", "h":
		m.depth, m.title, m.top = m.help(), "keys", 0
	case "left":
		return m, m.seek(-1)
	case "right":
		return m, m.seek(1)
	case "shift+left":
		return m, m.seek(-10)
	case "shift+right":
		return m, m.seek(10)
	}
	return m, nil
}

func (m *model) seek(steps int) tea.Cmd {
	if m.feed.Seek(steps) {
		return m.fetchOverview()
	}
	return nil
}

func (m *model) open(title string, ask func(context.Context, render.Options) (string, error)) tea.Cmd {
	m.depth, m.title, m.top = []string{"…"}, title, 0
	o := m.Options
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, servedTimeout)
		defer cancel()
		text, err := ask(ctx, o)
		return textMsg{text, err}
	}
}

func (m *model) typed(msg tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	switch key := msg.String(); key {
	case "enter":
		m.typing = false
	case "esc", "ctrl+c":
		m.typing, m.filter = false, ""
	case "backspace":
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	default:
		if msg.Text != "" && len(m.filter) < 200 {
			m.filter += msg.Text
		}
	}
	m.asked = ""
	if m.typing {
		m.asked = "filter: " + m.filter + "▏"
	}
	m.choose(0)
	return m, nil
}

func (m *model) scroll(key string) {
	page := max(1, m.height-2)
	switch key {
	case "esc", "enter", "left":
		m.depth = nil
		return
	case "up", "k":
		m.top--
	case "down", "j":
		m.top++
	case "pgup":
		m.top -= page
	case "pgdown", "space":
		m.top += page
	case "home", "g":
		m.top = 0
	case "end", "G":
		m.top = len(m.depth)
	}
	m.top = max(0, min(m.top, len(m.depth)-page))
}

// help are the lines of help, within the terminal's width.
func (m *model) help() []string {
	t := render.NewText(m.Options)
	t.Pairs([][]string{
		{"↑ ↓ j k", "select a replica; PgUp PgDn by ten, g G the first and the last"},
		{"Enter", "evidence and fixes"},
		{"r", "requests in flight, if a gateway is known"},
		{"s", "order by state, TTFT, waiting, KV usage or name"},
		{"/", "show what matches a name, a model, a state or a fault; Esc shows all"},
		{"← →", "in a recording: one step back or forward, with Shift ten; Home and End"},
		{"Esc", "back"},
		{"q, Ctrl-C", "quit"},
	})
	t.Line("")
	t.Paragraph("", "", "TTFT and ITL are the P95 of about the last minute, KV is the usage of the KV cache, and TREND is TTFT, each line on its own scale.")
	var b strings.Builder
	_, _ = t.WriteTo(&b) // a Builder takes all
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

// View implements tea.Model.
func (m *model) View() tea.View {
	lines := m.lines()
	if m.depth != nil {
		page := max(1, m.height-2)
		t := render.NewText(m.Options)
		lines = []string{t.Style(render.Bold, "sixty top: "+m.title)}
		to := min(len(m.depth), m.top+page)
		for _, l := range m.depth[min(m.top, to):to] {
			lines = append(lines, render.Cut(l, t.Width()))
		}
		for len(lines) < m.height-1 {
			lines = append(lines, "")
		}
		lines = append(lines, t.Style(render.Dim, fmt.Sprintf("↑↓ PgDn scroll  Esc back  %d to %d of %d", m.top+1, to, len(m.depth))))
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	return v
}
