package wire

import (
	"math/bits"
	"time"
)

// Lags counts how long data had lain in the kernel when it was read, in buckets
// of a quarter of an octave: a quantile is off by a tenth at most.
type Lags struct {
	counts [lagBuckets]uint32
	max    time.Duration
	n      int64
}

const lagBuckets = 4 * 36 // up to 2^36 ns, a minute

func (l *Lags) add(d time.Duration) {
	l.counts[lagBucket(d)]++
	l.n++
	l.max = max(l.max, d)
}

func lagBucket(d time.Duration) int {
	v := uint64(max(d, 4))
	octave := bits.Len64(v) - 1
	return min(octave*4+int(v>>(octave-2)&3), lagBuckets-1)
}

// lagValue is the middle of a bucket.
func lagValue(bucket int) time.Duration {
	octave, quarter := bucket/4, bucket%4
	low := time.Duration(4+quarter) << max(octave-2, 0)
	return low + low/time.Duration(8+2*quarter)
}

// Merge adds another connection's lags.
func (l *Lags) Merge(o *Lags) {
	for i, n := range o.counts {
		l.counts[i] += n
	}
	l.n += o.n
	l.max = max(l.max, o.max)
}

// Count is how many reads were counted.
func (l *Lags) Count() int64 { return l.n }

// Max is the longest lag.
func (l *Lags) Max() time.Duration { return l.max }

// Quantile returns the lag that the share q of the reads did not exceed.
func (l *Lags) Quantile(q float64) time.Duration {
	rank := int64(q * float64(l.n))
	for i, n := range l.counts {
		if rank -= int64(n); rank < 0 {
			return min(lagValue(i), l.max)
		}
	}
	return l.max
}
