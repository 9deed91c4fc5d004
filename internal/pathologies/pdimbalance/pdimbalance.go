// Package pdimbalance detects a split of prefill and decode servers that does not fit the traffic.
package pdimbalance

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	queues = &catalog.Threshold{
		Name: "pd_queue", Unit: indicator.Requests, Default: 1.5,
		Why: "more than one request waits on each server of the role, averaged over the window",
	}
	noQueue = &catalog.Threshold{
		Name: "pd_no_queue", Unit: indicator.Requests, Default: 0.5,
		Why: "next to nothing waits on the other role's servers",
	}
	room = &catalog.Threshold{
		Name: "pd_decode_room", Unit: indicator.Ratio, Default: 0.5,
		Why: "half of the decode servers' KV cache is free: they could serve twice as many answers",
	}
	idles = &catalog.Threshold{
		Name: "pd_prefill_idles", Unit: indicator.Requests, Default: 0.5,
		Why: "a prefill server runs one prompt after the other, and nothing for half of the time",
	}

	prefillShort = catalog.All(
		catalog.Above(indicator.PrefillQueue, queues), catalog.Guard(catalog.Below(indicator.DecodeQueue, noQueue)),
		catalog.Below(indicator.DecodeUsage, room))
	decodeShort = catalog.All(
		catalog.Above(indicator.DecodeQueue, queues), catalog.Guard(catalog.Below(indicator.PrefillQueue, noQueue)),
		catalog.Below(indicator.PrefillBusy, idles))
)

// Pathology is too few prefill servers for the decode servers, or too many.
var Pathology = &catalog.Pathology{
	ID:       "pd-imbalance",
	Alert:    "PDImbalance",
	Title:    "Prefill/decode imbalance: one role is short, the other has room",
	Severity: catalog.Page,
	When:     catalog.All(catalog.Any(prefillShort, decodeShort), catalog.FirstTokenLate),
	For:      time.Minute,
	ExplainedBy: []string{
		"target-down", "engine-hung", "engine-restart", "kv-transfer-failing", "kv-transfer-slow", "decode-lost",
		"prefill-lost",
	},
	Across: true,
	Explains: []string{
		"prefill-starvation", "severe-degradation", "concurrency-limit", "saturation", "slow-decode",
		"client-cancellations", "slow-prefill", "workload-shift", "unexplained",
	},
	Chain: slices.Concat(catalog.Demand, []catalog.Link{
		{Says: "Prompts queue for prefill", When: catalog.Above(indicator.PrefillQueue, queues)},
		{Says: "Requests queue for decode", When: catalog.Above(indicator.DecodeQueue, queues)},
	}, catalog.Late),
	Refine: refineFinding,
	Panel:  807,
}

const (
	verify = "neither role queues, and first tokens come in time"
	full   = 0.8 // the share of its capacity to which a role is planned
)

func refineFinding(p *catalog.Pass) {
	waiting := p.Value(indicator.PrefillQueue)
	short, idle := "prefill", "decode"
	if p.Value(indicator.DecodeQueue) > waiting {
		short, idle, waiting = "decode", "prefill", p.Value(indicator.DecodeQueue)
	}
	p.Summary = fmt.Sprintf("Prompts queue on the %s servers, %s on each, while the %s servers have room", short,
		catalog.Digits(waiting), idle)
	p.Observe("The servers", indicator.PrefillServers, indicator.PrefillQueue, indicator.PrefillBusy,
		indicator.DecodeServers, indicator.DecodeQueue, indicator.DecodeUsage)
	p.Observe("What they are asked", indicator.PromptTokens, indicator.OutputTokens)
	p.ShedQueue(verify)
	moveServers(p, short, idle)
	p.Fix(catalog.Fix{
		Summary:  "Add a " + short + " server",
		Tradeoff: "its cost, while the " + idle + " servers idle",
		Verify:   verify,
	})
}

// moveServers proposes the split whose roles are equally loaded. The short role is full, so it tells how much of the
// other the traffic that it lets through needs.
func moveServers(p *catalog.Pass, short, idle string) {
	f := catalog.Fix{
		Summary:  "Move servers from " + idle + " to " + short,
		Tradeoff: "a restart of each that moves; less room where they came from",
		Verify:   verify,
	}
	prefill, ok1 := p.Measured(indicator.PrefillServers)
	decode, ok2 := p.Measured(indicator.DecodeServers)
	if !ok1 || !ok2 {
		p.Fix(f)
		return
	}
	needPrefill, needDecode, line := prefill, decode, ""
	if short == "prefill" {
		usage := p.Value(indicator.DecodeUsage)
		needDecode = max(decode*usage/full, 0.01)
		line = fmt.Sprintf("the traffic that %s prefill servers let through needs %s decode servers × %s of their KV "+
			"cache / %s = %s", catalog.Whole(prefill), catalog.Whole(decode),
			indicator.FormatNumber(usage, indicator.Ratio), catalog.Digits(full), catalog.Digits(needDecode))
	} else {
		busy := min(p.Value(indicator.PrefillBusy), 1)
		needPrefill = max(prefill*busy/full, 0.01)
		line = fmt.Sprintf("the traffic that %s decode servers let through needs %s prefill servers × %s busy / %s "+
			"= %s", catalog.Whole(decode), catalog.Whole(prefill), catalog.Digits(busy), catalog.Digits(full),
			catalog.Digits(needPrefill))
	}
	all := prefill + decode
	to := min(max(math.Round(all*needPrefill/(needPrefill+needDecode)), 1), all-1) // prefill servers
	if to == prefill || all <= 2 {
		return
	}
	f.Arithmetic = []string{line}
	f.Summary = fmt.Sprintf("Run %s prefill and %s decode servers instead of %s and %s", catalog.Whole(to),
		catalog.Whole(all-to), catalog.Whole(prefill), catalog.Whole(decode))
	p.Fix(f)
}
