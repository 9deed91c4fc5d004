package gateway

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// watcher tells connections that their client has closed its side or is gone, as
// soon as the kernel knows, without a goroutine for each. A half-closed connection
// counts as one whose client left, as with net/http.
type watcher struct {
	file *os.File // of epoll
	raw  syscall.RawConn
	fd   int
	done chan struct{}

	mu    sync.Mutex
	last  uint64
	conns map[uint64]*leanConn
}

func newWatcher() (*watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	w := &watcher{file: os.NewFile(uintptr(fd), "clients"), fd: fd, done: make(chan struct{}), conns: map[uint64]*leanConn{}}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		w.file.Close()
		return nil, err
	}
	go w.run()
	return w, nil
}

// run waits for the kernel until the watcher is closed.
func (w *watcher) run() {
	defer close(w.done)
	events := make([]unix.EpollEvent, 128)
	for {
		n := 0
		if w.raw.Read(func(fd uintptr) bool {
			var err error
			for n, err = unix.EpollWait(int(fd), events, 0); err == unix.EINTR; n, err = unix.EpollWait(int(fd), events, 0) {
			}
			return n != 0 || err != nil
		}) != nil || n < 0 {
			return
		}
		for _, e := range events[:n] {
			w.mu.Lock()
			c := w.conns[uint64(uint32(e.Fd))|uint64(uint32(e.Pad))<<32]
			w.mu.Unlock()
			if c != nil {
				c.left()
			}
		}
	}
}

// add watches a connection until it is closed or forgotten.
func (w *watcher) add(c *leanConn) bool {
	raw, err := c.c.SyscallConn()
	if err != nil {
		return false
	}
	w.mu.Lock()
	w.last++
	c.id = w.last
	w.conns[c.id] = c
	w.mu.Unlock()
	e := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(uint32(c.id)), Pad: int32(uint32(c.id >> 32))}
	if raw.Control(func(fd uintptr) { err = unix.EpollCtl(w.fd, unix.EPOLL_CTL_ADD, int(fd), &e) }) != nil || err != nil {
		w.forget(c)
		return false
	}
	return true
}

// forget ends the watching.
func (w *watcher) forget(c *leanConn) {
	if c.id == 0 {
		return
	}
	w.mu.Lock()
	delete(w.conns, c.id)
	w.mu.Unlock()
	c.id = 0
	if raw, err := c.c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.EpollCtl(w.fd, unix.EPOLL_CTL_DEL, int(fd), nil) })
	}
}

func (w *watcher) close() {
	w.file.Close()
	<-w.done
}
