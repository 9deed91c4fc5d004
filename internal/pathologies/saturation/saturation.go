// Package saturation detects more offered load than the server can serve.
package saturation

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	growing = &catalog.Threshold{
		Name: "queue_growing", Unit: indicator.RequestsPerSecond, Default: 0.1,
		Why: "the queue grows: more arrives than is served",
	}
	halfBatch = &catalog.Threshold{
		Name: "queue_half_batch", Unit: indicator.Times, Default: 0.5,
		Why: "half as many wait as run: in order of arrival a request waits for half as long as an answer takes",
	}
	someQueue = &catalog.Threshold{
		Name: "queue_of_batch", Unit: indicator.Times, Default: 0.01,
		Why: "a queue at all",
	}
	somePassedOver = &catalog.Threshold{
		Name: "passed_over_some", Unit: indicator.Requests, Default: 2.5,
		Why: "three requests throughout; one or two may wait for a grammar or a transfer of their own",
	}
	outOfTurn = &catalog.Threshold{
		Name: "out_of_turn", Unit: indicator.Times, Default: 3,
		Why: "in order of arrival, no request waits longer than those served just before; three times the mean is " +
			"beyond 95 % of exponentially distributed waits",
	}
)

var (
	// waitingForOther holds while the scheduler passes over most of the queue, which waits for something else than
	// capacity, and serves later requests soon.
	waitingForOther = catalog.All(
		catalog.Above(indicator.WaitingFloor, catalog.QueueAlways),
		catalog.Above(indicator.DeferredShare, catalog.MostlyDeferred),
		catalog.Above(indicator.QueueAge, catalog.QueueTimeLong),
	)

	// othersFirst holds while requests starve: they wait all the time, and others are served without a wait.
	othersFirst = catalog.All(catalog.Above(indicator.PassedOver, somePassedOver),
		catalog.Above(indicator.WaitTimes, outOfTurn))

	// queueLogged is catalog.Queueing for an engine's log, which has no latencies: the queue never clears, and takes
	// half as long as an answer, or two seconds if requests are logged.
	queueLogged = catalog.All(
		catalog.Above(indicator.LoggedQueue, someQueue), catalog.Above(indicator.WaitingFloor, catalog.QueueAlways),
		catalog.Any(catalog.Above(indicator.LoggedQueue, halfBatch),
			catalog.Above(indicator.QueueTimeMean, catalog.QueueTimeLong)),
	)
)

// Pathology is saturation.
var Pathology = &catalog.Pathology{
	ID:                "saturation",
	Alert:             "Saturation",
	Title:             "Requests arrive faster than they are served, and queue",
	Severity:          catalog.Page,
	FollowsObjectives: true,
	When: catalog.Any(
		catalog.All(
			catalog.Queueing,
			catalog.Any(catalog.FirstTokenLate, catalog.Above(indicator.QueueTimeMean, catalog.QueueTimeLong)),
		),
		waitingForOther,
		othersFirst,
		queueLogged,
	),
	For: time.Minute,
	Supports: []catalog.Cond{
		catalog.Above(indicator.WaitingGrowth, growing), catalog.Above(indicator.QueueTimeMean, catalog.QueueTimeLong),
	},
	ExplainedBy: []string{
		"target-down", "engine-hung", "kv-cache-thrashing", "engine-restart", "replica-imbalance", "gpu-throttling",
		"prefill-starvation", "prefix-cache-misses", "severe-degradation", "concurrency-limit",
	},
	Chain: slices.Concat(catalog.Demand, []catalog.Link{
		{Says: "The scheduler defers requests", When: catalog.Above(indicator.DeferredShare, catalog.MostlyDeferred)},
		{Says: "Others are served first", When: othersFirst},
		catalog.CacheFills,
		catalog.BatchFull,
		catalog.QueueGrows,
	}, catalog.Late),
	Refine: refineFinding,
	Panel:  321,
}
