package load

import (
	"fmt"
	"os"

	"github.com/sixty-dev/sixty/internal/hint"
)

// checkPorts refuses more connections to one address than there are local ports.
func checkPorts(streams int) error {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return nil
	}
	var low, high int
	if _, err := fmt.Sscan(string(b), &low, &high); err != nil {
		return nil
	}
	if have := high - low + 1; streams > have {
		return hint.With(fmt.Errorf("%d streams to one address need as many local ports, the system has %d", streams, have),
			`widen the range with sysctl -w net.ipv4.ip_local_port_range="1024 65535", or run the test on several machines and merge the results`)
	}
	return nil
}
