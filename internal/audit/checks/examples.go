package checks

import "fmt"

// board is a dashboard of one panel, for examples; more is what its panel and itself have beside that.
func board(expr, panel, more string) string {
	if panel != "" {
		panel = ", " + panel
	}
	if more != "" {
		more = ", " + more
	}
	return fmt.Sprintf("{\n\"panels\": [{\"title\": \"A\", \"type\": \"timeseries\", \"targets\": [{\"refId\": \"A\", \"expr\": %q}]%s}]%s\n}\n", expr, panel, more)
}

// shownIn is a panel that shows a query in a unit, for examples.
func shownIn(unit, expr string) string {
	return board(expr, fmt.Sprintf(`"fieldConfig": {"defaults": {"unit": %q}}`, unit), "")
}

// alerting is a rule's alert, for examples; more are its other fields, a line each.
func alerting(expr, more string) string {
	return fmt.Sprintf("groups:\n- name: g\n  rules:\n  - alert: A\n    expr: %s\n%s\n", expr, more)
}

// scaling is a ScaledObject of KEDA, for examples.
func scaling(query, spec string) string {
	if spec == "" {
		spec = "  minReplicaCount: 1\n"
	}
	return fmt.Sprintf("kind: ScaledObject\nmetadata: {name: s}\nspec:\n  scaleTargetRef: {name: llm}\n%s  triggers:\n  - type: prometheus\n    metadata: {threshold: \"5\", query: '%s'}\n", spec, query)
}
