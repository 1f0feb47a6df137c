package host

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Segment is a network that hosts share: each has an address in it, and they reach each other there and nobody
// else. It outlives their reboots, and is gone with Close.
type Segment struct {
	bridge *os.File // a namespace of its own, with the bridge alone

	mu     sync.Mutex
	cables int
}

// NewSegment makes one without hosts. It needs iproute2, and installs it if it is missing.
func NewSegment(ctx context.Context) (*Segment, error) {
	if _, err := exec.LookPath("ip"); err != nil {
		if err := Install(ctx, "iproute2"); err != nil {
			return nil, err
		}
	}
	ns, err := newNetwork()
	if err != nil {
		return nil, err
	}
	s := &Segment{bridge: ns}
	if err := s.ip(ctx, ns, "link add bridge0 type bridge", "link set bridge0 up"); err != nil {
		return nil, err
	}
	return s, nil
}

// Close takes the segment away. Hosts that are still there lose their addresses.
func (s *Segment) Close() error { return s.bridge.Close() }

// Join gives a host an address in the segment, such as 192.0.2.11/24.
func (s *Segment) Join(ctx context.Context, h *Host, address string) error {
	s.mu.Lock()
	s.cables++
	port := fmt.Sprintf("port%d", s.cables)
	s.mu.Unlock()
	err := s.ip(ctx, s.bridge, "link add "+port+" type veth peer name eth0 netns "+pathOf(h.network),
		"link set "+port+" master bridge0", "link set "+port+" up")
	if err != nil {
		return err
	}
	return s.ip(ctx, h.network, "address add "+address+" dev eth0", "link set eth0 up")
}

// ip runs commands of ip(8) in a namespace.
func (s *Segment) ip(ctx context.Context, ns *os.File, commands ...string) error {
	for _, c := range commands {
		args := append([]string{"--net=" + pathOf(ns), "ip"}, strings.Fields(c)...)
		if out, err := exec.CommandContext(ctx, "nsenter", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w\n%s", c, err, out)
		}
	}
	return nil
}

// pathOf is a path by which other processes open what this one has open.
func pathOf(f *os.File) string {
	return filepath.Join("/proc", fmt.Sprint(os.Getpid()), "fd", fmt.Sprint(f.Fd()))
}
