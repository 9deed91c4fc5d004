package generate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/rulefmt"
)

// Limits of those who take rules, as their sources and documents have them.
const (
	// UsualMaxRules is how many rules Mimir allows in a group unless told otherwise
	// (-ruler.max-rules-per-rule-group).
	UsualMaxRules = 20
	// MaxGroups is how many groups it allows a tenant (-ruler.max-rule-groups-per-tenant).
	MaxGroups = 70

	// maxObject keeps an object below the 262,144 bytes that kubectl apply has for the
	// object's JSON in an annotation, and below the 512 KiB that the operators of
	// Prometheus and VictoriaMetrics give a rule file in a ConfigMap. Escaped, the JSON is
	// up to a tenth longer than the YAML.
	maxObject = 220_000
)

// A RuleSet is what belongs into one object: the signals, the alerts of one objective.
type RuleSet struct {
	Name   string // in lower case, with hyphens
	Groups []rulefmt.RuleGroup
}

// AddTo adds groups to the set of a name.
func AddTo(sets []RuleSet, name string, groups ...rulefmt.RuleGroup) []RuleSet {
	i := slices.IndexFunc(sets, func(s RuleSet) bool { return s.Name == name })
	if i < 0 {
		i, sets = len(sets), append(sets, RuleSet{Name: name})
	}
	sets[i].Groups = append(sets[i].Groups, groups...)
	return sets
}

// Groups returns the groups of all sets.
func Groups(sets []RuleSet) (out []rulefmt.RuleGroup) {
	for _, s := range sets {
		out = append(out, s.Groups...)
	}
	return out
}

// Split divides groups that hold more than so many rules, 0 for any number, in order: rules
// that read what earlier ones record then read what the group before recorded last.
func Split(sets []RuleSet, most int) []RuleSet {
	out := slices.Clone(sets)
	for i := range out {
		var groups []rulefmt.RuleGroup
		for _, g := range out[i].Groups {
			groups = append(groups, chunks(g, most)...)
		}
		out[i].Groups = groups
	}
	return out
}

// chunks divides a group into such of about the same size.
func chunks(g rulefmt.RuleGroup, most int) []rulefmt.RuleGroup {
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

// Objects writes sets as one file each, where the format is one of Kubernetes, several
// where a set is too large for an object; in other formats as one file for all.
func Objects(sets []RuleSet, f Format, name, namespace string, labels map[string]string) ([]File, error) {
	if f != PrometheusRule && f != VMRule {
		content, err := Encode(Groups(sets), f, name, namespace, labels)
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

// SetName is what a set of some kind is called: in lower-case letters, digits and
// hyphens, as Kubernetes takes it for a name.
func SetName(kind, of string) string {
	words := strings.FieldsFunc(strings.ToLower(of), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9')
	})
	return strings.Join(append([]string{kind}, words...), "-")
}
