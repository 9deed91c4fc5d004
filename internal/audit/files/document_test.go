package files

import (
	"errors"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

func TestBadFilesAreRefusedWithTheirPlace(t *testing.T) {
	for _, tc := range []struct{ name, data, want string }{
		{"r.yaml", "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: {a: b}\n", "r.yaml: line 4: a rule without expr"},
		{"r.yaml", "groups: {}\n", "r.yaml: line 1: cannot unmarshal !!map into []files.group"},
		{"r.yaml", "groups:\n- name: g\n  rules: 5\n", "r.yaml: line 3: cannot unmarshal !!int `5` into []yaml.Node"},
		{"r.yaml", "groups:\n- name: g\n  rules:\n  - alert: A\n", "r.yaml: line 4: a rule without expr"},
		{"r.yaml", "groups:\n- name: g\n  rules:\n  - expr: up\n", "r.yaml: line 4: a rule with neither alert nor record"},
		{"r.yaml", "a: [b\n", "r.yaml: not YAML: yaml: line 1: did not find expected ',' or ']'"},
		{"r.yaml", "a: b\n", "r.yaml: neither rules nor a dashboard in it"},
		{"r.yaml", "", "r.yaml: empty"},
		{"d.json", "{\n \"panels\": [}\n", "d.json: line 2: not JSON: invalid character '}' looking for beginning of value"},
		{"d.json", "{\"panels\": [", "d.json: line 1: not JSON: unexpected end of JSON input"},
		{"d.json", "{} {}", "d.json: line 1: not JSON: invalid character '{' after top-level value"},
		{"d.json", "{\"title\": \"x\"}", "d.json: neither rules nor a dashboard in it"},
		{"d.json", "[1]", "d.json: neither rules nor a dashboard in it"},
		{"d.json", "<html>", "d.json: neither rules nor a dashboard in it"},
		{"d.json", "\xff\xfe", "d.json: not UTF-8 text"},
	} {
		if _, err := Read(tc.name, []byte(tc.data)); err == nil || err.Error() != tc.want {
			t.Errorf("%q: got %v, want %s", tc.data, err, tc.want)
		}
	}
	for _, other := range []string{"resources: [a, b]\n", "kind: ConfigMap\ndata:\n  rules.yaml: |\n    groups: []\n"} {
		if _, err := Read("x.yaml", []byte(other)); !errors.Is(err, ErrUnrelated) || !strings.Contains(hint.Of(err), "out of a ConfigMap") {
			t.Errorf("a file of another kind: %v", err)
		}
	}
}
