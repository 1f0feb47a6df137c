package host

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// A host has a network namespace of its own with nothing but a loopback. The
// test process keeps it open, so that it outlives the host's reboots, and
// servers of the test can listen in it. It goes away with the last descriptor.

// newNetwork creates a namespace whose loopback is up.
func newNetwork() (*os.File, error) {
	var ns *os.File
	err := onOwnThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		if err := loopbackUp(); err != nil {
			return err
		}
		ns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return ns, err
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, request); err != nil {
		return fmt.Errorf("loopback up: %w", err)
	}
	request.SetUint16(request.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("loopback up: %w", err)
	}
	return nil
}

// onOwnThread runs f on a thread that is not used for anything else afterwards.
func onOwnThread(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		result <- f()
	}()
	return <-result
}

func enterNetwork(ns *os.File) error {
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the host's network: %w", err)
	}
	return nil
}

// Listen opens a socket of the test process in the host's network: what the
// host reaches at that loopback address is the test. It works while the host is
// off too, and stays open across reboots.
func (h *Host) Listen(network, address string) (l net.Listener, err error) {
	err = onOwnThread(func() error {
		if err := enterNetwork(h.network); err != nil {
			return err
		}
		l, err = net.Listen(network, address)
		return err
	})
	return l, err
}

// Dial connects to an address in the host's network.
func (h *Host) Dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = onOwnThread(func() error {
		if err := enterNetwork(h.network); err != nil {
			return err
		}
		// A numeric address and one attempt: nothing leaves this thread.
		d := net.Dialer{FallbackDelay: -1, Timeout: 10 * time.Second}
		c, err = d.DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// HTTP is a client in the host's network. It opens a connection for each
// request, so that each may reach another process of the agent.
func (h *Host) HTTP() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: h.Dial, DisableKeepAlives: true}}
}
