package rooms

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// TestNoTestSleeps holds that tests wait for events (polltest, channels): on a busy machine no pause is long enough. In
// virtual time (testing/synctest), and if a test sends or writes at a rate, it may wait with <-time.After.
func TestNoTestSleeps(t *testing.T) {
	const pause = "time" + ".Sleep("
	for _, p := range list(t) {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go"))
		must.Succeed(t, err)
		for _, name := range files {
			text := must.ReadFile(t, name)
			if strings.Contains(string(text), pause) {
				t.Errorf("%s/%s has %s: wait with polltest; to let time pass, with <-time.After", p.room(),
					filepath.Base(name), pause)
			}
		}
	}
}
