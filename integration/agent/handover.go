package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// A process that hands over starts the new one with two extra files, the pipe on
// which the new one says "ready" and the listening socket, and with the socket's
// address in this variable: as it was configured, a space, as it is.
const handoverVariable = "STAND_IN_HANDOVER"

const (
	readyFD  = 3
	socketFD = 4
	// readyLimit is how long the old process waits for the new one, as long as
	// Teleport does.
	readyLimit = 2 * time.Minute
)

// parent is the old process, seen from the new one.
type parent struct {
	ready      *os.File
	configured string
	address    string
}

// receiveParent returns nil if nobody hands over to this process.
func receiveParent() *parent {
	value, ok := os.LookupEnv(handoverVariable)
	if !ok {
		return nil
	}
	os.Unsetenv(handoverVariable)
	p := &parent{ready: os.NewFile(readyFD, "ready")}
	p.configured, p.address, _ = strings.Cut(value, " ")
	return p
}

// listen opens the address, or takes the parent's socket if it is the same one.
func (p *parent) listen(address string) (*socket, error) {
	if p != nil && p.configured == address {
		return newSocket(socketFD, p.address)
	}
	if p != nil {
		syscall.Close(socketFD)
	}
	return openSocket(address)
}

func (p *parent) sayReady() {
	p.ready.WriteString("ready")
	p.ready.Close()
}

// handOver starts a new process by the path that this one was started by, a link
// that may lead to another version by now, and returns nil once it is ready. A
// new process that died, or is not ready in time, is an error.
func (p *process) handOver() error {
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reader.Close()
	pid, err := syscall.ForkExec(os.Args[0], os.Args, &syscall.ProcAttr{
		Env:   append(os.Environ(), handoverVariable+"="+p.config.Teleport.DiagAddr+" "+p.socket.address),
		Files: []uintptr{0, 1, 2, writer.Fd(), uintptr(p.socket.fd)},
	})
	writer.Close()
	if err != nil {
		return fmt.Errorf("start the new process: %w", err)
	}
	child, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	exited := make(chan *os.ProcessState, 1)
	go func() {
		state, _ := child.Wait()
		exited <- state
	}()

	reader.SetReadDeadline(time.Now().Add(readyLimit))
	said, err := io.ReadAll(reader)
	switch {
	case string(said) == "ready":
		notifySystemd(fmt.Sprintf("MAINPID=%d", pid))
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		child.Kill()
		return fmt.Errorf("the new process %d was not ready within %v", pid, readyLimit)
	case err != nil:
		return err
	}
	return fmt.Errorf("the new process %d died before it was ready: %v", pid, <-exited)
}

// notifySystemd tells the service manager, if it wants to know (Type=notify).
func notifySystemd(message string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.Dial("unixgram", path)
	if err != nil {
		return
	}
	defer conn.Close()
	conn.Write([]byte(message))
}
