package monitor_test

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/monitor"
)

// TestTheDocumentedConfiguration: the example of docs/serve.md is one.
func TestTheDocumentedConfiguration(t *testing.T) {
	text, err := os.ReadFile("../../docs/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(text), "```yaml\n")
	example, _, closed := strings.Cut(after, "```")
	if !ok || !closed {
		t.Fatal("docs/serve.md has no example")
	}
	c, err := monitor.ParseConfig([]byte(example), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Sixty.Receivers) != 1 || len(c.Prometheus.ScrapeConfigs) != 1 || len(c.Prometheus.RemoteWriteConfigs) != 1 || c.Sixty.Alerts.Severities["page"] != "critical" {
		t.Errorf("%+v", c.Sixty)
	}
}
