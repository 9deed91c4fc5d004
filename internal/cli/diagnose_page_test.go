package cli

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

// The page of a recording and that of a Prometheus which scraped the same show plots.
func TestThePageOfARecordingAndOfAPrometheus(t *testing.T) {
	const down = "../../testdata/recordings/target-down.tar.zst"
	server := prometheus(t, down)
	for name, args := range map[string][]string{
		"recording":  {down, "--at", "2026-11-21T05:07:46Z"},
		"prometheus": {"--prometheus", server.URL, "--at", "2026-11-21T05:07:46Z"},
	} {
		t.Run(name, func(t *testing.T) {
			page, stderr, err := sixty(t, append([]string{"diagnose", "--output", "html"}, args...)...)
			if !errors.Is(err, errFound) || strings.Contains(stderr, "no plots") {
				t.Fatalf("error %v, %s", err, stderr)
			}
			plots, onsets := strings.Count(page, "<svg"), strings.Count(page, `class="onset"`)
			if plots < 7 || onsets != plots {
				t.Errorf("%d plots, %d with the onset", plots, onsets)
			}
			for _, want := range []string{"Target down (page", ">since 05:07:", ">threshold &lt; ", ">normal ", "Over time"} {
				if !strings.Contains(page, want) {
					t.Errorf("no %q in the page", want)
				}
			}
			if len(page) > 200_000 || regexp.MustCompile(`<script|(?:src|href)="(?:http|//)`).MatchString(page) {
				t.Errorf("the page has %d bytes, or asks for something from elsewhere", len(page))
			}
		})
	}
}
