package load

import (
	"runtime"
	"syscall"
	"time"
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
