package load

import (
	"runtime"
	"syscall"
	"time"
)

// processorTime returns the user and system time of the process.
func processorTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// residentPeak returns the largest resident memory of the process, in bytes.
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
