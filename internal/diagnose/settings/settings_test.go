package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
)

func TestPromised(t *testing.T) {
	file := filepath.Join(t.TempDir(), "slo.yaml")
	must.Succeed(t, os.WriteFile(file, []byte("objectives:\n- {model: llama, ttft_p95: 1s}\n"), 0o600))
	for name, tt := range map[string]struct {
		promised Promised
		model    string
		want     time.Duration
		wrong    string
	}{
		"nothing":                            {Promised{}, "llama", 0, ""},
		"the file":                           {Promised{File: file}, "llama", time.Second, ""},
		"the file before the use case":       {Promised{File: file, UseCase: "chat"}, "llama", time.Second, ""},
		"the use case where the file has no": {Promised{File: file, UseCase: "chat"}, "qwen", 500 * time.Millisecond, ""},
		"no objective for the model":         {Promised{File: file}, "qwen", 0, `no objective for model "qwen"`},
		"no such use case":                   {Promised{UseCase: "chess"}, "llama", 0, "--use-case"},
		"no such file":                       {Promised{File: file + "x"}, "llama", 0, "--slo"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := tt.promised.Objective(tt.model)
			switch {
			case tt.wrong != "":
				if err == nil || !strings.Contains(err.Error(), tt.wrong) {
					t.Errorf("error %v, want %q", err, tt.wrong)
				}
			case err != nil:
				t.Error(err)
			case (o != nil) != (tt.want > 0) || o != nil && o.TTFTP95 != tt.want:
				t.Errorf("got %+v, want a TTFT P95 of %s", o, tt.want)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	all := []*catalog.Pathology{{ID: "saturation"}}
	for want, f := range map[string]Flags{
		`--only: there is no pathology "saturated"`: {Only: []string{"saturated"}},
		"--set": {Set: []string{"nothing=1"}},
	} {
		if _, err := f.Read(all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", f, err, want)
		}
	}
	if s, err := (&Flags{Only: []string{"saturation"}}).Read(all); err != nil || len(s.Only) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}
