package diagnose

import (
	"maps"
	"testing"

	"github.com/sixty-dev/sixty/internal/dialect"
)

// TestCompanions lends GPUs to servers: those of an exporter on the same host, those that
// were read beside one server, or those of the only exporter of the only host.
func TestCompanions(t *testing.T) {
	for name, tt := range map[string]struct {
		targets []string // of which those with an "=" before them are exporters
		want    map[int]int
	}{
		"an exporter on each host":  {[]string{"a:8000", "b:8000", "=b:9400", "=a:9400"}, map[int]int{0: 3, 1: 2}},
		"the only exporter":         {[]string{"a:8000", "=x:9400"}, map[int]int{0: 1}},
		"of two hosts":              {[]string{"a:8000", "b:8000", "=x:9400"}, nil},
		"each its own":              {[]string{"=localhost:8000-gpus", "=localhost:8001-gpus", "localhost:8000", "localhost:8001"}, map[int]int{2: 0, 3: 1}},
		"one has none of its own":   {[]string{"=localhost:8000-gpus", "localhost:8000", "localhost:8001"}, map[int]int{1: 0}},
		"a remote server beside it": {[]string{"=localhost:8000-gpus", "localhost:8000", "remote:8000"}, map[int]int{1: 0}},
		"an exporter beside it":     {[]string{"=localhost:8000-gpus", "localhost:8000", "=localhost:9400"}, map[int]int{1: 2}},
		"IPv6 hosts":                {[]string{"[::1]:8000", "[fd00::2]:8000", "=[fd00::2]:9400"}, map[int]int{1: 2}},
		"both models of one server": {[]string{"=a:8000-gpus", "a:8000", "a:8000"}, map[int]int{1: 0, 2: 0}},
	} {
		s := &Snapshot{}
		for _, instance := range tt.targets {
			target := Target{Dialect: dialect.Dialect{Engine: dialect.VLLM}}
			if instance[0] == '=' {
				instance, target.Dialect.Engine = instance[1:], dialect.DCGM
			}
			target.Labels = map[string]string{"instance": instance}
			s.Targets = append(s.Targets, target)
		}
		if got := s.companions(); !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
