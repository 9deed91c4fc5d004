package fleet_test

import "math"

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
	lo = solve(func(mean float64) bool { return 1-atMost(n-1, mean) < tail }, float64(n))
	hi = solve(func(mean float64) bool { return atMost(n, mean) > tail }, 2*float64(n)+20)
	return lo, hi
}

// solve returns where something that holds from 0 on ceases to, before most.
func solve(holds func(float64) bool, most float64) float64 {
	lo, hi := 0.0, most
	for range 60 {
		if mid := (lo + hi) / 2; holds(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// atMost is the probability that a Poisson number of a mean is n or less.
func atMost(n int, mean float64) float64 {
	sum := 0.0
	for k := 0; k <= n; k++ {
		l, _ := math.Lgamma(float64(k + 1))
		sum += math.Exp(float64(k)*math.Log(mean) - mean - l)
	}
	return sum
}
