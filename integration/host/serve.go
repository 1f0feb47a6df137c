package host

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// Server is a program that runs outside of a host, with the outside's files, but
// in the host's network: to the host it is at a loopback address. It outlives
// reboots.
type Server struct {
	cmd    *exec.Cmd
	output buffer
	exited <-chan struct{}
}

// Serve starts a program of the outside in the host's network. It ends with Stop
// or with the host's Close.
func (h *Host) Serve(path string, args ...string) (*Server, error) {
	s := &Server{}
	s.cmd = inCgroup(h.ctx, h.cgroup.join(""), append([]string{path}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	var err error
	if s.exited, err = startDying(s.cmd, syscall.SIGKILL, h.network); err != nil {
		return nil, fmt.Errorf("serve %s: %w", path, err)
	}
	return s, nil
}

// ServeFind builds teleport-find and serves it with these arguments, and returns
// when something accepts connections at address, host and port.
func (h *Host) ServeFind(ctx context.Context, address string, args ...string) (*Server, error) {
	path, err := Build(ctx, Find())
	if err != nil {
		return nil, err
	}
	s, err := h.Serve(path, args...)
	if err != nil {
		return nil, err
	}
	return s, h.AwaitListening(ctx, s, address)
}

// AwaitListening returns when a server accepts connections at address, host and port.
func (h *Host) AwaitListening(ctx context.Context, s *Server, address string) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for {
		c, err := h.Dial(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-s.exited:
			return fmt.Errorf("the server has exited: %s", s.Output())
		case <-ctx.Done():
			return fmt.Errorf("nothing listens at %s: %w\n%s", address, err, s.Output())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Output returns what the server has written so far, both streams.
func (s *Server) Output() string { return s.output.String() }

// Stop kills the server and returns when it is gone.
func (s *Server) Stop() {
	s.cmd.Process.Kill()
	<-s.exited
}
