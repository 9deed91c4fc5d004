package audit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/hint"
)

// patterns are what only =~ understands.
var patterns = regexp.MustCompile(`\.[*+]|^[^{}\s]*\w\|\w|^[1-5]\.\.$|^[1-5]\[0-9\]`)

// closed are the values of labels that have no others.
var closed = map[string]struct {
	metrics *regexp.Regexp
	values  []string
}{
	"mode":        {regexp.MustCompile(`^node_cpu_seconds_total$`), []string{"idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user"}},
	"phase":       {regexp.MustCompile(`^kube_pod_status_phase$`), []string{"Pending", "Running", "Succeeded", "Failed", "Unknown"}},
	"condition":   {regexp.MustCompile(`^kube_pod_status_(ready|scheduled)$`), []string{"true", "false", "unknown"}},
	"sleep_state": {regexp.MustCompile(`vllm:engine_sleep_state$`), []string{"awake", "weights_offloaded", "discard_all"}},
}

// checkNoMatch finds selectors that select nothing, whatever there is.
func checkNoMatch(p *pass) {
	for _, v := range selectors(p.tree) {
		for i, m := range v.LabelMatchers {
			if strings.ContainsAny(m.Value, "$[") && strings.Contains(m.Value, "$") || strings.Contains(m.Value, "[[") {
				continue
			}
			switch {
			case m.Type == labels.MatchEqual && patterns.MatchString(m.Value):
				p.report(v.PositionRange(), fmt.Sprintf("= takes %q as it stands, not as a pattern: nothing is selected", m.Value),
					suggestion{"write " + m.Name + "=~", p.operatorEdit(v, m.Name, "=~")})
				return
			case m.Type == labels.MatchNotEqual && patterns.MatchString(m.Value):
				p.report(v.PositionRange(), fmt.Sprintf("!= takes %q as it stands, not as a pattern: nothing is left out", m.Value),
					suggestion{"write " + m.Name + "!~", p.operatorEdit(v, m.Name, "!~")})
				return
			}
			if c, ok := closed[m.Name]; ok && c.metrics.MatchString(nameOf(v)) && !m.Matches("") &&
				!slices.ContainsFunc(c.values, m.Matches) {
				p.report(v.PositionRange(), fmt.Sprintf("%s of %s is one of %s: nothing is selected", m.Name, nameOf(v), strings.Join(c.values, ", ")),
					advice("write one of them"))
				return
			}
			for _, o := range v.LabelMatchers[:i] {
				if o.Name == m.Name && o.Name != labels.MetricName && !strings.Contains(o.Value, "$") && excludes(o, m) {
					p.report(v.PositionRange(), fmt.Sprintf("no series has both %s and %s: nothing is selected", o, m),
						advice("take one of them out, or write =~ with both"))
					return
				}
			}
		}
	}
}

// excludes reports whether no value satisfies two matchers, as far as one of them names its value.
func excludes(a, b *labels.Matcher) bool {
	return a.Type == labels.MatchEqual && !b.Matches(a.Value) || b.Type == labels.MatchEqual && !a.Matches(b.Value)
}

// operatorEdit is the edit that gives a matcher another operator.
func (p *pass) operatorEdit(v *parser.VectorSelector, label, to string) []edit {
	items := p.tokens(v.PosRange.Start, v.PosRange.End)
	for i := 0; i+2 < len(items); i++ {
		if items[i].Val == label && items[i+2].Typ == parser.STRING {
			return []edit{{p.node, int(items[i+1].Pos), int(items[i+1].Pos) + len(items[i+1].Val), to}}
		}
	}
	return nil
}

// kindsOfLabels are labels whose values have nothing in common with those of another kind.
var kindsOfLabels = map[string]string{
	"model_name": "models", "served_model_name": "models", "instance": "addresses", "pod": "pods", "namespace": "namespaces", "job": "jobs",
	"exported_pod": "pods", "exported_namespace": "namespaces", "kubernetes_namespace": "namespaces", "kubernetes_pod_name": "pods",
	"UUID": "GPUs' identities", "mountpoint": "places in the file system",
}

// labelValues is a variable's query for the values of a label.
var labelValues = regexp.MustCompile(`^\s*label_values\((?:.*,)?\s*(\w+)\s*\)\s*$`)

// checkOtherLabel finds variables that stand for the values of one label behind another one.
func checkOtherLabel(p *pass) {
	if p.role != panelRole && p.role != variableRole {
		return
	}
	for _, v := range selectors(p.tree) {
		for _, m := range v.LabelMatchers {
			found := mentioned.FindStringSubmatch(m.Value)
			if found == nil || found[0] != m.Value {
				continue
			}
			x := p.vars[found[1]+found[2]+found[3]]
			is, of := kindsOfLabels[m.Name], kindsOfLabels[x.label]
			if is != "" && of != "" && is != of {
				p.report(v.PositionRange(), fmt.Sprintf("$%s stands for %s, by its own query, and %s holds %s: nothing is selected", x.name, of, m.Name, is),
					advice("take the variable for "+m.Name+", or the label "+x.label))
				return
			}
		}
	}
}

// ofTheTarget are labels that scrapers give, whatever is scraped, which are often written wrongly.
var ofTheTarget = []string{"instance", "namespace", "container", "cluster", "model_name"}

// misspelledLabel returns the label that a series has, or every target does, and that another one differs
// from by one character; "" where there is none.
func (p *pass) misspelledLabel(name, label string) string {
	const long = 4
	if len(label) < long || slices.Contains(ofTheTarget, label) || isLabel(label) {
		return ""
	}
	_, f := classOf(name)
	if f.Name == "" && p.records[name] == nil {
		f, _ = dialect.Known(name)
	}
	for _, l := range append(slices.Clone(f.Labels), ofTheTarget...) {
		if l != "*" && len(l) >= long && hint.Distance(label, l, 2) < 2 && label != l+"s" && l != label+"s" && label != l {
			return l
		}
	}
	return ""
}

// isLabel reports whether some family that is known has a label of this name.
func isLabel(label string) bool {
	has := func(ls []string) bool { return slices.Contains(ls, label) }
	for _, f := range dialect.Families() {
		if has(f.Labels) {
			return true
		}
	}
	for _, f := range exporters() {
		if has(f.Labels) {
			return true
		}
	}
	return false
}

// exclusive are labels that one kind of program gives its series, and no scraper: behind another's
// name they select nothing. They are own labels of the families in the tables.
var exclusive = []string{"mode", "mountpoint", "fstype", "finished_reason", "sleep_state", "UUID", "modelName", "transfer_type", "resource", "condition", "err_code", "err_msg"}

// lacksLabel reports whether a series, of which all own labels are known, lacks one that only another
// program's have.
func (p *pass) lacksLabel(name, label string) bool {
	_, f := classOf(name)
	switch {
	case !slices.Contains(exclusive, label) || slices.Contains(f.Labels, label) || slices.Contains(f.Labels, "*"):
		return false
	case strings.HasPrefix(name, "DCGM_FI_"):
		return label != "UUID" && label != "modelName" && (name != xidErrors || !strings.HasPrefix(label, "err_"))
	}
	return f.Name != "" && !p.surface.Live
}
