package embedded

import (
	"fmt"
	"sync"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// MaxTargetSeries bounds the series of one target that a named storage keeps in memory: the series of its page, and
// older ones, which stay until the next truncation of the head (two to three hours). Prometheus' sample_limit does
// not help against a page with new series at each scrape: it refuses the scrape, and the series that the scrape
// created stay.
const MaxTargetSeries = 2 * MaxPageSeries

// churn counts the series of each target in memory, and refuses series beyond MaxTargetSeries.
// It is a tsdb.SeriesLifecycleCallback, and safe for concurrent use.
type churn struct {
	mu       sync.Mutex
	max      int
	refusing bool // false while the write-ahead log is replayed, whose series are all accepted
	series   map[scrapedTarget]int
}

type scrapedTarget struct{ job, instance string }

var _ tsdb.SeriesLifecycleCallback = (*churn)(nil)

func scrapedOf(l labels.Labels) scrapedTarget {
	return scrapedTarget{l.Get(model.JobLabel), l.Get(model.InstanceLabel)}
}

func (c *churn) PreCreation(l labels.Labels) error {
	of := scrapedOf(l)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.refusing || of.instance == "" || c.series[of] < c.max {
		return nil
	}
	return fmt.Errorf("%w: the target has brought %d series since the last truncation of the "+
		"storage, at most %d are taken: "+
		"a label of its page has a new value at each scrape; drop it by metric_relabel_configs", ErrTooManySeries,
		c.series[of], c.max)
}

func (c *churn) PostCreation(l labels.Labels) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.series[scrapedOf(l)]++
}

func (c *churn) PostDeletion(gone map[chunks.HeadSeriesRef]labels.Labels) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range gone {
		of := scrapedOf(l)
		if c.series[of]--; c.series[of] <= 0 {
			delete(c.series, of)
		}
	}
}

func (c *churn) startRefusing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusing = true
}
