package hostmetrics

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// resolveTimeout bounds the lookup of a host name.
const resolveTimeout = 2 * time.Second

// localServers lists the servers whose address is one of this machine's.
func localServers(ctx context.Context, servers []Server) []Server {
	own := map[netip.Addr]bool{}
	addrs, _ := net.InterfaceAddrs() // without them, loopback alone is known
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own[p.Addr().Unmap()] = true
		}
	}
	mine := func(a netip.Addr) bool {
		a = a.Unmap().WithZone("")
		return a.IsLoopback() || a.IsUnspecified() || own[a]
	}
	known := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(servers), func(s Server) bool {
		u, err := url.Parse(s.URL)
		if err != nil {
			return true
		}
		host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
		if _, asked := known[host]; !asked {
			known[host] = isHere(ctx, host, mine)
		}
		return !known[host]
	})
}

// isHere reports whether every address of a host is one of this machine's.
func isHere(ctx context.Context, host string, mine func(netip.Addr) bool) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return mine(a)
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for _, a := range addrs {
		if !mine(a) {
			return false
		}
	}
	return err == nil && len(addrs) > 0
}

// serverPort returns the port of a server's URL.
func serverPort(s Server) string {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return ""
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
