package rooms

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// TestNoTestSleeps holds that tests wait for what happens (polltest, channels): on a busy machine
// no pause is long enough. In a bubble of virtual time (testing/synctest), and where a test sends
// or writes at a pace, time passes by <-time.After.
func TestNoTestSleeps(t *testing.T) {
	const pause = "time" + ".Sleep("
	for _, p := range list(t) {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go"))
		must.Succeed(t, err)
		for _, name := range files {
			text := must.ReadFile(t, name)
			if strings.Contains(string(text), pause) {
				t.Errorf("%s/%s has %s: wait with polltest; where time is to pass, by <-time.After", p.room(), filepath.Base(name), pause)
			}
		}
	}
}
