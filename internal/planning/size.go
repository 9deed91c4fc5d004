package planning

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
)

// The search for a fix's value tries firstValues over its range. In each of the rounds it tries the two midpoints
// between the best value and its neighbours.
const (
	firstValues = 6
	rounds      = 2
)

// asGood is the share of the best benefit at which a value closer to the present one is preferred.
const asGood = 0.98

// sizeFix sets a fix to the value with the largest simulated benefit for users. If none has a benefit, or nothing can
// be simulated, the computed value stays.
func (p *predictor) sizeFix(f *catalog.Fix) {
	s := f.Search
	if s == nil || s.Most < s.Least || p.spent > budget/2 {
		return
	}
	unchanged, err := p.simulateUnchanged()
	if err != nil {
		return
	}
	tried := p.tryValues(f, unchanged)
	if !(tried[bestValue(tried)] > 1) {
		return
	}
	v := valueNearest(tried, p.engine.Config.MaxNumSeqs)
	f.Set(s.Flag, strconv.Itoa(v))
	var values []string
	for _, n := range slices.Sorted(maps.Keys(tried)) {
		values = append(values, fmt.Sprintf("%d (%.2g×)", n, tried[n]))
	}
	f.Arithmetic = append(slices.Clone(f.Arithmetic),
		fmt.Sprintf("simulated values with their benefit for users: %s; chosen: %d", strings.Join(values, ", "), v))
}

// tryValues simulates values of a fix. It returns the benefit of each value that can be simulated.
func (p *predictor) tryValues(f *catalog.Fix, unchanged []*outcome) map[int]float64 {
	tried := map[int]float64{}
	try := func(v int) {
		if _, done := tried[v]; done || v < f.Search.Least || v > f.Search.Most {
			return
		}
		one := *f
		one.Set(f.Search.Flag, strconv.Itoa(v))
		after, err := p.changeSetup(&one)
		if err != nil {
			return
		}
		outcomes, _, err := p.simulateChange(after, perTrial)
		if err != nil {
			return
		}
		ranks := float64(p.traffic.ranks)
		tried[v] = compareBenefit(unchanged, outcomes, ranks, ranks*float64(after.replicas)).Value
	}
	least, most := float64(f.Search.Least), float64(f.Search.Most)
	for i := range firstValues {
		try(int(math.Round(least * math.Pow(most/least, float64(i)/(firstValues-1)))))
	}
	for range rounds {
		values := slices.Sorted(maps.Keys(tried))
		i := slices.Index(values, bestValue(tried))
		if i > 0 {
			try((values[i-1] + values[i]) / 2)
		}
		if i >= 0 && i < len(values)-1 {
			try((values[i] + values[i+1] + 1) / 2)
		}
	}
	return tried
}

// bestValue returns the value with the largest benefit, the smallest of equal ones, or 0 if none was tried.
func bestValue(tried map[int]float64) int {
	best := 0
	for _, v := range slices.Sorted(maps.Keys(tried)) {
		if best == 0 || tried[v] > tried[best] {
			best = v
		}
	}
	return best
}

// valueNearest returns the value nearest to the present one of those that are as good as the best.
func valueNearest(tried map[int]float64, present int) int {
	best := bestValue(tried)
	nearest := best
	for _, v := range slices.Sorted(maps.Keys(tried)) {
		if tried[v] >= asGood*tried[best] && distance(v, present) < distance(nearest, present) {
			nearest = v
		}
	}
	return nearest
}

func distance(a, b int) int { return max(a, b) - min(a, b) }
