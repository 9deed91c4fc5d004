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
	tried := map[int]float64{}
	try := func(v int) {
		if _, done := tried[v]; done || v < s.Least || v > s.Most {
			return
		}
		one := *f
		one.Set(s.Flag, strconv.Itoa(v))
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
	for i := range firstValues {
		share := float64(i) / (firstValues - 1)
		try(int(math.Round(float64(s.Least) * math.Pow(float64(s.Most)/float64(s.Least), share))))
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
	v := bestValue(tried)
	if !(tried[v] > 1) {
		return
	}
	present := float64(p.engine.Config.MaxNumSeqs)
	for _, other := range slices.Sorted(maps.Keys(tried)) {
		if tried[other] >= asGood*tried[bestValue(tried)] &&
			math.Abs(float64(other)-present) < math.Abs(float64(v)-present) {
			v = other
		}
	}
	f.Set(s.Flag, strconv.Itoa(v))
	var told []string
	for _, n := range slices.Sorted(maps.Keys(tried)) {
		told = append(told, fmt.Sprintf("%d (%.2g×)", n, tried[n]))
	}
	f.Arithmetic = append(slices.Clone(f.Arithmetic),
		fmt.Sprintf("simulated values with their benefit for users: %s; chosen: %d", strings.Join(told, ", "), v))
}

// bestValue returns the value with the largest benefit, the smallest of equal ones, or 0 if none was tried.
func bestValue(tried map[int]float64) int {
	at := 0
	for _, v := range slices.Sorted(maps.Keys(tried)) {
		if at == 0 || tried[v] > tried[at] {
			at = v
		}
	}
	return at
}
