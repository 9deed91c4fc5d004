package audit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/hint"
)

// A File is a file as it was read.
type File struct {
	Name string
	Data []byte
	Kind FileKind

	// Remote says that the bytes are a server's rules, put into a file to be
	// read: lines mean nothing, and nothing can be repaired.
	Remote bool
}

// A FileKind says what the user takes a file for.
type FileKind string

// The kinds of files.
const (
	Rules      FileKind = "rules"
	Dashboards FileKind = "dashboards"
	Both       FileKind = "rules and dashboards" // in documents of their own
)

// role says what a query is for.
type role uint8

const (
	alertRole role = iota
	recordRole
	panelRole
	variableRole
	scalerRole // of an autoscaler
)

// A query is one expression of a file, with what surrounds it.
type query struct {
	file  *File
	node  *node  // the expression's string
	where string // for people: `alert HighTTFT`, `panel "TTFT", query A`
	path  string // JSON pointer
	role  role
	name  string // of the alert, the recorded series or the panel

	rule  *node // the rule's mapping, nil elsewhere
	hold  string
	every time.Duration // between evaluations, 0 where the group does not say
	panel *panelContext
	vars  map[string]variable

	scaler, object *node // the autoscaler's trigger, and the autoscaler
	adapter        *node // the rule of prometheus-adapter
	managed        *managedAlert

	parsed   string // what is parsed instead of the node's value, of the same length; "" for the value itself
	tree     parser.Expr
	mentions []mention
	err      error // of parsing

	quantities map[parser.Expr]quantity // of the expression's parts, as far as they were asked for
}

// panelContext is what a panel says about the values it shows.
type panelContext struct {
	title, kind, unit string
	unitNode          *node
	datasource        *node
	defaults          *node // of its fields: thresholds, the highest value
	overrides         *node // of the fields that are told by a query's name
	legend            string
	perses            bool

	node   *node  // what the panel's options and transformations stand in
	long   string // what it says at length, where that does not stand there
	target *node  // the query's: its format, whether it is instant
}

// A document is a file's queries.
type document struct {
	file    *File
	starts  []int
	queries []*query
}

// read parses a file and collects its queries. An error names the file and,
// where it can, the line and the column.
func read(f *File) (*document, error) {
	roots, err := parse(f.Data)
	if err != nil {
		return nil, inFile(f, err)
	}
	d := &document{file: f, starts: lineStarts(f.Data)}
	for i, root := range roots {
		path := ""
		if len(roots) > 1 {
			path = fmt.Sprintf("/%d", i)
		}
		switch f.Kind {
		case Rules:
			err = d.rules(root, path)
		case Both:
			before := len(d.queries)
			if err = d.rules(root, path); err == nil && len(d.queries) == before && root.kind == object {
				err = d.dashboard(root, path)
			}
		default:
			err = d.dashboard(root, path)
		}
		if err != nil {
			return nil, inFile(f, err)
		}
	}
	if !d.isWhat(f.Kind) {
		if f.Kind == Rules {
			return nil, hint.With(fmt.Errorf("%s: no rules in it", f.Name), "give a file with groups of rules, a PrometheusRule, VMRule or ScaledObject, or a ConfigMap of them; dashboards go with --dashboards")
		}
		return nil, hint.With(fmt.Errorf("%s: no panel with a Prometheus query in it", f.Name), "give a dashboard as Grafana or Perses exports it; rules go with --rules")
	}
	for _, q := range d.queries {
		q.file = f
		q.tree, q.mentions, q.err = standIn(cmp.Or(q.parsed, q.node.value))
	}
	return d, nil
}

// isWhat reports whether the queries are what the user takes the file for: a
// file of rules has no panels.
func (d *document) isWhat(kind FileKind) bool {
	return slices.ContainsFunc(d.queries, func(q *query) bool { return kind != Dashboards || q.role == panelRole })
}

// KindOf tells rules from dashboards by what a file holds; "" means neither. A
// file that cannot be parsed counts as rules, so that reading it says why.
func KindOf(data []byte) FileKind {
	roots, err := parse(data)
	if err != nil {
		return Rules
	}
	found := map[FileKind]bool{}
	for _, root := range roots {
		for _, kind := range []FileKind{Rules, Dashboards} {
			d := &document{file: &File{Data: data, Kind: kind}, starts: lineStarts(data)}
			if kind == Rules {
				err = d.rules(root, "")
			} else {
				err = d.dashboard(root, "")
			}
			if d.isWhat(kind) || err != nil && kind == Rules {
				found[kind] = true
				break
			}
		}
	}
	switch {
	case found[Rules] && found[Dashboards]:
		return Both
	case found[Rules]:
		return Rules
	case found[Dashboards]:
		return Dashboards
	}
	return ""
}

// IsTemplate reports whether a file has to be rendered before it can be read, as those
// of a chart have.
func IsTemplate(data []byte) bool {
	_, err := parse(data)
	return err != nil && bytes.Contains(data, []byte("{{"))
}

// inFile puts the file's name before an error, and keeps its hint.
func inFile(f *File, err error) error {
	var at *syntaxError
	if errors.As(err, &at) {
		return hint.With(fmt.Errorf("%s:%w", f.Name, err), hintOr(err, "correct the line, or leave the file out"))
	}
	return hint.With(fmt.Errorf("%s: %w", f.Name, err), hintOr(err, "check that it is the file you meant"))
}

func hintOr(err error, otherwise string) string {
	if h := hint.Of(err); h != "" {
		return h
	}
	return otherwise
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

func wrong(n *node, what string, want kind) error {
	return &syntaxError{n.line, n.column, fmt.Sprintf("%s is %s, want %s", what, n.kind, want)}
}

// rules finds groups of rules wherever they are: at the top of a Prometheus,
// Mimir or VictoriaMetrics file, in the spec of a custom resource, in a chart's
// values, and in the texts of a ConfigMap.
func (d *document) rules(n *node, path string) error {
	switch n.kind {
	case object:
		switch n.get("kind").str() {
		case "ConfigMap":
			return d.configMap(n, path)
		case "ScaledObject", "ScaledJob":
			d.scaler(n, path+"/spec/triggers")
			return nil
		}
		if n.get("seriesQuery") != nil {
			d.adapter(n, path)
			return nil
		}
		for _, f := range n.fields {
			p := path + "/" + escape(f.key)
			if f.key != "groups" {
				if err := d.rules(f.value, p); err != nil {
					return err
				}
				continue
			}
			if f.value.kind != list && f.value.kind != null {
				return wrong(f.value, "groups", list)
			}
			for i, g := range f.value.items {
				if err := d.group(g, fmt.Sprintf("%s/%d", p, i)); err != nil {
					return err
				}
			}
		}
	case list:
		for i, item := range n.items {
			if err := d.rules(item, fmt.Sprintf("%s/%d", path, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// scaler reads the queries by which KEDA's ScaledObject and ScaledJob scale
// (https://keda.sh/docs/latest/scalers/prometheus/).
func (d *document) scaler(n *node, path string) {
	name := n.at("metadata", "name").str()
	for i, t := range n.at("spec", "triggers").elements() {
		expr := t.at("metadata", "query")
		if t.get("type").str() != "prometheus" || strings.TrimSpace(expr.str()) == "" {
			continue
		}
		d.queries = append(d.queries, &query{
			node: expr, path: fmt.Sprintf("%s/%d/metadata/query", path, i), role: scalerRole, name: name,
			where: "scaler " + name, scaler: t, object: n,
		})
	}
}

// configMap reads the files inside a ConfigMap.
func (d *document) configMap(n *node, path string) error {
	data := n.get("data")
	if data == nil || data.kind != object {
		return nil
	}
	for _, f := range data.fields {
		if f.value.kind != text {
			continue
		}
		if err := d.embedded(f, path+"/data"); err != nil {
			return err
		}
	}
	return nil
}

// embedded reads the file inside a string. Its findings name the line where their
// expression stands, and nothing in it is repaired.
func (d *document) embedded(f field, path string) error {
	inner := &File{Name: f.key, Data: []byte(f.value.value), Kind: d.file.Kind}
	if inner.Kind == Both {
		if inner.Kind = KindOf(inner.Data); inner.Kind == "" {
			return nil
		}
	}
	sub, err := read(inner)
	if err != nil {
		var at *syntaxError
		if errors.As(err, &at) {
			return &syntaxError{f.value.line, f.value.column, fmt.Sprintf("data %s: %s", f.key, at.Error())}
		}
		return nil // of another kind
	}
	at, placed := f.value.source(d.file.Data)
	for _, q := range sub.queries {
		outer := &node{kind: text, value: q.node.value, offset: -1, line: f.value.line, column: f.value.column}
		if placed && q.node.offset >= 0 && q.node.offset < len(at) {
			outer.line, outer.column = position(d.file.Data, d.starts, at[q.node.offset])
		}
		q.path, q.node = path+"/"+escape(f.key)+"#"+q.path, outer
		if q.panel != nil {
			q.panel.unitNode = nil
		}
		d.queries = append(d.queries, q)
	}
	return nil
}

func (d *document) group(g *node, path string) error {
	if g.kind != object {
		return wrong(g, "a group of rules", object)
	}
	rules := g.get("rules")
	if rules == nil || rules.kind == null {
		return nil
	}
	if rules.kind != list {
		return wrong(rules, "rules", list)
	}
	before := len(d.queries)
	for i, r := range rules.items {
		if err := d.rule(r, fmt.Sprintf("%s/rules/%d", path, i)); err != nil {
			return err
		}
	}
	every, _ := model.ParseDuration(g.get("interval").scalar())
	for _, q := range d.queries[before:] {
		q.every = time.Duration(every)
	}
	return nil
}

func (d *document) rule(r *node, path string) error {
	if r.kind != object {
		return wrong(r, "a rule", object)
	}
	expr := r.get("expr")
	if expr == nil {
		if r.get("data") != nil {
			return d.managed(r, path)
		}
		return &syntaxError{r.line, r.column, "a rule without expr"}
	}
	if expr.kind != text && expr.kind != other {
		return wrong(expr, "expr", text)
	}
	for _, key := range []string{"alert", "record", "for"} {
		if v := r.get(key); v != nil && v.kind != text && (v.kind != other || key != "for") {
			return wrong(v, key, text)
		}
	}
	q := &query{node: expr, path: path + "/expr", rule: r, hold: r.get("for").scalar()}
	if v := r.get("for"); v != nil {
		if _, err := model.ParseDuration(q.hold); err != nil {
			return &syntaxError{v.line, v.column, fmt.Sprintf("for: %q is not a duration such as 5m", q.hold)}
		}
	}
	switch {
	case r.get("alert") != nil:
		q.role, q.name = alertRole, r.get("alert").str()
		q.where = "alert " + q.name
	case r.get("record") != nil:
		q.role, q.name = recordRole, r.get("record").str()
		q.where = "recording rule " + q.name
	default:
		return &syntaxError{r.line, r.column, "a rule with neither alert nor record"}
	}
	d.queries = append(d.queries, q)
	return nil
}

// dashboard reads a dashboard of Grafana (classic and with schema v2, alone or
// as the API returns it) or of Perses, or a ConfigMap of dashboards.
func (d *document) dashboard(n *node, path string) error {
	if n.kind != object {
		return wrong(n, "a dashboard", object)
	}
	if n.get("kind").str() == "ConfigMap" {
		return d.configMap(n, path)
	}
	vars := variablesOf(n)
	d.variables(n, path, vars)
	return d.dashboardNode(n, path, nil, vars)
}

// variables adds what a dashboard's variables ask for: where that is gone, the
// whole dashboard stays empty.
func (d *document) variables(n *node, path string, vars map[string]variable) {
	for _, under := range []string{"", "dashboard", "spec"} {
		root, base := n, path
		if under != "" {
			root, base = n.get(under), path+"/"+under
		}
		if list := root.at("templating", "list"); list != nil {
			for i, v := range list.items {
				if isOther(v.get("datasource"), vars) {
					continue
				}
				text, at := v.get("query"), fmt.Sprintf("%s/templating/list/%d/query", base, i)
				if text.get("query") != nil {
					text, at = text.get("query"), at+"/query"
				}
				d.variable(v.get("name").str(), text, at, vars)
			}
		}
		if list := root.get("variables"); list != nil {
			for i, v := range list.items {
				spec := v.at("spec", "plugin", "spec")
				for k, m := range spec.get("matchers").elements() {
					d.variable(v.at("spec", "name").str(), m, fmt.Sprintf("%s/variables/%d/spec/plugin/spec/matchers/%d", base, i,
						k), vars)
				}
			}
		}
	}
}

// elements returns a list's items, none of a nil node.
func (n *node) elements() []*node {
	if n == nil {
		return nil
	}
	return n.items
}

// variable adds one variable's query: a selector, or Grafana's label_values and
// query_result around one. Its own functions are blanked out, so that the rest
// is PromQL at the same place.
func (d *document) variable(name string, text *node, path string, vars map[string]variable) {
	q := &query{node: text, path: path, role: variableRole, name: name, where: "variable " + name, vars: vars}
	switch value := text.str(); {
	case strings.HasPrefix(value, "label_values("):
		comma, end := strings.LastIndexByte(value, ','), strings.LastIndexByte(value, ')')
		if comma < 0 || end < comma || strings.ContainsAny(value[comma:end], "{}[]\"") {
			return // of all series
		}
		inner := value[len("label_values("):comma]
		q.parsed = "absent      (" + inner + strings.Repeat(" ", end-comma) + ")" + strings.Repeat(" ", len(value)-end-1)
	case strings.HasPrefix(value, "query_result("):
		q.parsed = strings.Repeat(" ", len("query_result")) + value[len("query_result"):]
	case strings.HasSuffix(path, "/query") || value == "":
		return // a list of values, another plugin's words
	}
	d.queries = append(d.queries, q)
}

// variablesOf collects the variables that a dashboard declares.
func variablesOf(n *node) map[string]variable {
	out := map[string]variable{}
	for _, root := range []*node{n, n.get("dashboard"), n.get("spec")} {
		for _, in := range root.get("__inputs").elements() {
			name := in.get("name").str()
			out[name] = variable{name: name, plugin: in.get("pluginId").str()}
		}
		if list := root.at("templating", "list"); list != nil {
			for _, v := range list.items {
				name := v.get("name").str()
				out[name] = variable{
					name: name, kind: v.get("type").str(), node: v.get("name"), all: v.get("allValue"),
					silent: v.get("definition").str() != "" && (v.get("query") == nil || v.get("query").kind == null || v.get("query").kind == text && v.get("query").value == ""),
					multi:  v.get("multi").scalar() == "true" || v.get("includeAll").scalar() == "true",
				}
				if v.get("hide").scalar() == "2" { // nobody chooses it
					out[name] = variable{name: name, multi: out[name].multi}
				}
				if m := labelValues.FindStringSubmatch(v.get("query").str() + v.at("query", "query").str()); m != nil && v.get("regex").str() == "" {
					x := out[name]
					x.label = m[1]
					out[name] = x
				}
				if v.get("type").str() == "datasource" {
					out[name] = variable{name: name, plugin: v.get("query").str()}
				}
			}
		}
		if vars := root.get("variables"); vars != nil {
			for _, v := range vars.items {
				spec := v.get("spec")
				name := spec.get("name").str()
				multi := false
				for _, key := range []string{"allowMultiple", "allowAllValue", "multi", "includeAll"} {
					multi = multi || spec.get(key).scalar() == "true"
				}
				out[name] = variable{name: name, multi: multi}
				if plugin := spec.at("plugin", "kind").str(); plugin != "" && spec.at("display", "hidden").scalar() != "true" { // Perses'
					out[name] = variable{name: name, kind: persesVariables[plugin], multi: multi, node: spec.get("name")}
				}
			}
		}
	}
	return out
}

// persesVariables are Grafana's kinds of variables by the plugins of Perses'.
var persesVariables = map[string]string{
	"PrometheusLabelValuesVariable": "query", "PrometheusLabelNamesVariable": "query", "PrometheusPromQLVariable": "query",
	"StaticListVariable": "custom",
}

// dashboardNode walks a dashboard, whatever its nesting: rows, rows in panels,
// panels by name. panel is the panel that surrounds the node.
func (d *document) dashboardNode(n *node, path string, panel *panelContext, vars map[string]variable) error {
	switch n.kind {
	case list:
		for i, item := range n.items {
			if err := d.dashboardNode(item, fmt.Sprintf("%s/%d", path, i), panel, vars); err != nil {
				return err
			}
		}
	case object:
		if n.get("kind").str() == "ConfigMap" {
			return d.configMap(n, path)
		}
		if p := panelOf(n); p != nil {
			panel = p
		}
		if isOtherQuery(n) {
			return nil
		}
		if err := d.target(n, path, panel, vars); err != nil {
			return err
		}
		for _, f := range n.fields {
			if holdsBoard(f) {
				if err := d.embedded(f, path); err != nil {
					return err
				}
				continue
			}
			if err := d.dashboardNode(f.value, path+"/"+escape(f.key), panel, vars); err != nil {
				return err
			}
		}
	}
	return nil
}

// panelOf returns what a panel says of its values, nil where the node is none.
func panelOf(n *node) *panelContext {
	if n.get("kind").str() == "Panel" { // Perses, and Grafana's schema v2
		spec := n.get("spec")
		p := &panelContext{title: spec.at("display", "name").str(), kind: spec.at("plugin", "kind").str(), perses: true}
		p.unitNode = spec.at("plugin", "spec", "format", "unit")
		if p.unitNode == nil {
			p.unitNode = spec.at("plugin", "spec", "yAxis", "format", "unit")
		}
		p.node, p.long = spec.at("plugin", "spec"), spec.at("display", "description").str()+spec.get("description").str()
		if title := spec.get("title"); title != nil {
			p.node = spec.at("vizConfig", "spec")
			p.title, p.kind, p.perses = title.str(), spec.at("vizConfig", "kind").str(), false
			p.unitNode = spec.at("vizConfig", "spec", "fieldConfig", "defaults", "unit")
			p.defaults = spec.at("vizConfig", "spec", "fieldConfig", "defaults")
			p.overrides = spec.at("vizConfig", "spec", "fieldConfig", "overrides")
		}
		p.unit = p.unitNode.str()
		return p
	}
	if n.get("targets") == nil || n.get("targets").kind != list {
		return nil
	}
	p := &panelContext{
		title: n.get("title").str(), kind: n.get("type").str(),
		unitNode: n.at("fieldConfig", "defaults", "unit"), datasource: n.get("datasource"),
		defaults: n.at("fieldConfig", "defaults"), overrides: n.at("fieldConfig", "overrides"), node: n,
	}
	if p.unitNode == nil { // the graph panel of old
		if axes := n.get("yaxes"); axes != nil && len(axes.items) > 0 {
			p.unitNode = axes.items[0].get("format")
		}
	}
	if p.unitNode == nil {
		p.unitNode = n.get("format")
	}
	p.unit = p.unitNode.str()
	return p
}

// override applies what a panel says of the fields of one query, by the query's letter or by
// the name that its legend gives them: their unit, steps and highest value. Where a name
// with labels in it may be meant, nothing is known of the unit.
func (c *panelContext) override(refID string) {
	for _, o := range c.overrides.elements() {
		option, applies, unsure := o.at("matcher", "options").str(), false, strings.Contains(c.legend, "{{")
		switch o.at("matcher", "id").str() {
		case "byFrameRefID":
			applies, unsure = option == refID, false
		case "byName":
			applies = option == c.legend || unsure
		case "byRegexp":
			re, err := regexp.Compile(strings.Trim(option, "/"))
			applies = err != nil || re.MatchString(c.legend) || unsure
		}
		for _, property := range o.get("properties").elements() {
			id := property.get("id").str()
			if !applies || id != "unit" && id != "max" && id != "thresholds" {
				continue
			}
			c.defaults = nil
			if id == "unit" {
				c.unitNode, c.unit = property.get("value"), property.get("value").str()
				if unsure {
					c.unitNode, c.unit = nil, "unknown"
				}
			}
		}
	}
}

// isOther reports whether a datasource speaks another language than PromQL, by its
// plugin: its own, that of the variable or input that it names, or else by its name.
// What is not known is taken for Prometheus'.
func isOther(source *node, vars map[string]variable) bool {
	plugin := source.get("type").str()
	name := source.str()
	if source != nil && source.kind == object {
		name = source.get("uid").str()
	}
	if v := strings.Trim(name, "${}[]"); v != name && vars[v].plugin != "" {
		plugin = vars[v].plugin
	}
	if plugin == "" {
		plugin = strings.ToLower(name)
		return slices.ContainsFunc(otherLanguages, func(l string) bool { return strings.Contains(plugin, l) })
	}
	return isOtherPlugin(plugin)
}

// otherLanguages are the datasources that are told by name alone.
var otherLanguages = []string{
	"loki", "tempo", "elasticsearch", "opensearch", "influxdb", "cloudwatch", "graphite",
	"clickhouse", "__expr__",
}

// isOtherPlugin reports whether a plugin's queries are no PromQL. "datasource" stands
// for mixed ones, whose queries name their own.
func isOtherPlugin(plugin string) bool {
	return !strings.Contains(plugin, "prometheus") && plugin != "victoriametrics-metrics-datasource" &&
		plugin != "datasource" && !strings.HasPrefix(plugin, "$")
}

// isOtherQuery reports whether a node is a query of Grafana's schema v2 in another
// language: {"kind": "loki"}, and later {"kind": "DataQuery", "group": "loki"}.
func isOtherQuery(n *node) bool {
	kind := n.get("kind").str()
	return slices.Contains(otherLanguages, kind) || kind == "DataQuery" && n.get("group").str() != "" &&
		isOtherPlugin(n.get("group").str())
}

// holdsBoard reports whether a field is a dashboard written into a string, as in the
// objects of Grafana's operator and in the values of charts.
func holdsBoard(f field) bool {
	if f.value.kind != text || f.key != "json" && !strings.HasSuffix(f.key, ".json") ||
		!strings.HasPrefix(strings.TrimSpace(f.value.value), "{") {
		return false
	}
	return slices.ContainsFunc([]string{`"panels"`, `"rows"`, `"elements"`},
		func(key string) bool { return strings.Contains(f.value.value, key) })
}

// target adds the query that a node holds, if it holds one.
func (d *document) target(n *node, path string, panel *panelContext, vars map[string]variable) error {
	source := n.get("datasource")
	if source == nil && panel != nil {
		source = panel.datasource
	}
	if isOther(source, vars) || isOther(n.get("datasourceUid"), vars) {
		return nil
	}
	expr, key := n.get("expr"), "expr"
	if n.get("kind").str() == "PrometheusTimeSeriesQuery" {
		expr, key, n, path = n.at("spec", "query"), "query", n.get("spec"), path+"/spec"
	}
	if expr == nil {
		return nil
	}
	if expr.kind != text {
		if expr.kind == null {
			return nil
		}
		return wrong(expr, key, text)
	}
	if strings.TrimSpace(expr.value) == "" {
		return nil
	}
	q := &query{node: expr, path: path + "/" + key, role: panelRole, vars: vars, panel: &panelContext{}}
	if panel == nil {
		q.role, q.name, q.where = variableRole, n.get("name").str(), "annotation or variable "+n.get("name").str()
	} else {
		copied := *panel
		copied.legend, copied.target = n.get("legendFormat").str()+n.get("seriesNameFormat").str(), n
		copied.override(n.get("refId").str())
		if name := copied.column(n.get("refId").str()); name != "" {
			copied.legend = name
		}
		q.panel, q.name = &copied, panel.title
		q.where = fmt.Sprintf("panel %q", panel.title)
		if id := n.get("refId").str(); id != "" {
			q.where += ", query " + id
		}
	}
	d.queries = append(d.queries, q)
	return nil
}
