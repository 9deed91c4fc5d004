// Package memnet connects clients and servers of one test without sockets. Tests in virtual time (testing/synctest)
// need it: the clock does not advance while a goroutine waits for a socket.
package memnet

import (
	"context"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
)

// A Network holds the listeners of a test. It is safe for concurrent use; the zero value is empty.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener // by host:port
}

// Listen listens at host:port. A later listener at the same address replaces this one.
func (n *Network) Listen(address string) net.Listener {
	l := &listener{address: address, conns: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil {
		n.listeners = map[string]*listener{}
	}
	n.listeners[address] = l
	return l
}

// DialContext connects to the listener at an address. Without a listener the connection is refused.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	if l == nil {
		return nil, refused
	}
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Transport speaks HTTP over the network, until the end of the test.
func (n *Network) Transport(t testing.TB) *http.Transport {
	tr := &http.Transport{DialContext: n.DialContext, MaxIdleConnsPerHost: 10}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// Serve answers HTTP at an address, host:port, until the end of the test.
func (n *Network) Serve(t testing.TB, address string, handler http.Handler) {
	srv := &http.Server{Handler: handler}
	l := n.Listen(address)
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(l) })
	t.Cleanup(func() {
		_ = srv.Close()
		wg.Wait()
	})
}

type listener struct {
	address string
	conns   chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return name(l.address) }

// name is a listener's address as a net.Addr.
type name string

func (name) Network() string  { return "memory" }
func (n name) String() string { return string(n) }
