package checks

// checks are everything that the linter looks for.
var checks = []*Check{
	&syntaxCheck,
	&unknownMetric, &removedMetric, &notExposed, &histogramName, &createdSeries, &unknownLabel, &unknownLabelValue, &noMatch,
	&unknownVariable, &unusedVariable, &multiValue,
	&missingLe, &rawBuckets, &addedBuckets, &quantileRange, &averageOfPercentiles, &averageOfMeans, &mixedModels, &bucketEdge, &noSuchBucket,
	&rateOnGauge, &rawCounter, &deltaOnCounter, &rateOfSum, &sumWithoutCount, &ratioSummed, &codeAsNumber, &countOfStates,
	&labelMismatch, &ratioOfItself, &wrongRatio, &shareFloor, &comparisonAsShare, &wrongUnit, &rateInterval,
	&impossibleThreshold, &noComparison, &refusedRule, &brokenText, &lostLabel, &valueInLabel, &alertCondition,
	&scalerSeries, &scalerAverage, &scaleFromZero, &scalerConflict, &scalingWrong,
}
