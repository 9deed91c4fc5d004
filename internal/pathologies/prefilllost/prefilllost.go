// Package prefilllost detects decode servers that compute prompts themselves, because none come prefilled.
package prefilllost

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	fewer = &catalog.Threshold{
		Name: "kv_transfers_fewer", Unit: indicator.PerRequest, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 0.5},
		Why:      "half of the requests that used to arrive with a KV cache arrive without one",
	}
	fewerTokens = &catalog.Threshold{
		Name: "kv_transferred_fewer", Unit: indicator.Ratio, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 0.5},
		Why:      "half of the prompt tokens that used to come through the connector do not, whichever connector it is",
	}
	sentByOthers = &catalog.Threshold{
		Name: "kv_transfers_sent", Unit: indicator.PerRequest, Default: 0.5,
		Why: "the server has a connector and counts no transfers: with Mooncake the sender counts them",
	}
	apart = &catalog.Threshold{
		Name: "decode_servers_apart", Unit: indicator.Count, Default: 0.5,
		Why: "the model has decode servers apart, so its prompts are prefilled elsewhere; misses of a store that " +
			"replicas share are another fault",
	}
	stillComputes = &catalog.Threshold{
		Name: "prompts_computed_here", Unit: indicator.Tokens, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 2, Offset: 20, History: true},
		Why: "each request computes twice the usual number of prompt tokens here, and twenty more: prompts " +
			"found in this server's own cache need no transfer",
	}
)

// Pathology is prefill servers that are lost to a decode server.
var Pathology = &catalog.Pathology{
	ID:       "prefill-lost",
	Alert:    "PrefillLost",
	Title:    "Prompts arrive without their KV cache and are computed on the decode server",
	Severity: catalog.Page,
	When: catalog.All(
		catalog.Any(catalog.Below(indicator.TransfersPerRequest, fewer), catalog.All(
			catalog.Below(indicator.TransferredShare, fewerTokens),
			catalog.Any(catalog.Guard(catalog.Below(indicator.TransfersPerRequest, sentByOthers)),
				catalog.Guard(catalog.Above(indicator.DecodeServers, apart))),
		)),
		catalog.Above(indicator.ComputedTokens, stillComputes),
	),
	Grades:      []catalog.Grade{{Severity: catalog.Page, While: catalog.FirstTokenLate}, {Severity: catalog.Ticket}},
	For:         time.Minute,
	ExplainedBy: []string{"target-down", "engine-hung", "engine-restart"},
	Across:      true,
	Explains: []string{
		"prefill-starvation", "prefix-cache-misses", "severe-degradation", "saturation", "slow-decode",
		"client-cancellations", "slow-prefill", "workload-shift", "unexplained",
	},
	Chain: slices.Concat([]catalog.Link{
		{
			Says: "Fewer prompts arrive prefilled",
			When: catalog.Any(catalog.Below(indicator.TransfersPerRequest, fewer),
				catalog.Below(indicator.TransferredShare, fewerTokens)),
		},
		{Says: "Prompts are computed here", When: catalog.Above(indicator.ComputedTokens, stillComputes)},
		catalog.StepsSlow,
	}, catalog.Late),
	Refine: refineFinding,
	Hop:    catalog.HopPrefill,
}
