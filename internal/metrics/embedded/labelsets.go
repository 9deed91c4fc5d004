package embedded

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/schema"
)

// A change says which labels an operation keeps, or drops.
type change struct {
	keepNamed  bool
	labelNames []string
	metadata   bool // it drops the metric name too
}

func (c *change) appendKey(b []byte) []byte {
	b = append(b, '-', '.')
	if c.keepNamed {
		b[0] = '+'
	}
	if c.metadata {
		b[1] = 'm'
	}
	for _, n := range c.labelNames {
		b = append(append(b, n...), 0xff)
	}
	return b
}

// labelSets numbers label sets, from 1 on.
type labelSets struct {
	sets    []labels.Labels
	byHash  map[uint64]int32
	next    []int32 // the next set with the same hash
	metrics []model.Metric
	changed map[string]*[]int32 // by change, by number; 0 until it is computed
	builder *labels.Builder
	place   []int32 // scratch: by number, 0 between uses
}

func newLabelSets() *labelSets {
	return &labelSets{
		sets: make([]labels.Labels, 1), next: make([]int32, 1), metrics: make([]model.Metric, 1),
		byHash: map[uint64]int32{}, changed: map[string]*[]int32{}, builder: labels.NewBuilder(labels.EmptyLabels()),
	}
}

// numberOf returns the number of a label set.
func (l *labelSets) numberOf(set labels.Labels) int32 {
	hash := set.Hash()
	first := l.byHash[hash]
	for i := first; i != 0; i = l.next[i] {
		if labels.Equal(l.sets[i], set) {
			return i
		}
	}
	i := int32(len(l.sets))
	l.sets, l.next, l.metrics = append(l.sets, set), append(l.next, first), append(l.metrics, nil)
	l.byHash[hash] = i
	return i
}

// metricOf returns a label set as a model.Metric. It is shared and must not be written to.
func (l *labelSets) metricOf(id int32) model.Metric {
	if l.metrics[id] == nil {
		l.metrics[id] = metricFromLabels(l.sets[id])
	}
	return l.metrics[id]
}

// applyChange returns the number of the changed label set.
func (l *labelSets) applyChange(c *change, id int32) int32 {
	set := l.sets[id]
	if c.metadata {
		set = set.DropReserved(schema.IsMetadataLabel)
	}
	l.builder.Reset(set)
	if c.keepNamed {
		l.builder.Keep(c.labelNames...)
	} else {
		l.builder.Del(c.labelNames...)
	}
	return l.numberOf(l.builder.Labels())
}

// mapperFor returns a function from a label set's number to the number of the changed set.
func (l *labelSets) mapperFor(c *change) func(int32) int32 {
	var room [128]byte
	key := c.appendKey(room[:0])
	table := l.changed[string(key)]
	if table == nil {
		table = new([]int32)
		l.changed[string(key)] = table
	}
	return func(id int32) int32 {
		if n := len(l.sets); int(id) >= len(*table) {
			*table = append(*table, make([]int32, n-len(*table)+n/8)...)
		}
		to := (*table)[id]
		if to == 0 {
			to = l.applyChange(c, id)
			(*table)[id] = to
		}
		return to
	}
}

// clearedPlaces returns the scratch table, which has an entry for each number.
func (l *labelSets) clearedPlaces() []int32 {
	if len(l.place) < len(l.sets) {
		l.place = make([]int32, len(l.sets)+len(l.sets)/4)
	}
	return l.place
}
