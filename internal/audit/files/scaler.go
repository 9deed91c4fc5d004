package files

import (
	"slices"

	yaml "go.yaml.in/yaml/v3"
)

// addScaler adds the Prometheus triggers of KEDA's ScaledObject or ScaledJob
// (https://keda.sh/docs/latest/scalers/prometheus/).
func (d *Document) addScaler(n *yaml.Node) error {
	type trigger struct {
		Type     string
		Metadata struct{ Query yaml.Node }
	}
	var s struct {
		Metadata struct{ Name string }
		Spec     struct{ Triggers []trigger }
	}
	if err := n.Decode(&s); err != nil {
		return err
	}
	name, isOther := s.Metadata.Name, func(t trigger) bool { return t.Type != "prometheus" }
	all := !slices.ContainsFunc(s.Spec.Triggers, isOther)
	for _, t := range s.Spec.Triggers {
		if !isOther(t) {
			d.addText(&Query{Role: Scaler, Name: name, Where: "scaler " + name, AllPrometheus: all}, &t.Metadata.Query)
		}
	}
	return nil
}
