// Package faults has what sweeps of faults share: a small host of its own for
// the real updater, scenes of what it does there, and checks of what it leaves
// behind, whatever happened on the way.
//
// A World is folders, not a machine: data, links, units and the agent's
// configuration in places of their own, a find server that also serves the
// releases, an agent that only tells its version, and a database that SQLite
// made. systemd is kept away, so that nothing is restarted and one run takes
// some ten milliseconds. What a watch of the agent decides is for booted hosts.
package faults

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"teleport-update/find"
	"teleport-update/find/server"
	"teleport-update/find/server/files"
	"teleport-update/integration/trace"
	"teleport-update/internal/layout"
	"teleport-update/internal/version"
)

// Options say where a World is. Only Updater and Dir are required.
type Options struct {
	Updater string // the built program
	Dir     string // an empty folder for the World's own things
	// Where the host's folders are: below Dir if empty, as an ordinary host has them
	// below its root. They may be on file systems of their own.
	Data, Programs, Links, Units string
}

// World is one host in folders. Only one thing at a time may be done in it.
type World struct {
	Options
	Program     string // the updater that runs
	AgentConfig string

	server     *http.Server
	files      *files.Releases
	address    string
	usual      bool   // as Scene.Usual
	bootID     string // the file that has the host's boot id
	prefix     []string
	attributes *syscall.SysProcAttr
	catalog    map[string]content // of every release

	mu     sync.Mutex
	answer find.Answer
}

// New makes a World with an empty host.
func New(ctx context.Context, o Options) (*World, error) {
	for _, d := range []struct {
		field *string
		name  string
	}{{&o.Data, layout.DataDir}, {&o.Programs, "programs"}, {&o.Links, layout.LinkDir}, {&o.Units, layout.UnitDir}} {
		if *d.field == "" {
			*d.field = filepath.Join(o.Dir, root, d.name)
		}
	}
	w := &World{
		Options: o, catalog: make(map[string]content),
		Program: filepath.Join(o.Dir, "teleport-update"), AgentConfig: filepath.Join(o.Dir, "teleport.yaml"),
	}
	var err error
	w.bootID = filepath.Join(o.Dir, "boot_id")
	if err := w.Boots(); err != nil {
		return nil, err
	}
	if w.prefix, w.attributes, err = alone(w.bootID); err != nil {
		return nil, err
	}
	if err := copyFile(o.Updater, w.Program, 0o755); err != nil {
		return nil, err
	}
	config := "teleport:\n  data_dir: " + w.Data + "\n"
	if err := os.WriteFile(w.AgentConfig, []byte(config), 0o600); err != nil {
		return nil, err
	}
	if err := w.Reset(); err != nil {
		return nil, err
	}
	if err := w.serve(); err != nil {
		return nil, err
	}
	if err := w.buildReleases(); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Boots gives the host another boot id than it had, as each boot does.
func (w *World) Boots() error {
	b := make([]byte, 16)
	rand.Read(b)
	return os.WriteFile(w.bootID, fmt.Appendf(nil, "%x-%x-%x-%x-%x\n", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), 0o644)
}

// alone is how a program is run so that it sees neither the systemd nor the
// processes of the machine, which may not even let itself be looked at, and the boot
// id in a file of its own. An ordinary user's sees the machine's; then there must be
// no systemd.
func alone(bootID string) (prefix []string, attributes *syscall.SysProcAttr, err error) {
	if os.Geteuid() != 0 {
		if _, err := os.Lstat("/run/systemd/system"); !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, errors.New("systemd runs here, and to hide it from the updater takes root")
		}
		return nil, nil, nil
	}
	// What is unmounted outside goes away inside, too.
	const script = `mount --make-rslave / && mount -n -t proc proc /proc &&
		mount -n --bind "$0" /proc/sys/kernel/random/boot_id &&
		{ ! [ -d /run/systemd ] || mount -n -t tmpfs none /run/systemd; } && exec "$@"`
	return []string{"/bin/sh", "-c", script, bootID}, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}, nil
}

func (w *World) serve() error {
	dir := w.releases()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	files, err := files.OpenReleases(dir, log)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		files.Close()
		return err
	}
	w.files, w.address = files, "http://"+listener.Addr().String()
	w.server = &http.Server{
		Handler:  server.New(server.Options{Answers: w, Releases: files, Log: log}),
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
	}
	go w.server.Serve(listener)
	return nil
}

// Close ends the server. The folders stay.
func (w *World) Close() error {
	return errors.Join(w.server.Close(), w.files.Close())
}

// Wants makes find name a version.
func (w *World) Wants(v string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = find.Answer{Version: v, Edition: version.OSS, AutoUpdate: true}
}

// jitter makes find have hosts wait for up to that many seconds.
func (w *World) jitter(seconds int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer.Jitter = time.Duration(seconds) * time.Second
}

// Answer implements server.Answerer.
func (w *World) Answer(string, string) find.Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answer
}

func (w *World) releases() string { return filepath.Join(w.Dir, "releases") }

// Versions is the folder of the version store.
func (w *World) Versions() string { return filepath.Join(w.Data, "versions") }

// Policy is the folder with the rules of the host's owner, if there are any.
func (w *World) Policy() string { return filepath.Join(w.Data, "owner") }

// Database is the agent's.
func (w *World) Database() string { return filepath.Join(w.Data, "proc", "sqlite.db") }

// UnitFile is the agent's unit.
func (w *World) UnitFile() string { return filepath.Join(w.Units, "teleport.service") }

// Enable is the command line that enables updates on a host.
func (w *World) Enable() []string {
	return []string{"enable", "--proxy", w.address, "--template", w.address + files.ReleasesPath + files.NameTemplate}
}

// Command is a run of the updater in this World.
func (w *World) Command(args ...string) trace.Command {
	argv := append([]string{}, w.prefix...)
	if w.usual {
		argv = append(argv, w.inUsualPlaces()...)
	} else {
		argv = append(argv, w.Program, "--data-dir", w.Data, "--link-dir", w.Links, "--unit-dir", w.Units, "--agent-config", w.AgentConfig)
	}
	argv = append(argv, "--programs-dir", w.Programs, "--policy-dir", w.Policy())
	return trace.Command{
		Argv: append(argv, args...),
		Env:  []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "NO_PROXY=127.0.0.1"},
		Dir:  "/",

		Attributes: w.attributes,
	}
}

// Ran is how a run of the updater ended.
type Ran struct {
	Args   []string
	Code   int
	Output string // stdout and stderr
}

// Run runs the updater without any fault.
func (w *World) Run(ctx context.Context, args ...string) (Ran, error) {
	c := w.Command(args...)
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	var out bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = c.Env, c.Dir, &out, &out, c.Attributes
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return Ran{}, fmt.Errorf("run %v: %w", args, err)
	}
	return Ran{Args: args, Code: cmd.ProcessState.ExitCode(), Output: out.String()}, ctx.Err()
}

// Must is Run for what has to succeed.
func (w *World) Must(ctx context.Context, args ...string) error {
	r, err := w.Run(ctx, args...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%v: exit code %d: %s", args, r.Code, r.Output)
	}
	return err
}
