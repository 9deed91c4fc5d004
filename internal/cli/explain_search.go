package cli

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/synonym"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/render"
)

// triageText points to the table of the three latencies.
const triageText = "TTFT, queue time and ITL, read together, tell where to look: sixty explain saturation has the " +
	"table, with --full."

// topics explains words that are no pathologies.
var topics = map[string]string{
	diagnose.Healthy: "A verdict: what was judged is within its objectives or as normal, and nobody waits for long.",
	diagnose.Idle:    "A verdict: nobody is served, nobody waits, and nothing moves.",
	diagnose.NotCertain: "A verdict: somebody may be hurt, and it is too early to say how. It is not healthy (exit " +
		"code 3).",
	diagnose.InsufficientData: "A verdict: too little could be judged. It is not healthy (exit code 3).",
	"z-score": "The plain detector of sixty serve compares each value with the mean of the last 100, and tells those " +
		"beyond three standard deviations, once there are 20: section sixty.anomalies of its configuration file, " +
		"docs/serve.md.",
	"matrix": triageText +
		" Which signals rise together tells the plain detector of sixty serve: section sixty.anomalies, docs/serve.md.",
	"triage": triageText,
}

// tooCommon are parts of alerts' names that tell no pathology from another.
var tooCommon = []string{"vllm", "llm", "sglang", "high", "low", "near", "up", "build", "related", "p50", "p95", "p99",
	"total", "seconds", "rate", "num"}

var wordOf = regexp.MustCompile(`[A-Z]+(?:[a-z]*)|[a-z0-9]+`)

// maxFound bounds the pathologies that a search lists.
const maxFound = 6

// searchFor returns a document with the topic of a text, or the pathologies whose names, signals or metrics contain its
// words; nil if there are none. The text may be the name of an alert of another project, such as HighTTFT.
func searchFor(text string, all []*catalog.Pathology) *render.Document {
	d := render.NewDocument("")
	if topic := topics[strings.ToLower(text)]; topic != "" {
		d.Answer(render.Bold, text, topic)
		return d
	}
	s, isSynonym := synonym.Of(strings.ToLower(text))
	var words []string
	for _, w := range wordOf.FindAllString(cmp.Or(s.Here, text), -1) {
		w = synonym.Translate(strings.ToLower(w))
		if len(w) > 2 && !slices.Contains(tooCommon, w) {
			words = append(words, w)
		}
	}
	matches := func(in string) (n int) {
		in = strings.ToLower(in)
		for _, w := range words {
			if strings.Contains(in, w) {
				n++
			}
		}
		return n
	}
	score := map[*catalog.Pathology]int{}
	var found []*catalog.Pathology
	for _, p := range all {
		reads := ""
		p.When.Signals(func(s *indicator.Signal) { reads += s.Name + " " + s.Title + " " + s.PromQL() + " " })
		// A match in the name weighs more than one in the signals.
		score[p] = 3*matches(p.ID+" "+p.Alert) + 2*matches(p.Title) + matches(reads)
		if score[p] > 0 {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortStableFunc(found, func(a, b *catalog.Pathology) int { return score[b] - score[a] })
	d.Answer(render.Bold, "", fmt.Sprintf("Failure modes about %s, the nearest first. Run sixty explain ID.", text))
	if isSynonym {
		d.Paragraph(s.Name, render.Sentence(strings.Join(slices.DeleteFunc([]string{s.Meaning, s.Exposed(), s.Advice()},
			func(part string) bool { return part == "" }), "; ")))
	}
	addPathologies(d, found[:min(len(found), maxFound)])
	for _, s := range indicator.All() {
		if slices.Contains(words, strings.ToLower(strings.Fields(s.Title)[0])) || strings.EqualFold(text, s.Name) {
			d.Item(s.Title, s.Doc)
			break
		}
	}
	return d
}
