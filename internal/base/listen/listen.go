// Package listen opens the addresses at which sixty serves HTTP, and protects its handlers from slow and greedy
// clients.
//
// CutStalled closes connections whose client stops reading. Turns bound how many requests are computed concurrently, in
// total and for each user.
package listen

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Public reports whether other machines can reach a listener at an address.
func Public(addr string) bool {
	host, _, _ := net.SplitHostPort(addr)
	return host != "" && host != "localhost" && !net.ParseIP(host).IsLoopback()
}

// TCP listens at an address. A port without a host is opened on the loopback interface only. Errors name flag, with
// which the user set the address.
func TCP(ctx context.Context, flag, addr string) (net.Listener, error) {
	if strings.HasPrefix(addr, ":") {
		addr = "127.0.0.1" + addr
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, hint.With(fmt.Errorf("%s: %w", flag, err), "choose another address, such as "+flag+" :0")
	}
	return l, nil
}
