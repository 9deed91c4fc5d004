//go:build unix

package load

import (
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// processorTime is the user and system time that the process has used.
func processorTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// residentPeak is the largest resident memory that the process has had, in bytes.
func residentPeak() uint64 {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return uint64(r.Maxrss) // bytes there, kilobytes elsewhere
	}
	return uint64(r.Maxrss) << 10
}

// spareFiles is what the process needs besides its connections.
const spareFiles = 64

// checkFiles refuses a number of streams that the limit of open files does not
// allow. Go raises the soft limit to the hard one when it starts.
func checkFiles(streams int) error {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return nil
	}
	if need := uint64(streams + spareFiles); uint64(l.Cur) < need {
		return hint.With(fmt.Errorf("%d streams need %d open files, the limit is %d", streams, need, l.Cur),
			fmt.Sprintf("raise it with ulimit -n %d, or in a container with --ulimit nofile=%d", need, need))
	}
	return nil
}
