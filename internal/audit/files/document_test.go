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
		{"r.yaml", "groups:\n- name: g\n  rules:\n  - alert: 7\n    expr: up\n", "r.yaml:4:12: alert is a number or boolean, want a string"},
		{"r.yaml", "a: [b\n", "r.yaml: not YAML: yaml: line 1: did not find expected ',' or ']'"},
		{"r.yaml", "a: b\n", "r.yaml: neither rules nor a dashboard in it"},
		{"r.yaml", "", "r.yaml: empty"},
		{"d.json", "{\n \"panels\": [}\n", "d.json: line 2: not JSON: invalid character '}' looking for beginning of value"},
		{"d.json", "{\"panels\": [", "d.json: line 1: not JSON: unexpected end of JSON input"},
		{"d.json", "{} {}", "d.json: line 1: not JSON: invalid character '{' after top-level value"},
		{"d.json", "{\"title\": \"x\"}", "d.json: neither rules nor a dashboard in it"},
		{"d.json", "[1]", "d.json: neither rules nor a dashboard in it"},
		{"d.json", "{\"panels\": [{\"targets\": [{\"expr\": \"up\"}, {\"expr\": 5}]}]}", "d.json:1:51: expr is a number or boolean, want a string"},
		{"d.json", "<html>", "d.json: neither rules nor a dashboard in it"},
		{"d.json", "\xff\xfe", "d.json: not UTF-8 text"},
	} {
		if _, err := Read(tc.name, []byte(tc.data)); err == nil || err.Error() != tc.want {
			t.Errorf("%q: got %v, want %s", tc.data, err, tc.want)
		}
	}
	if _, err := Read("x.yaml", []byte("resources: [a, b]\n")); !errors.Is(err, ErrUnrelated) {
		t.Errorf("a file of another kind: %v", err)
	}
}
