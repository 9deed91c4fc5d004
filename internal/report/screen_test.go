package report_test

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/report"
	"github.com/sixty-dev/sixty/internal/report/reporttest"
)

func TestShortFitsTheScreen(t *testing.T) {
	for name, example := range report.Screens() {
		reporttest.FitsTheScreen(t, name, example())
	}
}
