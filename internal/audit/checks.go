package audit

import "github.com/sixty-dev/sixty/internal/catalog"

const syntaxID = "syntax"

// checks are everything that the linter looks for. Page is for what does not
// work at all, ticket for what shows or does something else than it says, info
// for what is fragile.
var checks = []Check{
	{syntaxID, catalog.Page, "the expression is no PromQL", checkSyntax},

	{"unknown-metric", catalog.Page, "no release has a metric of this name", checkUnknownMetric},
	{"removed-metric", catalog.Page, "the metric was renamed or removed in the release that is served", checkRemovedMetric},
	{"not-exposed", catalog.Ticket, "the metric exists, and these servers do not expose it: another prefix, a newer release, a feature that is off", checkNotExposed},
	{"histogram-name", catalog.Page, "a histogram is asked for without _bucket, _sum or _count", checkHistogramName},
	{"created-series", catalog.Ticket, "a _created series holds a Unix time and is taken for a count", checkCreated},
	{"unknown-label", catalog.Page, "the metric has no label of this name", checkUnknownLabel},
	{"unknown-label-value", catalog.Page, "the label never has this value", checkLabelValue},

	{"unknown-variable", catalog.Page, "a variable that the dashboard does not declare", checkUnknownVariable},
	{"unused-variable", catalog.Info, "a variable that no query asks for", checkUnusedVariable},
	{"multi-value", catalog.Ticket, "a variable of several values behind = or !=", checkMultiValue},

	{"missing-le", catalog.Page, "histogram_quantile without the le label to work on", checkMissingLe},
	{"raw-buckets", catalog.Ticket, "histogram_quantile over buckets since the server's start", checkRawBuckets},
	{"quantile-range", catalog.Page, "a quantile that is not between 0 and 1", checkQuantileRange},
	{"average-of-percentiles", catalog.Ticket, "percentiles averaged, added up or subtracted", checkAverageOfPercentiles},
	{"average-of-means", catalog.Ticket, "an average over replicas of means or shares", checkAverageOfMeans},
	{"average-of-parts", catalog.Ticket, "an average over the parts of a count, such as finished_reason", checkAverageOfParts},
	{"parts-as-whole", catalog.Ticket, "the parts of a count, such as finished_reason, shown under one name", checkPartsAsWhole},
	{"sum-over-time", catalog.Ticket, "a gauge's or a counter's samples added up over time", checkSumOverTime},
	{"mixed-models", catalog.Ticket, "one percentile or mean over several models", checkMixedModels},
	{"ratio-summed", catalog.Ticket, "a gauge between 0 and 1 added up over replicas", checkRatioSummed},
	{"engine-label", catalog.Ticket, "data-parallel ranks of different servers thrown together, or only one rank looked at", checkEngineLabel},
	{"rate-on-gauge", catalog.Ticket, "rate or increase of a gauge", checkRateOnGauge},
	{"delta-on-counter", catalog.Ticket, "delta or deriv of a counter", checkDeltaOnCounter},
	{"raw-counter", catalog.Ticket, "a counter compared or shown as it is since the server's start", checkRawCounter},
	{"rate-of-sum", catalog.Page, "a rate over counters that were added up before", checkRateAfterSum},
	{"sum-without-count", catalog.Ticket, "the rate of a histogram's _sum shown as if it were a mean", checkSumWithoutCount},
	{"label-mismatch", catalog.Page, "two sides of an operator whose labels differ: nothing matches", checkLabelMismatch},
	{"ratio-of-itself", catalog.Page, "a quotient without aggregation that divides a series by itself", checkRatioOfItself},

	{"precedence", catalog.Page, "parentheses left out of a share", checkPrecedence},
	{"mixed-quantities", catalog.Ticket, "a time and a share, or two units, added, subtracted or compared",
		checkMixedQuantities},
	{"ones-as-value", catalog.Page, "group(…), which is always 1, shown as a value", checkOnesAsValue},
	{"code-as-number", catalog.Ticket, "a code added up, averaged or shown as if it were an amount", checkCode},
	{"all-modes", catalog.Ticket, "processor time of all modes, which is time itself", checkAllModes},
	{"comparison-as-share", catalog.Ticket, "a comparison without bool averaged as if it gave 0 and 1", checkComparisonAsShare},

	{"tokens-per-completion", catalog.Ticket, "tokens of all requests divided by completed ones", checkTokensPerCompletion},
	{"steps-as-tokens", catalog.Ticket, "engine steps labelled as tokens", checkStepsAsTokens},
	{"other-quantity", catalog.Ticket, "a legend or title that names another quantity than the query's", checkOtherQuantity},
	{"other-percentile", catalog.Ticket, "a text that names another percentile than the query's, or a mean", checkOtherPercentile},
	{"other-window", catalog.Ticket, "a text or a name that says another span of time than the query or the alert",
		checkOtherWindow},
	{"other-statistic", catalog.Ticket, "a text that says the highest, the average, the total or the present value, and a query or a panel that gives another", checkOtherStatistic},
	{"upside-down", catalog.Ticket, "a quotient that its text names the other way round", checkUpsideDown},
	{"two-windows", catalog.Ticket, "what happened in one span of time divided by what happened in another", checkTwoWindows},
	{"part-and-whole", catalog.Ticket, "a part added to the whole that holds it already", checkPartAndWhole},
	{"cumulative-buckets", catalog.Ticket, "buckets added up or drawn as if each were a count of its own", checkCumulativeBuckets},
	{"long-lookback", catalog.Ticket, "what has gone shown as if it were there", checkLongLookback},
	{"repeated-query", catalog.Ticket, "one query twice in a panel, under two names", checkRepeatedQuery},
	{"success-as-availability", catalog.Ticket, "request_success_total taken for availability or errors", checkAvailability},
	{"total-and-success", catalog.Ticket, "a panel that shows finished requests as all and as successful ones", checkTotalAndSuccess},
	{"share-floor", catalog.Ticket, "a share whose divisor is kept at a rate that quiet servers do not reach", checkFloor},
	{"part-over-part", catalog.Page, "a quotient taken for a share that is none, as used over free is", checkPartOverPart},

	{"wrong-unit", catalog.Ticket, "seconds labelled milliseconds, a ratio labelled percent, and the like", checkUnit},
	{"colour-threshold", catalog.Ticket, "steps or a range of a panel in percent for values from 0 to 1", checkSteps},
	{"wrong-way-round", catalog.Ticket, "good values coloured as bad ones, or a state named as its reverse", checkWrongWayRound},
	{"stacked-values", catalog.Ticket, "percentiles, means or shares drawn on top of one another", checkStackedValues},
	{"rounded-away", catalog.Ticket, "values below 1 shown without decimals", checkRoundedAway},
	{"top-of-each-step", catalog.Info, "topk drawn over time, which chooses anew at every step", checkTopOfEachStep},
	{"dead-override", catalog.Ticket, "settings for a series that the panel does not have", checkDeadOverride},
	{"all-value", catalog.Ticket, "what a variable stands for where all are chosen is no regular expression", checkAllValue},
	{"per-time", catalog.Ticket, "an increase shown as a rate, or a rate as a count per minute", checkPerTime},
	{"impossible-threshold", catalog.Page, "a comparison that can never hold, or always does", checkImpossible},
	{"bucket-edge", catalog.Info, "a percentile compared with a number that is no bucket edge, or outside of all of them", checkBucketEdge},
	{"no-such-bucket", catalog.Page, "a bucket selected by an edge that the histogram does not have", checkNoSuchBucket},
	{"rate-interval", catalog.Info, "a rate over a range that may hold fewer than two scrapes", checkRateInterval},

	{"scaler-average", catalog.Ticket, "an average or a percentile by which KEDA scales, and which it takes for a total", checkScalerAverage},
	{"scale-from-zero", catalog.Page, "an autoscaler to no replica that looks at its replicas alone", checkScaleFromZero},

	{"no-comparison", catalog.Page, "an alert that fires as long as the series exists", checkNoComparison},
	{"count-is-zero", catalog.Page, "a count of series compared with 0, which it never is", checkCountIsZero},
	{"count-of-states", catalog.Ticket, "series counted where those are meant that say 1", checkCountOfStates},
	{"states-as-filter", catalog.Page, "a state's presence taken for its value", checkStatesAsFilter},
	{"fires-when-idle", catalog.Ticket, "an alert on low throughput that fires where nobody asks", checkFiresWhenIdle},
	{"idle-part", catalog.Page, "an alert on no traffic over a counter that is split into parts", checkIdlePart},
	{"one-of-many", catalog.Page, "a state compared with 0 whatever its condition", checkOneOfMany},
	{"other-threshold", catalog.Ticket, "a text that names another threshold than the expression", checkOtherThreshold},
	{"refused-rule", catalog.Page, "a rule that Prometheus does not load: an unknown field, a template that does not parse", checkRefused},
	{"lost-label", catalog.Ticket, "an annotation or a legend that names a label which was aggregated away", checkLostLabel},
	{"no-for", catalog.Info, "an alert that fires on a single evaluation", checkNoFor},
}
