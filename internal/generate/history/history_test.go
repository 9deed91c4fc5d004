package history

import (
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestStretchKeepsRates(t *testing.T) {
	c, err := Parse(fstest.MapFS{}, "every 30s for 2m\ngauge 1 2 3 4\nrate c_total 10x2,20\nrestart 2 1\n")
	must.Succeed(t, err)
	got := map[string]string{}
	for _, s := range c.Stretch(30*time.Second, 2).Series()[UsualInstance] {
		got[s.Name()] = fmt.Sprint(s.Values)
	}
	want := map[string]string{
		"up":      "[1 1 1 1 0 1 1]",
		"gauge":   "[1 1 2 2 NaN 4 4]",
		"c_total": "[0 0 300 600 NaN 600 1200]", // begins again after a scrape that failed
	}
	must.Equal(t, want, got)
}
