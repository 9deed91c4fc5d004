package generate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/rulefmt"
)

// Limits of the systems that load rules, from their sources and documents.
const (
	// UsualMaxRules is Mimir's default limit of rules in a group (-ruler.max-rules-per-rule-group).
	UsualMaxRules = 20
	// MaxGroups is Mimir's default limit of groups of a tenant (-ruler.max-rule-groups-per-tenant).
	MaxGroups = 70

	// maxObject keeps an object below two limits: the 262,144 bytes in which kubectl apply stores the object's JSON
	// as an annotation, and the 512 KiB of a ConfigMap in which the operators of Prometheus and VictoriaMetrics store
	// a rule file. Escaped, the JSON is up to a tenth longer than the YAML.
	maxObject = 220_000
)

// A RuleSet holds the groups of one object: the signals, or the alerts of one objective.
type RuleSet struct {
	Name   string // in lower case, with hyphens
	Groups []rulefmt.RuleGroup
}

// AddTo adds groups to the set with a name, and creates the set if necessary.
func AddTo(sets []RuleSet, name string, groups ...rulefmt.RuleGroup) []RuleSet {
	i := slices.IndexFunc(sets, func(s RuleSet) bool { return s.Name == name })
	if i < 0 {
		i, sets = len(sets), append(sets, RuleSet{Name: name})
	}
	sets[i].Groups = append(sets[i].Groups, groups...)
	return sets
}

// JoinGroups returns the groups of all sets in one list.
func JoinGroups(sets []RuleSet) (out []rulefmt.RuleGroup) {
	for _, s := range sets {
		out = append(out, s.Groups...)
	}
	return out
}

// Split divides groups that hold more than most rules; 0 means no limit. It keeps the order. A rule that reads a
// series of an earlier group then reads the sample of the previous evaluation.
func Split(sets []RuleSet, most int) []RuleSet {
	out := slices.Clone(sets)
	for i := range out {
		var groups []rulefmt.RuleGroup
		for _, g := range out[i].Groups {
			groups = append(groups, splitGroup(g, most)...)
		}
		out[i].Groups = groups
	}
	return out
}

// splitGroup divides a group into parts of about the same size.
func splitGroup(g rulefmt.RuleGroup, most int) []rulefmt.RuleGroup {
	if most <= 0 || len(g.Rules) <= most {
		return []rulefmt.RuleGroup{g}
	}
	n := (len(g.Rules) + most - 1) / most
	var out []rulefmt.RuleGroup
	for rules := range slices.Chunk(g.Rules, (len(g.Rules)+n-1)/n) {
		chunk := g
		chunk.Rules = rules
		if len(out) > 0 {
			chunk.Name = fmt.Sprintf("%s-%d", g.Name, len(out)+1)
		}
		out = append(out, chunk)
	}
	return out
}

// Objects writes rule sets as files. The formats of Kubernetes get one file for each set, or several if the set is
// too large for an object. Grafana's alerts get a file of their own. Other formats get one file for all sets.
func Objects(sets []RuleSet, f Format, name, namespace string, labels map[string]string) ([]File, error) {
	if f == Grafana {
		records, alerts := divideForGrafana(JoinGroups(sets))
		recording, err := Encode(records, Plain, name, namespace, labels)
		if err != nil {
			return nil, err
		}
		managed, err := YAML("", alerts)
		return []File{{"rules.yaml", recording}, {"grafana-alerts.yaml", managed}}, err
	}
	if f != PrometheusRule && f != VMRule {
		content, err := Encode(JoinGroups(sets), f, name, namespace, labels)
		return []File{{"rules.yaml", content}}, err
	}
	var out []File
	for _, s := range sets {
		rest, n := s.Groups, 1
		for len(rest) > 0 {
			take := len(rest)
			object := s.Name
			if n > 1 {
				object = fmt.Sprintf("%s-%d", s.Name, n)
			}
			var content []byte
			for ; ; take-- {
				var err error
				if content, err = Encode(rest[:take], f, name+"-"+object, namespace, labels); err != nil {
					return nil, err
				}
				if len(content) <= maxObject || take == 1 {
					break
				}
			}
			out = append(out, File{"rules-" + object + ".yaml", content})
			rest, n = rest[take:], n+1
		}
	}
	return out, nil
}

// Kustomization lists the objects for kubectl apply -k.
func Kustomization(objects []File) (File, error) {
	var doc struct {
		APIVersion string   `yaml:"apiVersion"`
		Kind       string   `yaml:"kind"`
		Resources  []string `yaml:"resources"`
	}
	doc.APIVersion, doc.Kind = "kustomize.config.k8s.io/v1beta1", "Kustomization"
	for _, f := range objects {
		doc.Resources = append(doc.Resources, f.Path)
	}
	content, err := YAML("", doc)
	return File{"kustomization.yaml", content}, err
}

// SetName returns the name of a set in lower-case letters, digits and hyphens, as Kubernetes requires.
func SetName(kind, subject string) string {
	words := strings.FieldsFunc(strings.ToLower(subject), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9')
	})
	return strings.Join(append([]string{kind}, words...), "-")
}
