package files

import (
	"errors"
	"strings"
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
		{"d.json", "{\n \"panels\": [}\n", "d.json:2:13: not JSON: invalid character '}' looking for beginning of value"},
		{"d.json", "{\"panels\": [", "d.json:1:12: not JSON: unexpected end of JSON input"},
		{"d.json", "{} {}", "d.json:1:4: not JSON: invalid character '{' after top-level value"},
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

// TestLinesEndAsTheYAMLLibraryHasIt reads files whose lines end as only YAML has it.
func TestLinesEndAsTheYAMLLibraryHasIt(t *testing.T) {
	for name, data := range map[string]string{
		"carriage returns":      "groups:\r- name: g\r  rules:\r  - alert: A\r    expr: up == 0\r",
		"Unicode's line breaks": "groups:\n- name: \"a\u2028b\u2029c\u0085d\"\n  rules:\n  - alert: A\n    expr: up == 0\n",
	} {
		d, err := Read("r.yaml", []byte(data))
		if err != nil || len(d.Queries) != 1 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		line, column := d.Queries[0].Place(0)
		begin := strings.Join(strings.SplitAfter(data, "\n")[line-1:], "")
		if at := string([]rune(begin)[column-1:]); !strings.HasPrefix(at, "up == 0") {
			t.Errorf("%s: %d:%d is %q", name, line, column, at)
		}
	}
}
