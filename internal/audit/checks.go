package audit

// checks are everything that the linter looks for. Page is for what does not
// work at all, ticket for what shows or does something else than it says, info
// for what is fragile.
var checks = []*Check{
	&syntaxCheck,
	&unknownMetric, &removedMetric, &notExposed, &histogramName, &createdSeries, &unknownLabel, &unknownLabelValue, &noMatch,
	&unknownVariable, &unusedVariable, &multiValue,
	&missingLe, &rawBuckets, &addedBuckets, &quantileRange, &averageOfPercentiles, &averageOfMeans, &mixedModels, &bucketEdge, &noSuchBucket,
	&rateOnGauge, &rawCounter, &deltaOnCounter, &rateOfSum, &sumWithoutCount, &ratioSummed, &codeAsNumber, &countOfStates,
	&labelMismatch, &ratioOfItself, &wrongRatio, &shareFloor, &mixedQuantities, &comparisonAsShare, &wrongUnit, &rateInterval,
	&impossibleThreshold, &noComparison, &holdsLonger, &refusedRule, &brokenText, &lostLabel, &valueInLabel, &alertCondition,
	&scalerSeries, &scalerAverage, &scaleFromZero, &scalerConflict,
}
