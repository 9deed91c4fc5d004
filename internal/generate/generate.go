// Package generate renders the catalogue for the monitoring stack of a team: Prometheus rules with their unit tests,
// and Alertmanager's inhibit rules. Packages below it render dashboards, scrape configuration, runbook pages,
// autoscalers and burn-rate alerts; package pack puts them together.
//
// The data is a RulesConfig: the deployment (its dialects and labels), the pathologies, and the sources of
// thresholds. NewRules goes through the pathologies in order. For each one and for each segment of the fleet (a
// segment shares thresholds) it compiles the condition to PromQL over recorded series, and notes which signals the
// condition reads. Then it renders the recording rules of these signals, of their past, and of limits that follow the
// past. Recording rules come before the alerts that read them, because Prometheus evaluates a group in order.
//
// Alerts and diagnosis cannot disagree: both come from the same Cond. The unit tests come from the same case files
// with which the catalogue is tested.
//
// The package is pure: values in, files out. It queries no server and writes no file; package cli does both.
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

// MinWindow returns the shortest window of a reliable rate: four scrape intervals. Two samples remain if one scrape
// fails and the ends of the window fall badly.
func MinWindow(interval time.Duration) time.Duration { return 4 * interval }

// Windows returns the Window and the Short of alerts on servers that are scraped every interval. Both are as short as
// possible, because a fault counts from when it fills them until it has left them. The window holds a minute of
// requests, for percentiles. Short always holds two scrapes, late ones included, so that a stopped engine shows at
// the second scrape; ten seconds without progress are no hiccup.
func Windows(interval time.Duration) (window, short time.Duration) {
	return max(time.Minute, MinWindow(interval)), max(10*time.Second, (2*interval + interval/10).Round(time.Second))
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// formatDuration writes a duration in PromQL's notation: "5m", "1d".
func formatDuration(d time.Duration) string { return model.Duration(d).String() }
