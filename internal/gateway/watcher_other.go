//go:build !linux

package gateway

import "errors"

// watcher exists on Linux only; elsewhere net/http serves every connection.
type watcher struct{}

func newWatcher() (*watcher, error) { return nil, errors.ErrUnsupported }
func (*watcher) add(*leanConn) bool { return false }
func (*watcher) forget(*leanConn)   {}
func (*watcher) close()             {}
