package gputhrottling

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A GPU that was throttled all the time runs at the highest clock that was seen of it:
// the text says what is known and does not contradict itself.
func TestSummarySaysWhatIsKnown(t *testing.T) {
	for _, test := range []struct {
		name          string
		readings      catalogtest.Readings
		says, neither string
	}{
		{"throttled all along", catalogtest.Readings{indicator.ThermalReason: 1, indicator.SMClockRatio: 1, indicator.SMClock: 570}, "The driver reports that the GPU lowers its clocks because of temperature", "100 %"},
		{"seen to fall", catalogtest.Readings{indicator.ThermalReason: 1, indicator.SMClockRatio: 0.4, indicator.SMClock: 570}, "the SM clock is at 40 % of the highest seen", "is not known"},
		{"no clock", catalogtest.Readings{indicator.PowerReason: 1}, "because of a hardware slowdown or power brake", "highest"},
	} {
		pass := catalogtest.Refine(t, Pathology, catalogtest.View{Present: test.readings}, "")
		text := pass.Summary + " " + strings.Join(pass.Reasons, " ")
		if !strings.Contains(pass.Summary, test.says) || strings.Contains(text, test.neither) {
			t.Errorf("%s: %s", test.name, text)
		}
	}
}
