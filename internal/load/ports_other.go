//go:build !linux

package load

// checkPorts leaves the check to the system, which fails a connection instead.
func checkPorts(int) error { return nil }
