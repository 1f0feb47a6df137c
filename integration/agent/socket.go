package main

import (
	"errors"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// socket is a listening socket that the old and the new process of a hand-over
// share, so that no connection is refused or reset in between.
//
// It is not a net.TCPListener, because those cannot be shared while both sides
// accept: os.File switches a descriptor to blocking mode on its way to another
// process, the mode belongs to both sides, and an Accept that began in that
// moment cannot be ended by Close.
type socket struct {
	fd      int
	address string // that it is bound to
	closed  [2]int // a pipe: its end means "closed"
	once    sync.Once
}

type socketAddr string

func (a socketAddr) Network() string { return "tcp" }
func (a socketAddr) String() string  { return string(a) }

func openSocket(address string) (*socket, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var dupErr error
	if err := raw.Control(func(original uintptr) {
		fd, dupErr = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0)
	}); err != nil {
		return nil, err
	}
	if dupErr != nil {
		return nil, dupErr
	}
	return newSocket(fd, l.Addr().String())
}

func newSocket(fd int, address string) (*socket, error) {
	s := &socket{fd: fd, address: address}
	unix.CloseOnExec(fd)
	return s, unix.Pipe2(s.closed[:], unix.O_CLOEXEC)
}

// Accept waits for a connection, or for Close.
func (s *socket) Accept() (net.Conn, error) {
	for {
		events := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}, {Fd: int32(s.closed[0]), Events: unix.POLLIN}}
		if _, err := unix.Poll(events, -1); err != nil && err != unix.EINTR {
			return nil, os.NewSyscallError("poll", err)
		}
		if events[1].Revents != 0 {
			unix.Close(s.fd)
			return nil, net.ErrClosed
		}
		fd, _, err := unix.Accept4(s.fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) {
			continue // the other process was faster, or the client has left
		}
		if err != nil {
			return nil, os.NewSyscallError("accept", err)
		}
		f := os.NewFile(uintptr(fd), "connection")
		conn, err := net.FileConn(f)
		f.Close()
		return conn, err
	}
}

// Close ends Accept, which closes this process's side of the socket.
func (s *socket) Close() error {
	s.once.Do(func() { unix.Close(s.closed[1]) })
	return nil
}

func (s *socket) Addr() net.Addr { return socketAddr(s.address) }
