// Package kvtransferfailing detects KV caches that do not arrive from the server that computed them.
package kvtransferfailing

import (
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	some = &catalog.Threshold{
		Name: "kv_transfers_failed", Unit: indicator.Count, Default: 2.5,
		Why: "at least three in the window: one may be a client that left, or a server that was replaced",
	}
	frequent = &catalog.Threshold{
		Name: "kv_transfers_failed_share", Unit: indicator.Ratio, Default: 0.04,
		Why: "one in twenty-five, as for failed requests",
	}
)

// Pathology is KV transfers that fail.
var Pathology = &catalog.Pathology{
	ID:       "kv-transfer-failing",
	Alert:    "KVTransferFailing",
	Title:    "KV caches do not arrive from the prefill servers",
	Severity: catalog.Page,
	When: catalog.All(catalog.Guard(catalog.Above(indicator.TransfersFailed, some)),
		catalog.Above(indicator.TransferFailShare, frequent)),
	Grades: []catalog.Grade{
		{Severity: catalog.Page, While: catalog.Any(
			catalog.FirstTokenLate, catalog.All(catalog.Above(indicator.ServerErrCount, catalog.SomeServerErrors),
				catalog.Above(indicator.ServerErrs, catalog.ServerErrorShare)),
		)},
		{Severity: catalog.Ticket},
	},
	ExplainedBy: []string{"target-down", "engine-restart"},
	Across:      true,
	Explains: []string{
		"decode-lost", "http-errors", "prefill-lost", "kv-transfer-slow", "prefill-starvation", "prefix-cache-misses",
		"severe-degradation", "saturation", "slow-decode", "client-cancellations", "slow-prefill", "workload-shift",
		"unexplained",
	},
	Chain: slices.Concat([]catalog.Link{
		{Says: "KV transfers fail", When: catalog.Above(indicator.TransferFailShare, frequent)},
		catalog.PrefillTakesMore,
		catalog.RequestsFail,
	}, catalog.Late),
	Refine: refineFinding,
	Hop:    catalog.HopTransfer,
}
