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
			k := &packetReader{}
			*(*unix.Cmsghdr)(unsafe.Pointer(&k.control[0])) = unix.Cmsghdr{Level: unix.SOL_SOCKET, Type: tt.kind}
			ts := (*unix.Timespec)(unsafe.Pointer(&k.control[unix.SizeofCmsghdr]))
			*ts = unix.NsecToTimespec(read.Add(-tt.lag).UnixNano())
			(*unix.Cmsghdr)(unsafe.Pointer(&k.control[0])).SetLen(unix.CmsgLen(int(unsafe.Sizeof(*ts))))
			k.told = unix.CmsgSpace(int(unsafe.Sizeof(*ts)))
			if got := k.packetLag(read); got != tt.want {
				t.Errorf("a lag of %s, want %s", got, tt.want)
			}
		})
	}
}

func TestStampNeedsAMessage(t *testing.T) {
	k := &packetReader{}
	if got := k.packetLag(time.Now()); got != 0 {
		t.Errorf("a lag of %s of a read without a packet's time", got)
	}
}
