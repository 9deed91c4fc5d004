package gateway

import (
	"errors"
	"syscall"

	"github.com/sixty-dev/sixty/internal/base/unanswered"
)

// rootCause is the end of an error's chain in words that hold no URL.
func rootCause(err error) string {
	err = unanswered.Cause(err)
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}

// clip bounds what is kept of a text that a client chose.
func clip(s string) string { return s[:min(len(s), maxLabel)] }
