// Package listen opens the addresses at which sixty answers, and bounds how long answers may wait to be read and what is
// computed for them at a time.
package listen

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Public reports whether other machines can reach what listens at an address.
func Public(addr string) bool {
	host, _, _ := net.SplitHostPort(addr)
	return host != "" && host != "localhost" && !net.ParseIP(host).IsLoopback()
}

// TCP listens at an address; a port alone is one of the loopback interface. Flag is what
// the address came from.
func TCP(ctx context.Context, flag, addr string) (net.Listener, error) {
	if strings.HasPrefix(addr, ":") { // loopback, unless a host is given
		addr = "127.0.0.1" + addr
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, hint.With(fmt.Errorf("%s: %w", flag, err), "choose another address, such as "+flag+" :0")
	}
	return l, nil
}
