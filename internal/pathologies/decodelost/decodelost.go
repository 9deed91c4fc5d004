// Package decodelost detects prefilled requests that no decode server fetches.
package decodelost

import (
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	expires = &catalog.Threshold{
		Name: "kv_leases_expired", Unit: indicator.Requests, Default: 2.5,
		Why: "at least three in the window: a client that leaves between prefill and decode leaves one behind",
	}
	expireOften = &catalog.Threshold{
		Name: "kv_leases_expired_share", Unit: indicator.Ratio, Default: 0.5,
		Why: "half of the prefills: some clients leave after prefill, and a busy decode server fetches a few too late",
	}
	fetchedFew = &catalog.Threshold{
		Name: "kv_fetched_per_lease", Unit: indicator.Times, Default: 1,
		Why: "fewer are fetched than expire, over all servers of the model: if most are fetched, though late, the " +
			"decode servers are slow, or the lease is short",
	}
	heldIdle = &catalog.Threshold{
		Name: "kv_held_idle", Unit: indicator.Ratio, Default: 0.5,
		Why: "a decode server fetches within seconds of the prefill: if half of the cache stays held while almost " +
			"nothing runs, it is not being fetched",
	}
)

// Pathology is prefilled requests that are not fetched.
var Pathology = &catalog.Pathology{
	ID:       "decode-lost",
	Alert:    "DecodeLost",
	Title:    "No decode server fetches the KV caches that this server holds",
	Severity: catalog.Page,
	When: catalog.Any(
		catalog.All(catalog.Guard(catalog.Above(indicator.LeasesExpired, expires)),
			catalog.Above(indicator.LeaseShare, expireOften), catalog.Below(indicator.FetchedPerLease, fetchedFew)),
		catalog.Above(indicator.HeldIdle, heldIdle),
	),
	ExplainedBy: []string{"target-down", "engine-restart"},
	Across:      true,
	Explains: []string{
		"engine-hung", "kv-cache-thrashing", "severe-degradation", "concurrency-limit", "saturation",
		"client-cancellations", "unexplained", "gpu-underutilization",
	},
	Chain: slices.Concat([]catalog.Link{
		{Says: "Prefilled requests expire", When: catalog.Above(indicator.LeaseShare, expireOften)},
		{Says: "Unfetched blocks fill the cache", When: catalog.Above(indicator.HeldIdle, heldIdle)},
		catalog.QueueGrows,
	}, catalog.Late),
	Refine: refineFinding,
	Hop:    catalog.HopDecode,
}
