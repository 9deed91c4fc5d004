//go:build !linux

package hostmetrics

// system reads nothing on systems without /proc.
type system struct{}

func newSystem(_, _ string) system { return system{} }

func (*system) fetchPage(string) []byte         { return nil }
func (*system) listeningProcesses(string) []int { return nil }
func (*system) parentProcess(int) int           { return 0 }
func (*system) commandName(int) string          { return "" }
