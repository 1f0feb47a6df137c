//go:build hosts

package order

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	insideVariable = "ORDER_INSIDE"
	// memory is where hosts live: a file system of the tests' own, on which a sync
	// costs nothing, and that is gone with them.
	memory = "/mnt"
)

// outside runs this test again, as the first process of a namespace: the updater
// removes no version before it knows what every process on the host executes,
// and not every host lets it see that.
func outside() int {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "SKIPPED, nothing was tested: the order of calls needs root")
		if os.Getenv("CI") == "true" {
			return 1
		}
		return 0
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	// The kernel sends that signal when the thread ends that started the process.
	runtime.LockOSThread()
	if err := cmd.Run(); err != nil && (cmd.ProcessState == nil || !cmd.ProcessState.Exited()) {
		fmt.Fprintln(os.Stderr, "the tests ended with:", err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// inside gives the namespace its own /proc and the hosts their memory.
func inside() error {
	nameSignals()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// Where systemd runs, the updater must not reach it.
	if err := unix.Mount("run", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("hide /run: %w", err)
	}
	if err := unix.Mount("order", memory, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mount a file system in memory: %w", err)
	}
	return nil
}

// nameSignals says which signal comes. The first process of a namespace does not die of
// one: Go's runtime then ends it with code 2, without a word. A signal that asks for
// the end ends the tests; others are nobody's wish.
func nameSignals() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGPIPE,
		unix.SIGVTALRM, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGIO, unix.SIGPWR)
	go func() {
		for s := range signals {
			fmt.Fprintf(os.Stderr, "the tests were sent the signal %q\n", s)
			switch s {
			case unix.SIGINT, unix.SIGQUIT, unix.SIGTERM:
				os.Exit(1)
			}
		}
	}()
}
