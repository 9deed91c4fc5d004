package memoryleak

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"the API server leaks": {
			// 12137 B/s = 1 GiB a day; 2 GiB doubles in 2 days; 1214 B for each of 10 req/s.
			View: catalogtest.View{Present: catalogtest.Readings{indicator.MemoryGrowth: 1073741824.0 / 86400, indicator.ResidentMemory: 2147483648, indicator.CompletionRate: 10}},
			Want: []string{"the API server's memory grows by 1 GiB a day", "doubles from 2 GiB in 48 h", "1.21 KiB per request", "1.16 GiB per million requests"},
		},
		"the container leaks more than its API server": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.MemoryGrowth: 100, indicator.ContainerMemoryGrowth: 1e6, indicator.ContainerMemory: 1e10}},
			Want: []string{"the container's memory grows", "2.78 h"},
			Not:  []string{"per request"},
		},
	})
}
