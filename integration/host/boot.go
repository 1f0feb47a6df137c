package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// bootLimit is how long a boot may take: usually it is a quarter of a second, but
// cloud-init belongs to it where it runs.
const bootLimit = 3 * time.Minute

// machine is one run of a host, from boot to power off.
type machine struct {
	leader int           // PID of the host's PID 1, seen from outside
	exited chan struct{} // closed when nspawn has exited
}

// Boot starts the host and returns when its systemd has finished starting up: all
// units of the default target are up or failed. A plain host is up at once.
func (h *Host) Boot(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fmt.Errorf("boot %s: the host is closed", h.Name)
	}
	if h.running != nil {
		return fmt.Errorf("boot %s: the host is running", h.Name)
	}
	m, err := h.boot(ctx)
	if err != nil {
		return fmt.Errorf("boot %s: %w\n%s", h.Name, err, tail(h.Console(), 30))
	}
	h.running = m
	go func() {
		<-m.exited
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.running == m {
			h.running = nil
		}
	}()
	return nil
}

func (h *Host) boot(ctx context.Context) (*machine, error) {
	// nspawn tells on this socket, an abstract one, which process is the
	// leader, and passes on when the host's systemd is ready.
	address := "@teleport-update-" + h.Name
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	console, err := os.OpenFile(h.consolePath(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer console.Close()

	args := []string{
		"systemd-nspawn", "--quiet", "--settings=no", "--register=no", "--keep-unit", "--machine=" + h.Name,
		"--directory=" + filepath.Join(h.Dir, "root"), "--console=pipe",
		"--kill-signal=SIGKILL", "--link-journal=no", "--resolv-conf=off", "--timezone=off",
		fmt.Sprintf("--network-namespace-path=/proc/%d/fd/%d", os.Getpid(), h.network.Fd()),
	}
	if h.plain {
		args = append(args, "--as-pid2", "sleep", "infinity")
	} else {
		args = append(args, "--boot", "--notify-ready=yes")
	}
	if h.disk {
		// What ran before may have ended without the kernel being done with it.
		if err := h.awaitUnmounted(ctx); err != nil {
			return nil, err
		}
		args = onDisk(h.Dir, args)
	}
	cmd := inCgroup(context.WithoutCancel(ctx), h.cgroup.join(""), args...)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+address)
	if h.cgroup.unified != "" {
		// One unified hierarchy inside, as on any host of today, whatever the
		// outside has.
		cmd.Env = append(cmd.Env, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1")
	}
	cmd.Stdout, cmd.Stderr = console, console
	// Killed, nspawn would leave the host running; SIGTERM makes it kill the host.
	exited, err := startDying(cmd, syscall.SIGTERM, nil)
	if err != nil {
		return nil, err
	}
	m := &machine{exited: exited}
	if m.leader, err = awaitReady(ctx, socket, exited); err != nil {
		cmd.Process.Signal(syscall.SIGTERM)
		<-exited
		return nil, err
	}
	return m, nil
}

// awaitReady reads nspawn's messages until one says that the host is ready.
func awaitReady(ctx context.Context, socket *net.UnixConn, exited <-chan struct{}) (leader int, err error) {
	ctx, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-stop:
		case <-ctx.Done():
			socket.SetReadDeadline(time.Unix(1, 0))
		case <-exited:
			socket.SetReadDeadline(time.Unix(1, 0))
		}
	}()
	message := make([]byte, 8192)
	for {
		n, err := socket.Read(message)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if ctx.Err() != nil {
				return 0, fmt.Errorf("not up: %w", context.Cause(ctx))
			}
			return 0, errors.New("nspawn has exited")
		}
		if err != nil {
			return 0, err
		}
		ready := false
		for line := range strings.Lines(string(message[:n])) {
			switch name, value, _ := strings.Cut(strings.TrimSpace(line), "="); name {
			case "X_NSPAWN_LEADER_PID":
				if leader, err = strconv.Atoi(value); err != nil {
					return 0, err
				}
			case "READY":
				ready = true
			}
		}
		if ready && leader != 0 {
			return leader, nil
		}
	}
}

// PowerOff shuts the host down in good order and returns when it is off. On a
// plain host it is Kill.
func (h *Host) PowerOff(ctx context.Context) error {
	if h.plain {
		return h.Kill()
	}
	if r, err := h.Run(ctx, "systemctl", "--no-wall", "poweroff"); err != nil && !errors.Is(err, ErrOff) {
		return err
	} else if r.Code != 0 && h.Running() {
		return fmt.Errorf("power off %s: %s", h.Name, r.Stderr)
	}
	return h.WaitOff(ctx)
}

// Reboot shuts the host down in good order and boots it again.
func (h *Host) Reboot(ctx context.Context) error {
	if err := h.PowerOff(ctx); err != nil {
		return err
	}
	return h.Boot(ctx)
}

// Kill ends every process of the host at once, as a power cut does.
func (h *Host) Kill() error {
	m, err := h.machine()
	if err != nil {
		return err
	}
	if err := syscall.Kill(m.leader, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		return err
	}
	return h.WaitOff(context.Background())
}

// WaitOff returns when the host is off. A host that was told to reboot from
// inside is off too, until Boot.
func (h *Host) WaitOff(ctx context.Context) error {
	m, err := h.machine()
	if errors.Is(err, ErrOff) {
		return nil
	}
	select {
	case <-m.exited:
	case <-ctx.Done():
		return fmt.Errorf("%s is still on: %w", h.Name, context.Cause(ctx))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running == m {
		h.running = nil
	}
	return nil
}

// Running reports whether the host is on.
func (h *Host) Running() bool {
	_, err := h.machine()
	return err == nil
}

func (h *Host) machine() (*machine, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running == nil {
		return nil, fmt.Errorf("%s: %w", h.Name, ErrOff)
	}
	return h.running, nil
}

// Console returns what all boots of the host wrote to its console.
func (h *Host) Console() string {
	data, err := os.ReadFile(h.consolePath())
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (h *Host) consolePath() string { return filepath.Join(h.Dir, "console.log") }

// startDying starts a command that the kernel sends a signal when this process
// dies, in the network namespace if one is given. The channel is closed when it
// has exited.
func startDying(cmd *exec.Cmd, signal syscall.Signal, network *os.File) (exited chan struct{}, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = signal
	exited = make(chan struct{})
	started := make(chan error)
	go func() {
		// The signal comes when the thread that started the command ends: keep it.
		runtime.LockOSThread()
		if network != nil {
			if err := enterNetwork(network); err != nil {
				started <- err
				return
			}
		}
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
			close(exited)
		}
		if network == nil {
			runtime.UnlockOSThread()
		}
	}()
	return exited, <-started
}

// inCgroup is a command that enters the groups first.
func inCgroup(ctx context.Context, files []string, args ...string) *exec.Cmd {
	const script = `while [ "$1" != -- ]; do echo $$ >"$1" || exit 125; shift; done; shift; exec "$@"`
	all := append([]string{"-c", script, "sh"}, files...)
	return exec.CommandContext(ctx, "sh", append(append(all, "--"), args...)...)
}
