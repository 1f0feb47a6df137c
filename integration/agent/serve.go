package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"teleport-update/integration/agent/stamp"
)

// process is one running agent.
type process struct {
	self   stamp.Stamp
	config config
	// parent is the process that hands over to this one; nil when systemd or a
	// person started it.
	parent  *parent
	state   *state
	diag    *diag
	socket  *socket
	pidFile string
	pidLock *os.File
	// stopWriting ends the writer and returns when its last commit is done.
	stopWriting func()
}

// serve runs the agent until it is told to leave. It returns nil for an orderly
// end; an error ends the program with 1.
func serve(self stamp.Stamp, c config, pidFile string) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)

	p := &process{self: self, config: c, pidFile: pidFile, parent: receiveParent()}
	slog.Info("Starting.", "variant", self.Variant, "handover", p.parent != nil)
	switch {
	case self.Variant == stamp.ExitsAtStart:
		p.hesitate()
		return errors.New("this release exits at start")
	case self.Variant == stamp.ExitsZero:
		p.hesitate()
		return nil
	case slices.Contains(c.StandIn.BreaksOn, self.Version):
		p.hesitate()
		return errors.New("this release exits at start on this host")
	case self.Variant == stamp.DiesOnReload && p.parent == nil:
		return errors.New("this release exits at start and dies when it is handed over to")
	}
	if self.Variant == stamp.SlowToStart {
		time.Sleep(2 * time.Second)
	}
	if err := p.start(); err != nil {
		return err
	}
	if err := p.run(signals); err != nil {
		return err // a crash: the database is left as it is, in mid-write too
	}
	return p.state.close()
}

// start brings the process to the point where it serves and has told so to
// whoever waits for it.
func (p *process) start() (err error) {
	p.state, err = openState(p.config.Teleport.DataDir, p.self, p.config.StandIn.JournalMode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			p.state.close()
		}
	}()
	if p.self.Variant == stamp.MigratesThenExits {
		p.hesitate()
		return errors.New("this release exits after it has migrated the database")
	}
	if p.parent != nil && (p.self.Variant == stamp.DiesOnReload || p.self.Variant == stamp.HandoverDies) {
		return dieSoon()
	}
	p.socket, err = p.parent.listen(p.config.Teleport.DiagAddr)
	if err != nil {
		return fmt.Errorf("listen for diagnostics: %w", err)
	}
	slog.Info("Listening.", "diag_addr", p.socket.address)
	if p.pidFile != "" {
		if p.pidLock, err = writePIDFile(p.pidFile); err != nil {
			return err
		}
	}
	if p.parent != nil && p.self.Variant == stamp.HandoverDiesLate {
		return dieSoon()
	}

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.state.write(ctx, *p.config.StandIn.RowsPerSecond)
	}()
	if p.config.StandIn.Cluster != "" {
		go sayHello(ctx, p.self.Version, p.config)
	}
	p.stopWriting = func() { cancel(); <-done }

	// Not earlier: in a hand-over, what this process accepts the old one does not.
	p.diag = serveDiag(p.socket, p.self, p.state, p.parent != nil)
	if p.parent != nil {
		p.parent.sayReady()
	} else {
		notifySystemd("READY=1")
	}
	slog.Info("Started.", "schema", p.self.Schema)
	return nil
}

// hesitate takes the time that the real program, which is large, needs to find
// out that it cannot work. Under systemd even an agent that is gone at once must
// not go unnoticed, so there it does not.
func (p *process) hesitate() {
	if p.parent != nil {
		time.Sleep(200 * time.Millisecond)
	}
}

func dieSoon() error {
	time.Sleep(500 * time.Millisecond)
	return errors.New("this release dies when it is handed over to")
}

// run obeys signals: SIGHUP hands over and leaves, SIGQUIT leaves when the
// sessions are over, SIGTERM and SIGINT leave now.
func (p *process) run(signals <-chan os.Signal) error {
	var (
		crash    <-chan time.Time
		handover chan error
		left     chan struct{} // not nil: on the way out
	)
	if p.self.Variant == stamp.CrashLoops {
		crash = time.After(p.self.CrashAfter)
	}
	leave := func() {
		left = make(chan struct{})
		go func() {
			p.drain()
			close(left)
		}()
	}
	for {
		select {
		case <-crash:
			return errors.New("this release crashes")
		case <-left:
			slog.Info("Left: the last session is over.")
			return nil
		case err := <-handover:
			handover = nil
			if err != nil {
				slog.Error("Cannot hand over, this process serves on.", "error", err)
			} else if left == nil {
				slog.Info("Handed over, leaving when the sessions are over.")
				leave()
			}
		case sig := <-signals:
			slog.Info("Received a signal.", "signal", sig)
			switch {
			case sig == syscall.SIGHUP && p.self.Variant == stamp.IgnoresReload:
			case sig == syscall.SIGHUP && p.self.Variant == stamp.ReexecutesItself:
				return p.reexecute()
			case sig == syscall.SIGHUP:
				if handover == nil && left == nil {
					handover = make(chan error, 1)
					go func(result chan<- error) { result <- p.handOver() }(handover)
				}
			case p.self.Variant == stamp.HangsOnStop:
			case sig == syscall.SIGQUIT:
				if left == nil {
					leave()
				}
			default:
				p.stopWriting()
				p.sayLast()
				return nil
			}
		}
	}
}

// drain stops taking sessions and returns when the last one has ended. The
// database stays open, as long as the process lives.
func (p *process) drain() {
	p.stopWriting()
	p.sayLast()
	over := time.After(0)
	if p.self.Variant == stamp.Drains {
		over = time.After(p.self.DrainFor)
	}
	p.diag.leave()
	<-over
}

// sayLast tells which row was the last one that this process committed.
func (p *process) sayLast() {
	slog.Info("Stopped writing.", "last_row", p.state.lastRow.Load(), "failed_writes", p.state.failed.Load())
}

// reexecute replaces the program by the file it was started from: not by what
// the link leads to now.
func (p *process) reexecute() error {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	p.stopWriting()
	if err := p.state.close(); err != nil {
		return err
	}
	p.diag.server.Close()
	return fmt.Errorf("execute %s: %w", path, syscall.Exec(path, os.Args, os.Environ()))
}
