package stat

import "math"

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
