package slowdecode

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refineFinding(p *catalog.Pass) {
	p.Summary = "Decode is slow although nothing queues"
	switch lowest := p.Now(indicator.ITLP50).AtMost; { // a bucket that holds all tells no change
	case p.Known(indicator.ITLP50) && !lowest:
		p.Summary = "Decode is slow: ITL P50 is " + p.Text(indicator.ITLP50)
	case p.Known(indicator.ITLMean):
		p.Summary = "Decode is slow: mean ITL is " + p.Text(indicator.ITLMean)
	}
	if _, ok := p.Measured(indicator.DecodeBatch); ok {
		p.Summary += ", at a decode batch size of " + p.Text(indicator.DecodeBatch)
	}
	if n, ok := p.Measured(indicator.HeldOutside); ok && n > outside.Default {
		p.Summary += fmt.Sprintf("; %s open beyond its scheduler: the processes that tokenize "+
			"and detokenize are behind", catalog.Are(n))
	}
	explained := p.SlowSteps()
	if explained {
		lowerBatch(p)
	}
	p.Reroute(catalog.Drain+", or lower its weight there", "ITL P50 of this replica returns to normal")
	p.SlowStepFixes()
	p.Reason("ITL is per output event. With speculative decoding an event carries several " +
		"tokens: compare mean TPOT too.")
}

// lowerBatch sizes the batch for the promised inter-token latency.
func lowerBatch(p *catalog.Pass) {
	limit, text, ok1 := p.Objective(catalog.ITLObjective)
	itl, ok2 := p.Measured(indicator.ITLP50)
	batch, ok3 := p.Measured(indicator.DecodeBatch)
	batch /= p.Engines()
	if !ok1 || !ok2 || !ok3 || itl <= limit || batch < 2 {
		return
	}
	n := max(1, float64(int(batch*limit/itl)))
	c := catalog.Change{Flag: "--max-num-seqs", To: catalog.Whole(n)}
	p.Shed(n*p.Engines(), "ITL P95 is below its objective",
		fmt.Sprintf("floor(batch %s (%s) × objective %s / ITL P50 %s (%s)) = %s",
			catalog.Digits(batch), indicator.DecodeBatch.Title, text, indicator.FormatNumber(itl, indicator.Seconds),
			indicator.ITLP50.Title, c.To))
	if now, ok := p.Setting(engine.MaxNumSeqs); ok {
		if now.V <= n {
			return
		}
		c.From = now.Flag()
	}
	p.Fix(catalog.Fix{
		Summary: fmt.Sprintf("Lower --max-num-seqs to %s", c.To),
		Changes: []catalog.Change{c},
		Arithmetic: []string{fmt.Sprintf("floor(batch %s (%s) × objective %s / ITL P50 %s (%s)) = %s, if a step "+
			"takes time in proportion to its batch; less if it does not",
			catalog.Digits(batch), indicator.DecodeBatch.Title, text, indicator.FormatNumber(itl, indicator.Seconds),
			indicator.ITLP50.Title, c.To)},
		Tradeoff: "fewer tokens per second in total, and requests may queue: test under load first",
		Verify:   "ITL P95 is below its objective, and nothing queues for long",
	})
}
