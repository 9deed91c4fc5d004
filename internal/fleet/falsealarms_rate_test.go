package fleet_test

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// confident is the probability with which the interval of a rate holds.
const confident = 0.95

// garwood returns the bounds of the mean of a Poisson number of which n were
// seen (Garwood, Biometrika 28, 1936): each is passed with half of what is
// missing to confident. Of none seen only the upper bound means something, and
// it is passed with all of it: 3.0.
func garwood(n int) (lo, hi float64) {
	tail := (1 - confident) / 2
	if n == 0 {
		return 0, -math.Log(1 - confident)
	}
	lo = distuv.ChiSquared{K: 2 * float64(n)}.Quantile(tail) / 2
	return lo, distuv.ChiSquared{K: 2*float64(n) + 2}.Quantile(1-tail) / 2
}
