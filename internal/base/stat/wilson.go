package stat

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// WilsonLow returns the lower end of Wilson's score interval for a share of n trials, at z standard deviations (E. B.
// Wilson, 1927). Without trials it returns 0.
func WilsonLow(share, n, z float64) float64 {
	if n <= 0 {
		return 0
	}
	share = min(max(share, 0), 1)
	zz := z * z
	return max(0, (share+zz/(2*n)-z*math.Sqrt(share*(1-share)/n+zz/(4*n*n)))/(1+zz/n))
}

// ShareError returns the standard error of a share of n trials. It is positive for shares of 0 and 1 too (A. Agresti
// and B. A. Coull, 1998). Without trials it returns 1.
func ShareError(share, n float64) float64 {
	if n <= 0 {
		return 1
	}
	share = (share*n + 2) / (n + 4)
	return math.Sqrt(share * (1 - share) / (n + 4))
}

// WelchP returns the chance that the means of two samples differ by as much, in either direction, if the populations
// have equal means (B. L. Welch, 1947). n are the sizes of the samples. It is NaN if one has fewer than two values.
func WelchP(mean, variance, n [2]float64) float64 {
	a, b := max(variance[0], 0)/n[0], max(variance[1], 0)/n[1]
	switch {
	case min(n[0], n[1]) < 2:
		return math.NaN()
	case a+b > 0:
		t := (mean[1] - mean[0]) / math.Sqrt(a+b)
		freedom := (a + b) * (a + b) / (a*a/(n[0]-1) + b*b/(n[1]-1))
		return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.CDF(-math.Abs(t))
	case mean[0] == mean[1]:
		return 1
	}
	return 0
}
