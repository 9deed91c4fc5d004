package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// columns are the columns of the table, latencies first.
var columns = []struct {
	title  string
	name   string // name of a percentile in view.Numbers' Bounds
	width  int
	format func(float64) string
	number func(*view.Numbers) *float64
}{
	{"TTFT", "ttft_p95", 9, render.Seconds, func(n *view.Numbers) *float64 { return n.TTFTP95 }},
	{"ITL", "itl_p95", 8, render.Seconds, func(n *view.Numbers) *float64 { return n.ITLP95 }},
	{"RUN", "", 4, formatWhole, func(n *view.Numbers) *float64 { return n.RequestsRunning }},
	{"WAIT", "", 4, formatWhole, func(n *view.Numbers) *float64 { return n.RequestsWaiting }},
	{"KV", "", 4, formatPercent, func(n *view.Numbers) *float64 { return n.KVCacheUsage }},
	{"REQ/s", "", 5, formatRate, func(n *view.Numbers) *float64 { return n.RequestRate }},
	{"TOK/s", "", 5, formatLarge, func(n *view.Numbers) *float64 { return n.OutputTokensRate }},
}

func formatWhole(v float64) string   { return fmt.Sprintf("%.0f", v) }
func formatPercent(v float64) string { return fmt.Sprintf("%.0f%%", 100*v) }

func formatRate(v float64) string {
	if v < 1 {
		return fmt.Sprintf("%.2f", v)
	}
	return render.Number(v)
}

func formatLarge(v float64) string {
	if v < 10_000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1fk", v/1000)
}

var healthStyles = map[view.Health]render.Style{
	view.HealthFailing: render.Bad, view.HealthDegraded: render.Warning, view.HealthUncertain: render.Uncertain,
	view.HealthUnknown: render.Dim, view.HealthHealthy: render.Good,
}

// orders are the possible orders of the table.
var orders = []struct {
	name string
	less func(a, b *view.Replica) int
}{
	{"state", func(a, b *view.Replica) int { return cmp.Compare(healthRank(a), healthRank(b)) }},
	{"TTFT", byNumber(func(n *view.Numbers) *float64 { return n.TTFTP95 })},
	{"waiting", byNumber(func(n *view.Numbers) *float64 { return n.RequestsWaiting })},
	{"KV", byNumber(func(n *view.Numbers) *float64 { return n.KVCacheUsage })},
	{"name", func(a, b *view.Replica) int { return strings.Compare(a.Target, b.Target) }},
}

func byNumber(of func(*view.Numbers) *float64) func(a, b *view.Replica) int {
	get := func(r *view.Replica) float64 {
		if v := of(&r.Now); v != nil {
			return *v
		}
		return math.Inf(-1)
	}
	return func(a, b *view.Replica) int { return cmp.Compare(get(b), get(a)) }
}

func healthRank(r *view.Replica) int {
	return slices.Index(view.Healths, view.HealthOf(r.Status, r.Severity))
}

// A history holds the TTFT of each replica in the latest overviews, for the sparklines.
type history struct {
	at   time.Time            // time of the last overview
	ttft map[string][]float64 // by target; NaN is unknown
}

// maxHistory is the number of overviews in a sparkline.
const maxHistory = 12

func (h *history) addOverview(o *view.Overview) {
	if !o.At.After(h.at) {
		return // the same overview, or a step back in time
	}
	h.at = o.At
	if h.ttft == nil {
		h.ttft = map[string][]float64{}
	}
	seen := map[string]bool{}
	for _, m := range o.Models {
		for _, r := range m.Replicas {
			seen[r.Target] = true
			v := math.NaN()
			if r.Now.TTFTP95 != nil {
				v = *r.Now.TTFTP95
			}
			line := append(h.ttft[r.Target], v)
			h.ttft[r.Target] = line[max(0, len(line)-maxHistory):]
		}
	}
	for name := range h.ttft {
		if !seen[name] {
			delete(h.ttft, name)
		}
	}
}

// drawSparkline draws numbers as a line of bars. Unknown values are gaps.
func drawSparkline(values []float64) string {
	const bars = "▁▂▃▄▅▆▇█"
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	var b strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case !(high > 1.5*low): // nearly constant
			b.WriteRune('▁')
		default:
			b.WriteRune([]rune(bars)[int(7*(v-low)/(high-low))])
		}
	}
	return b.String()
}

// A screen has the state that is drawn.
type screen struct {
	overview view.Overview
	history  *history
	filter   string
	order    int
	selected string // target of a replica
	input    string // the filter while the user types it; it takes the place of the keys
	note     string // an error of the feed
	feed     Feed
	render.Options
	height int
}

// visibleRows returns the replicas that match the filter, in the chosen order.
func (s *screen) visibleRows() []view.Replica {
	var out []view.Replica
	for _, m := range s.overview.Models {
		for _, r := range m.Replicas {
			if s.overview.State != view.OK && (r.Status == view.Healthy || r.Status == view.Idle) {
				r.Status = view.Unknown
			}
			text := r.Target + " " + m.Model + " " + r.Pathology + " " + string(view.HealthOf(r.Status, r.Severity))
			if strings.Contains(strings.ToLower(text), strings.ToLower(s.filter)) {
				out = append(out, r)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b view.Replica) int {
		return cmp.Or(orders[s.order].less(&a, &b), strings.Compare(a.Target, b.Target))
	})
	return out
}

// drawLines draws the screen in its width and height. A height of 0 is unlimited, and has no lines below the table.
func (s *screen) drawLines() []string {
	t := render.NewText(s.Options)
	out := append(s.drawVerdicts(t), "")
	rows := s.visibleRows()
	table, foot := s.drawTable(t, rows), s.drawFoot(t)
	if s.height == 0 {
		return append(out, table...)
	}
	if room := s.height - len(out) - len(foot); len(table) > room {
		table = s.rowsAroundSelected(table, rows, max(2, room))
	}
	out = append(out, table...)
	for len(out) < s.height-len(foot) {
		out = append(out, "")
	}
	return append(out, foot...)
}

// drawVerdicts returns the lines above the table: the source and the time, the models' verdicts, and problems.
func (s *screen) drawVerdicts(t *render.Text) (out []string) {
	add := func(line string) { out = append(out, render.Cut(line, t.Width())) }
	o := &s.overview
	clock := "–"
	if !o.At.IsZero() {
		clock = o.At.UTC().Format("15:04:05Z")
	}
	add(t.Paint(render.Bold, "sixty top") + "  " + render.Clean(s.feed.Name()) + "  " + clock)
	most := max(1, (s.height-6)/2)
	if s.height == 0 {
		most = len(o.Models) + len(o.Problems)
	}
	for i := range o.Models {
		if i == most && len(o.Models) > most+1 {
			add(fmt.Sprintf("and %d more models", len(o.Models)-i))
			break
		}
		for _, line := range s.modelLines(t, &o.Models[i]) {
			add(line)
		}
	}
	for i, p := range o.Problems { // the first is always shown
		if i > 0 && len(out) > most+2 {
			add(t.Paint(render.Warning, "! ") + fmt.Sprintf("and %d more", len(o.Problems)-i))
			break
		}
		add(t.Paint(render.Warning, "! ") + render.Clean(p))
	}
	return out
}

// drawFoot returns the lines below the table: a note, the time in a recording, and the keys.
func (s *screen) drawFoot(t *render.Text) (out []string) {
	if s.note != "" {
		out = append(out, t.Paint(render.Warning, render.Clean(s.note)))
	}
	if first, last := s.feed.Span(); !first.IsZero() {
		out = append(out, drawTimeBar(first, last, s.overview.At, t.Width()))
	}
	keys := t.Paint(render.Dim, "↑↓ select  ⏎ evidence  s order: "+orders[s.order].name+"  / filter  ? help  q quit")
	if s.input != "" {
		keys = s.input
	}
	out = append(out, keys)
	for i := range out {
		out[i] = render.Cut(out[i], t.Width())
	}
	return out
}

// modelLines returns a model's verdict: in one line if there are more than two models, else in several.
func (s *screen) modelLines(t *render.Text, m *view.Model) []string {
	v := &m.Verdict
	head, summary := render.Clean(m.Title), render.Clean(m.Text)
	if v.Status == view.Firing && !m.IsQuiet() {
		head += " (" + v.Severity + ")"
		if v.Since != nil {
			head += map[bool]string{true: ", since before ", false: ", since "}[v.SinceAtLeast] +
				v.Since.UTC().Format("15:04:05Z")
		}
	}
	head = t.Paint(healthStyles[m.Health], head)
	if len(s.overview.Models) > 2 {
		return []string{head + "  " + summary}
	}
	lines := append([]string{head}, render.Wrap("  "+summary, t.Width(), "  ")...)
	if m.Advice != "" {
		lines = append(lines, render.Wrap("  "+render.Clean(m.Advice), t.Width(), "  ")...)
	}
	return lines
}

// drawTimeBar shows the time in a recording, and the keys that change it.
func drawTimeBar(begin, end, at time.Time, width int) string {
	from, to := begin.UTC().Format(time.TimeOnly)+" ", " "+end.UTC().Format(time.TimeOnly)+"  ←→ step  Home End"
	room := max(1, width-len(from)-render.Cells(to))
	place := int(float64(room-1) * min(1, max(0, at.Sub(begin).Seconds()/max(1, end.Sub(begin).Seconds()))))
	return from + strings.Repeat("─", place) + "●" + strings.Repeat("─", room-1-place) + to
}

// rowsAroundSelected keeps the head of a table and the rows around the selected one.
func (s *screen) rowsAroundSelected(table []string, rows []view.Replica, room int) []string {
	body, place := table[1:], room-2 // the head, and a line for the rest
	i := max(0, slices.IndexFunc(rows, func(r view.Replica) bool { return r.Target == s.selected }))
	from := max(0, min(i-place/2, len(body)-place))
	to := min(len(body), from+place)
	out := append([]string{table[0]}, body[from:to]...)
	return append(out, fmt.Sprintf("… %d to %d of %d", from+1, to, len(body)))
}

// drawTable returns the head of the table and a line for each replica.
func (s *screen) drawTable(t *render.Text, rows []view.Replica) []string {
	fixed := 0
	for _, c := range columns {
		fixed += c.width + 1
	}
	names, name := shortenNames(rows, max(12, t.Width()-fixed-len("› "+" uncertain "+"  TREND")))
	line := func(mark, target, status string, cells []string, trend string) string {
		b := mark + " " + render.Pad(render.Clip(target, name), name) + " " + render.Pad(render.Cut(status, 9), 9)
		for i, c := range cells {
			b += " " + render.Right(render.Cut(c, columns[i].width), columns[i].width)
		}
		first := max(0, render.Cells(trend)-max(0, t.Width()-render.Cells(b)-2)) // keep the latest values
		return render.Cut(b+"  "+string([]rune(trend)[first:]), t.Width())
	}
	var heads []string
	for _, c := range columns {
		heads = append(heads, c.title)
	}
	out := []string{t.Paint(render.Dim, line(" ", "REPLICA", "STATE", heads, "TREND"))}
	for i, r := range rows {
		var cells []string
		for _, c := range columns {
			cells = append(cells, strings.ReplaceAll(r.Now.Text(c.name, c.number(&r.Now), c.format), "≤ ", "≤"))
		}
		mark := " "
		if r.Target == s.selected {
			mark = "›"
		}
		state := view.HealthOf(r.Status, r.Severity)
		row := line(mark, names[i], string(state), cells, drawSparkline(s.history.ttft[r.Target]))
		out = append(out, t.Paint(healthStyles[state], row))
	}
	if len(rows) == 0 {
		text := "no replica yet"
		if s.filter != "" {
			text = "no replica matches " + s.filter
		}
		out = append(out, "  "+render.Clean(text))
	}
	return out
}

// shortenNames returns the names of replicas, and the width of their column. If a name is wider than most, all names
// lose their common prefix up to a separator.
func shortenNames(rows []view.Replica, most int) (names []string, widest int) {
	common, longest := 0, 0
	for i, r := range rows {
		longest = max(longest, render.Cells(r.Target))
		if i == 0 {
			common = len(r.Target)
		}
		for common = min(common, len(r.Target)); r.Target[:common] != rows[0].Target[:common]; common-- {
		}
	}
	widest = len("REPLICA")
	for _, r := range rows {
		name := render.Clean(r.Target)
		if cut := strings.LastIndexAny(r.Target[:common], ".:-/"); len(rows) > 1 && longest > most && cut > 0 {
			name = "…" + render.Clean(r.Target[cut:])
		}
		names, widest = append(names, name), max(widest, render.Cells(name))
	}
	return names, min(widest, most)
}
