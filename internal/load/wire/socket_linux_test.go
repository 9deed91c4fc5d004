//go:build linux && (amd64 || arm64)

package wire

import (
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestStampTakesThePacketsTime(t *testing.T) {
	read := time.Now()
	tests := map[string]struct {
		kind int32
		lag  time.Duration // of the packet's time behind the read
		want time.Duration
	}{
		"a packet that waited":             {unix.SO_TIMESTAMPNS, 20 * time.Millisecond, 20 * time.Millisecond},
		"a wall clock that was set back":   {unix.SO_TIMESTAMPNS, -time.Millisecond, 0},
		"a wall clock that was set ahead":  {unix.SO_TIMESTAMPNS, 2 * maxLag, 0},
		"a message of another kind":        {unix.SO_TIMESTAMP, 20 * time.Millisecond, 0},
		"a packet that was read at once":   {unix.SO_TIMESTAMPNS, 0, 0},
		"a packet that waited a long time": {unix.SO_TIMESTAMPNS, maxLag - 1, maxLag - 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &Socket{at: read}
			*(*unix.Cmsghdr)(unsafe.Pointer(&s.control[0])) = unix.Cmsghdr{Level: unix.SOL_SOCKET, Type: tt.kind}
			ts := (*unix.Timespec)(unsafe.Pointer(&s.control[unix.SizeofCmsghdr]))
			*ts = unix.NsecToTimespec(read.Add(-tt.lag).UnixNano())
			s.msg.SetControllen(unix.CmsgSpace(int(unsafe.Sizeof(*ts))))
			s.stamp()
			clock := NewClock(read.Add(-time.Minute))
			if got, want := s.Arrived(clock), int64(time.Minute-tt.want); got != want {
				t.Errorf("arrived at %d, want %d", got, want)
			}
			counted := int64(0)
			if tt.kind == unix.SO_TIMESTAMPNS && tt.lag >= 0 && tt.lag < maxLag {
				counted = 1
			}
			if s.lags.Count() != counted || s.lags.Max() != tt.want {
				t.Errorf("%d lags, longest %s; want %d, %s", s.lags.Count(), s.lags.Max(), counted, tt.want)
			}
		})
	}
}

func TestStampNeedsAMessage(t *testing.T) {
	s := &Socket{at: time.Now()}
	s.stamp()
	if s.lag != 0 || s.lags.Count() != 0 {
		t.Errorf("lag %s, %d counted, of a read without a packet's time", s.lag, s.lags.Count())
	}
}
