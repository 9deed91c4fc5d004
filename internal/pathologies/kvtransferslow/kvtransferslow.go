// Package kvtransferslow detects KV caches that take long to arrive.
package kvtransferslow

import (
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	slower = &catalog.Threshold{
		Name: "kv_transfer_slower", Unit: indicator.Seconds, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 3, Offset: 0.05, Per: indicator.TransferBytes, Exponent: 1},
		Why:      "three times as long as normal and 50 ms more, after allowing for the size: a shared link varies less",
	}
	mostSlower = &catalog.Threshold{
		Name: "kv_transfer_median_slower", Unit: indicator.Seconds, Default: catalog.None, Baseline: &catalog.Relative{Factor: 1.5},
		Why: "half as long again at the median: a pause of either server moves the mean alone",
	}
)

// Pathology is KV transfers that are slow.
var Pathology = &catalog.Pathology{
	ID:                "kv-transfer-slow",
	Alert:             "KVTransferSlow",
	Title:             "KV caches take long to arrive from the prefill servers",
	Severity:          catalog.Ticket,
	FollowsObjectives: true,
	When:              catalog.All(catalog.Above(indicator.TransferTime, slower), catalog.Above(indicator.TransferP50, mostSlower), catalog.FirstTokenLate),
	For:               time.Minute,
	ExplainedBy:       []string{"target-down", "engine-hung", "kv-cache-thrashing", "engine-restart"},
	Explains:          []string{"prefill-starvation", "saturation", "slow-prefill", "unexplained"},
	Refine:            refine,
	Hop:               catalog.HopTransfer,
}
