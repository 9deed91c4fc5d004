package cli

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

// The page of a recording and that of a Prometheus which scraped the same show the same
// plots, the onset in each of them.
func TestThePageOfARecordingAndOfAPrometheus(t *testing.T) {
	server := prometheus(t, thrashing)
	for name, args := range map[string][]string{
		"recording":  {thrashing, "--at", "2026-11-21T04:52:55Z"},
		"prometheus": {"--prometheus", server.URL, "--at", "2026-11-21T04:52:55Z"},
	} {
		t.Run(name, func(t *testing.T) {
			page, stderr, err := sixty(t, append([]string{"diagnose", "--output", "html"}, args...)...)
			if !errors.Is(err, errFound) || strings.Contains(stderr, "no plots") {
				t.Fatalf("error %v, %s", err, stderr)
			}
			plots, onsets := strings.Count(page, "<svg"), strings.Count(page, `class="onset"`)
			if plots != 9 || onsets != plots {
				t.Errorf("%d plots, %d with the onset", plots, onsets)
			}
			for _, want := range []string{"kv-cache-thrashing (page", ">since 04:51:", ">threshold &gt; ", ">normal ", "Over time"} {
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
