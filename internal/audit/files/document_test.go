package files

import (
	"errors"
	"testing"
)

func TestBadFilesAreRefusedWithTheirPlace(t *testing.T) {
	for _, tc := range []struct{ name, data, want string }{
		{"r.yaml", "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: {a: b}\n", "r.yaml:5:11: expr is a mapping, want a string"},
		{"r.yaml", "groups: {}\n", "r.yaml:1:9: groups is a mapping, want a list"},
		{"r.yaml", "groups:\n- name: g\n  rules: 5\n", "r.yaml:3:10: rules is a number or boolean, want a list"},
		{"r.yaml", "groups:\n- name: g\n  rules:\n  - alert: A\n", "r.yaml:4:5: a rule without expr"},
		{"r.yaml", "groups:\n- name: g\n  rules:\n  - expr: up\n", "r.yaml:4:5: a rule with neither alert nor record"},
		{"r.yaml", "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: up\n    for: soon\n", `r.yaml:6:10: for: "soon" is not a duration such as 5m`},
		{"r.yaml", "groups:\n- name: g\n  rules:\n  - alert: 7\n    expr: up\n", "r.yaml:4:12: alert is a number or boolean, want a string"},
		{"r.yaml", "a: [b\n", "r.yaml: not YAML: yaml: line 1: did not find expected ',' or ']'"},
		{"r.yaml", "a: b\n", "r.yaml: no rules in it"},
		{"r.yaml", "", "r.yaml: empty"},
		{"d.json", "{\n \"panels\": [}\n", "d.json:2:13: not JSON: invalid character '}' looking for beginning of value"},
		{"d.json", "{\"panels\": [", "d.json:1:13: not JSON: the file ends in the middle"},
		{"d.json", "{} {}", "d.json:1:5: not JSON: more than one value"},
		{"d.json", "{\"title\": \"x\"}", "d.json: no panel with a Prometheus query in it"},
		{"d.json", "[1]", "d.json:1:1: a dashboard is a list, want a mapping"},
		{"d.json", "{\"panels\": [{\"targets\": [{\"expr\": 5}]}]}", "d.json:1:35: expr is a number or boolean, want a string"},
		{"d.json", "<html>", "d.json:1:1: a dashboard is a string, want a mapping"},
		{"d.json", "\xff\xfe", "d.json: not UTF-8 text"},
	} {
		kind := Dashboards
		if tc.name == "r.yaml" {
			kind = Rules
		}
		if _, err := Read(tc.name, []byte(tc.data), kind); err == nil || err.Error() != tc.want {
			t.Errorf("%q: got %v, want %s", tc.data, err, tc.want)
		}
	}
	if _, err := Read("x.yaml", []byte("resources: [a, b]\n"), Either); !errors.Is(err, ErrUnrelated) {
		t.Errorf("a file of another kind: %v", err)
	}
}
