// Package metricsslow detects a slow metrics page of a server that serves requests.
package metricsslow

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	slow = &catalog.Threshold{
		Name: "slow_page", Unit: indicator.Seconds, Default: 1,
		Why: "/metrics takes 10 to 40 ms; a mean of one second means that the server or a proxy in " +
			"front of it is overloaded",
	}
	comesAndGoes = &catalog.Threshold{
		Name: "page_gaps", Unit: indicator.Count, Default: 2.5,
		Why: "scrapes of the same process failed, succeeded and failed again within ten minutes; a healthy server " +
			"loses one scrape in a thousand",
	}
)

// Pathology is a slow metrics page.
var Pathology = &catalog.Pathology{
	ID:       "metrics-slow",
	Alert:    "MetricsSlow",
	Title:    "The metrics page is slow to answer",
	Severity: catalog.Ticket,
	When: catalog.All(
		catalog.Any(catalog.Above(indicator.PageTook, slow), catalog.Above(indicator.Flaps, comesAndGoes)),
		catalog.Guard(catalog.Below(indicator.Silence, catalog.LongUnheard)),
	),
	Grades: []catalog.Grade{
		{Severity: catalog.Ticket, While: catalog.Above(indicator.TTFTP50, catalog.TTFTWorse)},
		{Severity: catalog.Info, Note: true},
	},
	For: 5 * time.Minute,
	ExplainedBy: []string{
		"target-down", "gpu-hardware-errors", "engine-hung", "kv-cache-thrashing", "engine-restart", "http-errors",
		"replica-imbalance", "gpu-throttling", "prefill-starvation", "prefix-cache-misses", "severe-degradation",
		"concurrency-limit", "saturation", "slow-decode", "client-cancellations", "slow-prefill",
	},
	Chain: slices.Concat([]catalog.Link{
		{Says: "Scrapes fail now and then", When: catalog.Above(indicator.Flaps, comesAndGoes)},
		{Says: "The metrics page is slow", When: catalog.Above(indicator.PageTook, slow)},
	}, catalog.Late),
	Refine: refineFinding,
	Panel:  431,
}
