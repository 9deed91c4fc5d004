package profile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/sixty-dev/sixty/internal/base/stat"
)

// Stragglers says how devices wait for each other in collectives. It compares the durations of the same collective on
// all devices: the device that arrives last has the shortest, so no common clock is needed.
type Stragglers struct {
	Known       bool    `json:"-"`
	Collectives int     `json:"collectives"`
	Share       float64 `json:"share"`      // waiting for others, as a share of all devices' wall time
	Last        string  `json:"last"`       // the device that the others wait for most
	LastShare   float64 `json:"last_share"` // share of collectives in which it comes last
	Since       int     `json:"since_step"` // the first step from which it comes last in most; -1 is unknown
	Why         string  `json:"why"`        // the part that takes longer on it; "" is unknown
	Cause       string  `json:"cause"`      // the kind of Why: kernels or host
}

// findStragglers compares the devices' communication kernels, the first of one with the first of the others and so on.
// Devices with different numbers of such kernels take part in different collectives.
func (p *Profile) findStragglers() {
	groups := map[int][]*member{}
	for a, d := range p.EachDevice {
		if n := len(d.Waits); n > 0 {
			groups[n] = append(groups[n], &member{Device: d, name: a.DeviceName(d)})
		}
	}
	s, waited := &p.Stragglers, int64(0)
	var worst *member
	var peers []*member
	for _, n := range slices.Sorted(maps.Keys(groups)) {
		members := groups[n]
		if len(members) < 2 {
			continue
		}
		compareWaits(members)
		s.Collectives += n
		for _, m := range members {
			waited += m.waited
			if worst == nil || m.waited > worst.waited {
				worst, peers = m, members
			}
		}
	}
	if s.Collectives == 0 || p.Wall == 0 {
		return
	}
	s.Known, s.Share = true, float64(waited)/float64(p.Wall)
	n := len(worst.Waits)
	if len(worst.last) == 0 {
		return
	}
	s.Last, s.LastShare = worst.name, float64(len(worst.last))/float64(n)
	for k, i := range worst.last {
		if 4*(len(worst.last)-k) > 3*(n-i) { // it comes last in three quarters of the collectives from i on
			s.Since = int(worst.WaitSteps[i])
			break
		}
	}
	s.explain(worst, peers)
}

// A member is a device that takes part in the same collectives as others.
type member struct {
	*Device
	name   string
	waited int64 // how long the others waited for it, all of them together
	last   []int // indexes of the collectives in which it came last
}

// compareWaits finds which member came last in each collective.
func compareWaits(members []*member) {
	for i := range members[0].Waits {
		byWait := func(a, b *member) int { return cmp.Compare(a.Waits[i], b.Waits[i]) }
		last, longest := slices.MinFunc(members, byWait), slices.MaxFunc(members, byWait).Waits[i]
		least := last.Waits[i]
		for _, m := range members {
			last.waited += m.Waits[i] - least
		}
		if longest > least+least/10 {
			last.last = append(last.last, i)
		}
	}
}

// explain finds the group of kernels or the cause of idleness that takes longer on the worst member than on the median
// of its peers, by at least half of their mean waiting.
func (s *Stragglers) explain(worst *member, peers []*member) {
	longest, enough := int64(0), worst.waited/int64(2*(len(peers)-1))
	compare := func(timeOf func(*Device) int64) (excess, typical int64) {
		var others []int64
		for _, m := range peers {
			if m != worst {
				others = append(others, timeOf(m.Device))
			}
		}
		typical = stat.Median(others)
		return timeOf(worst.Device) - typical, typical
	}
	for g := range Communication {
		t, typical := compare(func(d *Device) int64 { return d.Group[g].Time })
		if t > max(longest, enough) {
			longest, s.Cause = t, "kernels"
			s.Why = fmt.Sprintf("its %s kernels take %.0f %% longer", g, 100*shareOf(t, typical))
		}
	}
	for c := range LaunchGap {
		if t, _ := compare(func(d *Device) int64 { return d.Idle[c] }); t > max(longest, enough) {
			longest, s.Cause, s.Why = t, "host", fmt.Sprintf("its host is %s longer in: %s", formatSeconds(t), c)
		}
	}
}
