package audit

import (
	"bytes"
	"regexp"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// beside is what a file's queries say together, gathered once: a dashboard may have
// thousands of them.
type beside struct {
	panels  map[string][]*query // by the place of their panel
	scalers map[*node][]*query  // by their autoscaler

	selected map[string]bool            // labels by which some query selects or groups
	words    map[string]bool            // of expressions, and the labels of legends
	rated    map[string][]*query        // up to two queries that take a series' rate, by its name
	parts    map[string]map[string]bool // labels by which a series is selected, by its name
	engines  map[string]bool            // matchers by which an engine's series are selected

	alerts  []*query
	rungs   map[string][]rung // alerts by what they compare, nil before the first is asked for
	scrapes []scrape          // how often the file says that servers are scraped

	comments map[int]string // on rules, by their lines; nil before the first are asked for
	unasked  []string       // recorded series that nobody asks for, nil before they are
	vmRules  bool           // VictoriaMetrics' own objects

	apart    map[string]bool // labels by which legends tell an engine's series apart
	repeated map[string]bool // whether a panel is drawn for each value of a variable
}

var word = regexp.MustCompile(`[A-Za-z_]\w*`)

func (d *document) beside() *beside {
	b := &beside{
		panels: map[string][]*query{}, scalers: map[*node][]*query{}, selected: map[string]bool{}, words: map[string]bool{},
		rated: map[string][]*query{}, parts: map[string]map[string]bool{}, engines: map[string]bool{}, repeated: map[string]bool{}, apart: map[string]bool{},
		scrapes: scrapesIn(d.file.Data), vmRules: bytes.Contains(d.file.Data, []byte("kind: VMRule")),
	}
	for _, q := range d.queries {
		switch q.role {
		case panelRole:
			b.panels[panelPath(q.path)] = append(b.panels[panelPath(q.path)], q)
			for _, l := range labelsLegends.FindAllStringSubmatch(q.panel.legend, -1) {
				b.words[l[1]] = true
				if q.tree != nil && unaggregated(q.tree) {
					b.apart[l[1]] = true
				}
			}
		case alertRole:
			if q.tree != nil {
				b.alerts = append(b.alerts, q)
			}
		case scalerRole:
			b.scalers[q.object] = append(b.scalers[q.object], q)
		}
		for _, w := range word.FindAllString(q.node.value, -1) {
			b.words[w] = true
			b.selected[w] = b.selected[w] || q.role == variableRole
		}
		if q.tree != nil {
			b.add(q)
		}
	}
	return b
}

// add gathers what one expression selects and groups by.
func (b *beside) add(q *query) {
	parser.Inspect(q.tree, func(n parser.Node, path []parser.Node) error {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			for _, l := range n.Grouping {
				b.selected[l] = true
			}
		case *parser.VectorSelector:
			name := nameOf(n)
			if under(path, rates...) && len(b.rated[name]) < 2 && !slices.Contains(b.rated[name], q) {
				b.rated[name] = append(b.rated[name], q)
			}
			_, f := classOf(name)
			for _, m := range n.LabelMatchers {
				b.selected[m.Name] = true
				if b.parts[name] == nil {
					b.parts[name] = map[string]bool{}
				}
				b.parts[name][m.Name] = true
				if f.Engine != "" && m.Name != labels.MetricName {
					b.engines[m.String()] = true
				}
			}
		}
		return nil
	})
}

// mates are the queries of a query's panel, itself among them.
func (p *pass) mates() []*query {
	if p.role != panelRole {
		return nil
	}
	return p.beside.panels[panelPath(p.path)]
}

// repeats reports whether a panel or a row is drawn once for each of a variable's values.
func (p *pass) repeats(name string) bool {
	out, known := p.beside.repeated[name]
	if !known {
		out = regexp.MustCompile(`repeat\\?"?\s*:\s*\\?"?` + regexp.QuoteMeta(name) + `\b`).Match(p.file.Data)
		p.beside.repeated[name] = out
	}
	return out
}
