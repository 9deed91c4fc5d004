// Package kvtransferslow detects KV caches that take long to arrive.
package kvtransferslow

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	slower = &catalog.Threshold{
		Name: "kv_transfer_slower", Unit: indicator.Seconds, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 3, Offset: 0.05, Per: indicator.TransferBytes, Exponent: 1},
		Why: "three times as long as normal and 50 ms more, after allowing for the size: a " +
			"shared link varies less",
	}
	mostSlower = &catalog.Threshold{
		Name: "kv_transfer_median_slower", Unit: indicator.Seconds, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 1.5},
		Why:      "half as long again at the median: a pause of either server moves the mean alone",
	}
)

var (
	decodeLate = &catalog.Threshold{
		Name: "decode_ttft_worse", Unit: indicator.Seconds, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 2, Offset: 0.05},
		Why:      "twice the normal on the decode servers, and at least 50 ms more: less is not noticeable",
	}
	// pushedLate holds on a prefill server whose decode servers wait for KV caches. In NIXL's push mode and with
	// Mooncake the prefill server counts the transfers, and its own first tokens are in time.
	pushedLate = catalog.Above(indicator.DecodeTTFT, decodeLate)
)

var (
	someHeld = &catalog.Threshold{
		Name: "kv_transfers_held", Unit: indicator.Requests, Default: 4.5,
		Why: "five requests in transfer nine tenths of the time: transfers take milliseconds, so most scrapes see few",
	}
	stuck = &catalog.Threshold{
		Name: "kv_transfers_stuck", Unit: indicator.Seconds, Default: 20,
		Why: "a mean of twenty seconds in transfer: a pause of either server is shorter",
	}
	// stalled holds while transfers neither end nor fail.
	stalled = catalog.All(catalog.Above(indicator.TransferHeld, someHeld),
		catalog.Above(indicator.TransferWait, stuck))
)

// Pathology is KV transfers that are slow.
var Pathology = &catalog.Pathology{
	ID:                "kv-transfer-slow",
	Alert:             "KVTransferSlow",
	Title:             "KV caches take long to arrive from the prefill servers",
	Severity:          catalog.Page,
	FollowsObjectives: true,
	Everywhere:        true, // one side counts the transfers, and both wait for them
	Grades:            []catalog.Grade{{Severity: catalog.Page, While: stalled}, {Severity: catalog.Ticket}},
	When: catalog.Any(
		catalog.All(catalog.Above(indicator.TransferTime, slower),
			catalog.Guard(catalog.Above(indicator.TransferP50, mostSlower)),
			catalog.Any(catalog.FirstTokenLate, pushedLate)),
		stalled,
	),
	For:         time.Minute,
	ExplainedBy: []string{"target-down", "engine-hung", "kv-cache-thrashing", "engine-restart"},
	Explains:    []string{"prefill-starvation", "concurrency-limit", "saturation", "slow-prefill", "unexplained"},
	Chain: slices.Concat([]catalog.Link{
		{Says: "KV transfers take longer", When: catalog.Above(indicator.TransferTime, slower)},
		{Says: "Decode servers wait for KV", When: pushedLate},
		{Says: "KV transfers stand still", When: catalog.Above(indicator.TransferHeld, someHeld)},
	}, catalog.Late),
	Refine: refineFinding,
	Hop:    catalog.HopTransfer,
}
