// Package generate renders the catalogue for the monitoring that a team has:
// Prometheus rules with their unit tests, Alertmanager inhibit rules. Packages
// beneath it render dashboards, scrape configuration, runbook pages and
// burn-rate alerts.
//
// It is pure: values in, files out. It asks nobody for samples and writes
// nothing; package cli does both.
package generate

import (
	"strconv"
	"time"

	"github.com/prometheus/common/model"
)

// A File is one generated file; its path is relative, with slashes.
type File struct {
	Path    string
	Content []byte
}

// MinWindow returns the shortest window over which a rate can be trusted at a
// scrape interval: four of them, so that two samples remain when one scrape
// fails and the window's ends fall badly.
func MinWindow(interval time.Duration) time.Duration { return 4 * interval }

// Windows returns the Window and the Short of alerts on servers that are scraped
// every interval. Both are as short as their content allows, because a fault
// counts once it fills them and goes on counting until it has left them. The
// window has a minute's requests for percentiles. Short holds two scrapes wherever
// its ends fall, with a little for scrapes that are late, so that an engine that
// stops shows at the second page; ten seconds without progress are no hiccup.
func Windows(interval time.Duration) (window, short time.Duration) {
	return max(time.Minute, MinWindow(interval)), max(10*time.Second, (2*interval + interval/10).Round(time.Second))
}

// number writes a number as PromQL reads it back.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// duration writes a duration as PromQL has it: "5m", "1d".
func duration(d time.Duration) string { return model.Duration(d).String() }
