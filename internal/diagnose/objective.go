package diagnose

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/threshold"
)

// reasonAgainstHealthy says what speaks against "nothing is wrong" although nothing fires, "" where
// nothing does: a promise that is not kept by too few requests to be sure, and a first
// token that is late where nobody knows whether it ever came sooner.
func (j *judgement) reasonAgainstHealthy() string {
	for _, p := range threshold.Promises() {
		if broken, evidence := catalog.Breached(p.Signal, p.Threshold).Eval(j.view); broken == catalog.True {
			e := evidence[0]
			return fmt.Sprintf("%s is %s on %s, over the objective of %s (%s): %.0f requests are too few to be certain", p.Signal.Title,
				indicator.Format(e.Value, p.Signal.Unit), j.name(), indicator.FormatNumber(e.Threshold, p.Signal.Unit), e.Source, j.view.Now(indicator.FirstTokens).Or(0))
		}
	}
	late, usual := j.view.Now(indicator.TTFTP95), j.view.Normal(indicator.TTFTP95)
	_, _, promised := j.view.Limit(catalog.TTFTObjective)
	if promised || !late.OK || late.V <= catalog.TTFTObjective.Default || j.view.HasHistory() && usual.OK {
		return ""
	}
	return fmt.Sprintf("%s is %s on %s: set --slo or --use-case to judge whether that is too slow", indicator.TTFTP95.Title, indicator.Format(late, indicator.Seconds), j.name())
}
