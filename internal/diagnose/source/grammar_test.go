package source

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestArgumentsAreTakenForWhatTheyAre(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "incident.tar.zst")
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	for _, tt := range []struct {
		name string
		args []string
		want Spec
		err  string
		hint bool
	}{
		{name: "servers", args: []string{"vllm-0:8000", "https://vllm-1"}, want: Spec{URLs: []string{"vllm-0:8000", "https://vllm-1"}}},
		{name: "a file", args: []string{file}, want: Spec{Recording: file}},
		{name: "a directory", args: []string{dir}, want: Spec{Recording: dir}},
		{name: "a Prometheus server", args: []string{"prometheus=http://p:9090"}, want: Spec{Prometheus: "http://p:9090"}},
		{name: "a file that is not there", args: []string{"missing.tar.zst"}, err: "missing.tar.zst: no such file", hint: true},
		{name: "a path that is not there", args: []string{"./missing"}, err: "./missing: no such file", hint: true},
		{name: "an absolute path that is not there", args: []string{"/var/missing*"}, err: "/var/missing*: no such file", hint: true},
		{name: "a URL with a file's ending", args: []string{"http://host/x.json"}, want: Spec{URLs: []string{"http://host/x.json"}}},
		{name: "two recordings", args: []string{file, dir}, err: "two recordings: " + file + " and " + dir, hint: true},
		{name: "two kinds", args: []string{file, "vllm-0:8000"}, err: errTwoSources.Error()},
		{name: "two Prometheus servers", args: []string{"prometheus=a", "prometheus=b"}, err: "two Prometheus servers", hint: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got Spec
			err := got.Add(tt.args...)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err || tt.hint != (hint.Of(err) != "") {
					t.Errorf("error %v, hint %q; want %s", err, hint.Of(err), tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want.URLs, got.URLs); err != nil || diff != "" || got.Recording != tt.want.Recording || got.Prometheus != tt.want.Prometheus {
				t.Errorf("%v: %+v, want %+v", err, got, tt.want)
			}
		})
	}
}
