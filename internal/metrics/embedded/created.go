package embedded

import (
	"math"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// zeroTimes says when the counters of a page were zero.
//
// At a target's first page the zero is at the counter's creation time, which the page exposes. A counter that
// appears later was zero at the page before, which did not have it.
type zeroTimes struct {
	pageInfo  scrape.Info
	pageTime  int64
	firstPage bool
	before    int64 // time of the page before
	process   int64 // start of the process, 0 when unknown
	created   map[identity]int64
}

// identity identifies a counter, or all series of one histogram or summary.
type identity struct {
	metric string
	labels uint64
}

// readCreationTimes reads the creation times of a page, and records FirstCreated.
func (t *target) readCreationTimes(info scrape.Info, ms int64) zeroTimes {
	z := zeroTimes{pageInfo: info, pageTime: ms, firstPage: !t.good, before: t.lastGood}
	if !z.firstPage {
		return z
	}
	z.created = make(map[identity]int64)
	earliest := int64(0)
	for _, c := range t.page {
		switch {
		case c.use == created:
			name := c.lset.Get(labels.MetricName)
			if at := z.milliseconds(c.value); at > 0 {
				z.created[identityWithoutBuckets(c.lset, strings.TrimSuffix(name, "_created"))] = at
				earliest = earlierTime(earliest, at)
			}
		case c.use == stored && c.lset.Get(labels.MetricName) == "process_start_time_seconds":
			z.process = earlierTime(z.process, z.milliseconds(c.value))
		}
	}
	t.created = earliest // not the process' start, which is minutes earlier because it loads its model
	if t.created == 0 {
		t.created = z.process
	}
	return z
}

// zeroTime returns the time at which a series was zero before its first sample; ok is false if that is
// unknown.
func (z *zeroTimes) zeroTime(c *lineState) (ms int64, ok bool) {
	if !(c.value >= 0) || c.unmeasured || !isCumulative(c.lset, z.pageInfo) {
		return 0, false
	}
	if !z.firstPage {
		return z.before, true
	}
	family := c.lset.Get(labels.MetricName)
	for _, suffix := range [...]string{"_bucket", "_sum", "_count", "_total", ""} {
		if base, cut := strings.CutSuffix(family, suffix); cut {
			if at, known := z.created[identityWithoutBuckets(c.lset, base)]; known {
				return at, true
			}
		}
	}
	return z.process, z.process > 0
}

// identityWithoutBuckets drops the bucket label, which creation times do not have.
func identityWithoutBuckets(l labels.Labels, family string) identity {
	hash, _ := l.HashWithoutLabels(nil, model.BucketLabel)
	return identity{family, hash}
}

// milliseconds converts an exposed Unix time in seconds to milliseconds. It returns 0 for a time after the page.
func (z *zeroTimes) milliseconds(seconds float64) int64 {
	ms := math.Floor(seconds * 1000)
	if !(ms > 0) || ms >= float64(z.pageTime) {
		return 0
	}
	return int64(ms)
}

// earlierTime returns the earlier of two times; 0 means no time.
func earlierTime(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
