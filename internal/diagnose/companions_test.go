package diagnose

import (
	"maps"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
)

// TestCompanions lends GPUs to servers: those of an exporter on the same host, those that
// were read beside one server, or those of the only exporter of the only host.
func TestCompanions(t *testing.T) {
	exporter, _ := dialect.Detect([]string{"DCGM_FI_DEV_GPU_TEMP"})
	own, _ := dialect.Detect([]string{"DCGM_FI_DEV_GPU_TEMP", dialect.HostInfo})
	for name, tt := range map[string]struct {
		targets []string // those with "=" are exporters, those with "+" were read by sixty itself
		want    map[int]int
	}{
		"an exporter on each host":  {[]string{"a:8000", "b:8000", "=b:9400", "=a:9400"}, map[int]int{0: 3, 1: 2}},
		"the only exporter":         {[]string{"a:8000", "=x:9400"}, map[int]int{0: 1}},
		"of two hosts":              {[]string{"a:8000", "b:8000", "=x:9400"}, nil},
		"each its own":              {[]string{"+localhost:8000-gpus", "+localhost:8001-gpus", "localhost:8000", "localhost:8001"}, map[int]int{2: 0, 3: 1}},
		"one has none of its own":   {[]string{"+localhost:8000-gpus", "localhost:8000", "localhost:8001"}, map[int]int{1: 0}},
		"a remote server beside it": {[]string{"+localhost:8000-gpus", "localhost:8000", "remote:8000"}, map[int]int{1: 0}},
		"an exporter beside it":     {[]string{"+localhost:8000-gpus", "localhost:8000", "=localhost:9400"}, map[int]int{1: 2}},
		"an exporter of that name":  {[]string{"a:8000", "=a-gpus"}, map[int]int{0: 1}},
		"IPv6 hosts":                {[]string{"[::1]:8000", "[fd00::2]:8000", "=[fd00::2]:9400"}, map[int]int{1: 2}},
		"both models of one server": {[]string{"+a:8000-gpus", "a:8000", "a:8000"}, map[int]int{1: 0, 2: 0}},
	} {
		s := &Snapshot{}
		for _, instance := range tt.targets {
			target := identity.Target{Dialect: dialect.Dialect{Engine: dialect.VLLM}}
			switch instance[0] {
			case '=':
				instance, target.Dialect = instance[1:], exporter
			case '+':
				instance, target.Dialect = instance[1:], own
			}
			target.Labels = map[string]string{"instance": instance}
			s.Targets = append(s.Targets, target)
		}
		if got := s.companions(); !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
