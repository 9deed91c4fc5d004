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

// PrintOnce waits for the first verdict, for at most a minute. It writes one screen, and returns its overview.
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
	h.addOverview(&last)
	s := screen{feed: f, overview: last, history: h, Options: o}
	_, err := fmt.Fprintln(w, strings.Join(s.drawLines(), "\n"))
	return last, err
}

// Run shows the screen until the user quits.
func Run(ctx context.Context, f Feed, o render.Options) error {
	m := &model{ctx: ctx, screen: screen{feed: f, history: &history{}, Options: o, height: 24}}
	_, err := tea.NewProgram(m, tea.WithContext(ctx)).Run()
	if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, tea.ErrInterrupted) || ctx.Err() != nil {
		return nil
	}
	return err
}

// The messages to the model.
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

// A model is the state of the program, as bubbletea requires it.
type model struct {
	ctx context.Context
	screen
	typing bool // keys are the text of the filter

	page  []string // lines of a page that covers the table; nil if the table is shown
	title string   // title of the page
	top   int      // first visible line of the page
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tea.Batch(m.fetchOverview(), m.scheduleTick()) }

func (m *model) fetchOverview() tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, feedTimeout)
		defer cancel()
		o, err := m.feed.Overview(ctx)
		return overviewMsg{o, err}
	}
}

func (m *model) scheduleTick() tea.Cmd {
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
		return m, tea.Batch(m.fetchOverview(), m.scheduleTick())
	case overviewMsg:
		m.note = ""
		if msg.err != nil {
			m.note = msg.err.Error()
			m.overview.State = view.Stale
			return m, nil
		}
		m.overview = msg.Overview
		m.history.addOverview(&msg.Overview)
		m.moveSelection(0)
	case textMsg:
		if m.page == nil {
			return m, nil
		}
		text := msg.text
		if msg.err != nil {
			text = msg.err.Error()
		}
		m.page = strings.Split(strings.TrimRight(text, "\n"), "\n")
	case tea.KeyPressMsg:
		return m.handleKey(msg)
	}
	return m, nil
}

// moveSelection moves the selection by a number of rows.
func (m *model) moveSelection(by int) {
	rows := m.visibleRows()
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

func (m *model) handleKey(msg tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	key := msg.String()
	if m.typing {
		return m.handleTyping(msg)
	}
	if key == "ctrl+c" || key == "q" {
		return m, tea.Quit
	}
	if m.page != nil {
		m.scrollPage(key)
		return m, nil
	}
	if rows, ok := rowsByKey[key]; ok {
		m.moveSelection(rows)
		return m, nil
	}
	if steps, ok := stepsByKey[key]; ok {
		return m, m.seekSteps(steps)
	}
	switch key {
	case "s":
		m.order = (m.order + 1) % len(orders)
	case "/":
		m.typing, m.input = true, "filter: "+m.filter+"▏"
	case "esc":
		m.filter = ""
	case "enter":
		return m, m.openEvidence()
	case "?", "h":
		m.page, m.title, m.top = m.helpLines(), "keys", 0
	}
	return m, nil
}

// rowsByKey are the rows by which keys move the selection, and stepsByKey the steps in a recording.
var (
	rowsByKey = map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -10, "pgdown": 10, "space": 10, "g": -1 << 20, "G": 1 << 20,
	}
	stepsByKey = map[string]int{
		"left": -1, "right": 1, "shift+left": -10, "shift+right": 10, "home": -1 << 20, "end": 1 << 20,
	}
)

func (m *model) seekSteps(steps int) tea.Cmd {
	if m.feed.Seek(steps) {
		return m.fetchOverview()
	}
	return nil
}

func (m *model) openEvidence() tea.Cmd {
	m.page, m.title, m.top = []string{"…"}, "evidence", 0
	o := m.Options
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, feedTimeout)
		defer cancel()
		text, err := m.feed.Text(ctx, o)
		return textMsg{text, err}
	}
}

func (m *model) handleTyping(msg tea.KeyPressMsg) (tea.Model, tea.Cmd) {
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
	m.input = ""
	if m.typing {
		m.input = "filter: " + m.filter + "▏"
	}
	m.moveSelection(0)
	return m, nil
}

func (m *model) scrollPage(key string) {
	visible := max(1, m.height-2)
	switch key {
	case "esc", "enter", "left":
		m.page = nil
		return
	case "up", "k":
		m.top--
	case "down", "j":
		m.top++
	case "pgup":
		m.top -= visible
	case "pgdown", "space":
		m.top += visible
	case "home", "g":
		m.top = 0
	case "end", "G":
		m.top = len(m.page)
	}
	m.top = max(0, min(m.top, len(m.page)-visible))
}

// helpLines returns the page that explains the keys.
func (m *model) helpLines() []string {
	t := render.NewText(m.Options)
	t.Pairs([][]string{
		{"↑ ↓ j k", "select a replica; PgUp PgDn by ten, g G the first and the last"},
		{"Enter", "evidence and fixes"},
		{"s", "order by state, TTFT, waiting, KV usage or name"},
		{"/", "show what matches a name, a model, a state or a fault; Esc shows all"},
		{"← →", "in a recording: one step back or forward, with Shift ten; Home and End"},
		{"Esc", "back"},
		{"q, Ctrl-C", "quit"},
	})
	t.Line("")
	t.Paragraph("", "", "TTFT and ITL are the P95 of about the last minute, KV is the usage of the KV cache, and "+
		"TREND is TTFT, each line on its own scale.")
	var b strings.Builder
	_, _ = t.WriteTo(&b) // a Builder never fails
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

// View implements tea.Model.
func (m *model) View() tea.View {
	lines := m.drawLines()
	if m.page != nil {
		visible := max(1, m.height-2)
		t := render.NewText(m.Options)
		lines = []string{t.Paint(render.Bold, "sixty top: "+m.title)}
		to := min(len(m.page), m.top+visible)
		for _, l := range m.page[min(m.top, to):to] {
			lines = append(lines, render.Cut(l, t.Width()))
		}
		for len(lines) < m.height-1 {
			lines = append(lines, "")
		}
		foot := fmt.Sprintf("↑↓ PgDn scroll  Esc back  %d to %d of %d", m.top+1, to, len(m.page))
		lines = append(lines, t.Paint(render.Dim, foot))
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	return v
}
