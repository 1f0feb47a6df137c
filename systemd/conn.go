// Package systemd asks the host's service manager for everything an update needs: the
// state of a unit, its jobs, signals about both, a unit of its own for a program that
// must outlive its caller, and the files of the updater's own units.
//
// It speaks D-Bus, to systemd's private socket first: that one works without a
// message bus, which may be missing or may be restarting. A broken
// connection is made anew, because systemd drops all connections when it
// re-executes itself (an upgrade of systemd does that).
//
// The result of a job says nothing about health: the job that starts a service is done
// even if the service dies at once. Package health judges whether the service works.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	sdbus "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

var (
	// ErrNotRunning means that no systemd manages this host: an image build, a plain
	// container, a chroot.
	ErrNotRunning = errors.New("systemd is not running here")
	// ErrUnreachable means that systemd manages this host, and does not answer now: it may be
	// re-executing itself.
	ErrUnreachable = errors.New("systemd cannot be reached")
)

const (
	// callLimit bounds one D-Bus call that does not wait for a job. A daemon-reload
	// of a host with very many units takes seconds.
	callLimit = 90 * time.Second
	// dialLimit bounds how long a failed first connection is tried again: systemd needs about a
	// second to re-execute itself, and an upgrade of systemd may do so twice.
	dialLimit = 15 * time.Second
	// redialLimit is the same limit for a connection that broke. The caller may have stopped the
	// agent, and has to outlast whatever prevents its start.
	redialLimit = 90 * time.Second
	redialPause = 50 * time.Millisecond
)

// Conn is a connection to the service manager. Its methods may be called from
// several goroutines at once.
type Conn struct {
	// Waits is called once for a job that waits long for other jobs, and goes on waiting; nil: it is not. It
	// is set before the first job.
	Waits func(*BlockedError)
	// Withdrew is called if the start of a unit waited too long for starts of other units, which it wants and does not
	// need, and those starts were taken back; nil: it is not. It is set before the first job.
	Withdrew func(unit string, others []string)

	dialer dialer

	mu     sync.Mutex
	link   *link
	closed bool
}

// Dial connects to the host's systemd. The error matches ErrNotRunning if there is no systemd, and
// ErrUnreachable if it does not answer for as long as it may need to re-execute itself. If ctx
// ends first, the error is the cause of ctx and matches neither.
func Dial(ctx context.Context) (*Conn, error) { return DialRoot(ctx, "/") }

// DialRoot is Dial for the systemd whose sockets are under root.
func DialRoot(ctx context.Context, root string) (*Conn, error) {
	return dialer{root, dialLimit, callLimit}.dial(ctx)
}

func (d dialer) dial(ctx context.Context) (*Conn, error) {
	if err := d.booted(); err != nil {
		return nil, err
	}
	for giveUp := time.Now().Add(d.again); ; {
		l, err := d.link(ctx)
		switch {
		case err == nil:
			return &Conn{dialer: d, link: l}, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !time.Now().Before(giveUp):
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		sleep(ctx, nil, redialPause)
	}
}

// Close ends the connection.
func (c *Conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.link.api.Close()
}

// Stopping reports whether the host is shutting down.
func (c *Conn) Stopping(ctx context.Context) (bool, error) {
	state, err := do(ctx, c, func(ctx context.Context, l *link) (string, error) {
		return l.get(ctx, managerPath, "org.freedesktop.systemd1.Manager", "SystemState")
	})
	return state == "stopping", err
}

// DaemonReload makes systemd read all unit files anew and waits until it has.
func (c *Conn) DaemonReload(ctx context.Context) error {
	_, err := do(ctx, c, func(ctx context.Context, l *link) (struct{}, error) {
		return struct{}{}, l.api.ReloadContext(ctx)
	})
	if err != nil {
		return fmt.Errorf("make systemd read its unit files: %w", err)
	}
	return nil
}

const managerPath = dbus.ObjectPath("/org/freedesktop/systemd1")

// do makes one call that may safely be made twice. If the connection in use broke, it uses a new
// one.
func do[T any](ctx context.Context, c *Conn, call func(context.Context, *link) (T, error)) (T, error) {
	giveUp := time.Now().Add(redialLimit)
	for {
		value, err := once(ctx, c, call)
		if !errors.Is(err, ErrBroken) || ctx.Err() != nil || time.Now().After(giveUp) {
			return value, err
		}
		sleep(ctx, nil, redialPause)
	}
}

// once is do for a call that must not be made twice. Its error matches ErrBroken
// if the connection broke: the call may have had its effect or not.
func once[T any](ctx context.Context, c *Conn, call func(context.Context, *link) (T, error)) (T, error) {
	var zero T
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	l, err := c.connected(ctx)
	if err != nil {
		return zero, err
	}
	value, err := call(ctx, l)
	if isWire(err) {
		l.api.Close()
	}
	if err != nil && !l.api.Connected() {
		err = fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return value, err
}

// isWire reports whether an error is one of the connection, not an answer of systemd. The connection itself
// counts as up until its reader has seen the end, which may be later than a write that fails.
func isWire(err error) bool {
	_, wire := errors.AsType[*net.OpError](err)
	return wire
}

var (
	// ErrBroken means that the connection broke, and that systemd could not be asked
	// again in time.
	ErrBroken = errors.New("the connection to systemd broke")
	errClosed = errors.New("the connection to systemd is closed")
)

// connected returns the connection in use, or a new one if that broke.
func (c *Conn) connected(ctx context.Context) (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	if c.link.api.Connected() {
		return c.link, nil
	}
	l, err := c.dialer.link(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	c.link.api.Close()
	c.link = l
	return l, nil
}

// A link is one connection. go-systemd makes two of it, the first for calls and
// the second for signals.
type link struct {
	api     *sdbus.Conn
	calls   *dbus.Conn
	signals *dbus.Conn
	hub     *signalHub
}

// get returns a property that is a string.
func (l *link) get(ctx context.Context, path dbus.ObjectPath, iface, name string) (string, error) {
	var value dbus.Variant
	err := l.calls.Object("org.freedesktop.systemd1", path).
		CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, iface, name).Store(&value)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	text, _ := value.Value().(string)
	return text, nil
}

// A dialer connects to the systemd whose files are under root.
type dialer struct {
	root  string
	again time.Duration // how long a failed dial is tried again
	limit time.Duration // for one dial without an answer
}

// booted applies the rule of sd_booted(3), and also recognises a chroot that has the host's /run:
// there systemd exists, but it manages another tree.
func (d dialer) booted() error {
	if _, err := os.Lstat(filepath.Join(d.root, "run/systemd/system")); err != nil {
		return fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	ours, err1 := os.Stat(d.root)
	theirs, err2 := os.Stat(filepath.Join(d.root, "proc/1/root"))
	if err1 == nil && err2 == nil && !os.SameFile(ours, theirs) {
		return fmt.Errorf("%w: this is a chroot", ErrNotRunning)
	}
	return nil
}

// link connects root to the private socket. It connects other users to the system bus, and root,
// too, if the private socket fails.
func (d dialer) link(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d.limit, fmt.Errorf("no answer within %v", d.limit))
	defer cancel()
	var private error
	if os.Geteuid() == 0 {
		l, err := connect(ctx, filepath.Join(d.root, "run/systemd/private"), false)
		if err == nil {
			return l, nil
		}
		private = fmt.Errorf("connect to its private socket: %w", err)
	}
	l, err := connect(ctx, filepath.Join(d.root, "run/dbus/system_bus_socket"), true)
	if err != nil {
		return nil, errors.Join(private, fmt.Errorf("connect to the system bus: %w", err))
	}
	return l, nil
}

// connect runs beside its caller, because neither the dialling nor the handshake
// can be interrupted.
func connect(ctx context.Context, socket string, hello bool) (*link, error) {
	type result struct {
		link *link
		err  error
	}
	done := make(chan result, 1)
	go func() {
		l := &link{hub: &signalHub{listeners: map[*Listener]bool{}}}
		var err error
		l.api, err = sdbus.NewConnection(func() (_ *dbus.Conn, err error) {
			if l.calls == nil {
				l.calls, err = open(socket, hello)
				return l.calls, err
			}
			l.signals, err = open(socket, hello, dbus.WithSignalHandler(l.hub))
			return l.signals, err
		})
		if err == nil && hello {
			// Without this the bus carries no signals for a client that only polls.
			if err = l.api.Subscribe(); err != nil {
				l.api.Close()
				err = fmt.Errorf("subscribe to systemd's signals: %w", err)
			}
		}
		done <- result{l, err}
	}()
	select {
	case r := <-done:
		return r.link, r.err
	case <-ctx.Done():
		go func() {
			if r := <-done; r.err == nil {
				r.link.api.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

func open(socket string, hello bool, options ...dbus.ConnOption) (*dbus.Conn, error) {
	conn, err := dbus.Dial("unix:path="+dbus.EscapeBusAddressValue(socket), options...)
	if err != nil {
		return nil, err
	}
	// EXTERNAL by number: by name it would need a user database.
	err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err == nil && hello {
		err = conn.Hello()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
