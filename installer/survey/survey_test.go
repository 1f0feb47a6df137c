package survey

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/executable"
	"teleport-update/internal/failure"
	"teleport-update/internal/procfs"
	"teleport-update/internal/version"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// counted is a host that counts how often each part of it is read.
type counted struct {
	reads map[string]int
	err   error // of each read
}

func (c counted) read(what string) error {
	c.reads[what]++
	return c.err
}

func (c counted) Config() (state.Config, error) {
	config := state.EmptyConfig()
	config.Spec.ActiveVersion, config.Status.ActiveEdition = "1.0.0", version.OSS
	return config, c.read("config")
}
func (c counted) Journal() (*transaction.Description, error) { return nil, c.read("journal") }
func (c counted) Ticks() state.Ticks                         { c.reads["ticks"]++; return state.Ticks{} }
func (c counted) History() (state.History, error)            { return state.History{}, c.read("history") }

func (c counted) Look(context.Context) (transaction.Sight, error) {
	return transaction.Sight{State: state.AgentRunning}, c.read("agent")
}
func (c counted) Unit(_ context.Context, name string) (systemd.Unit, error) {
	return systemd.Unit{Name: name}, c.read(name)
}
func (c counted) Close() { c.reads["close"]++ }

func (c counted) Problems(versions.Tree) ([]string, error)                   { return nil, c.read("links") }
func (c counted) CheckNextStart(context.Context, systemd.Unit, string) error { return nil }
func (c counted) CheckDatabaseThere(int, bool) error                         { return nil }
func (c counted) CheckStarts(systemd.Unit, versions.Tree) error              { return c.read("starts") }
func (c counted) Path() (string, error)                                      { return "/none", c.read("configuration") }
func (c counted) Servers() (string, error)                                   { return "", c.read("servers") }
func (c counted) CheckNeverEnabled() error                                   { return c.read("fits") }
func (c counted) CheckEnded(context.Context, state.Config) error             { return c.read("fits") }
func (c counted) CheckPair(context.Context, state.Config, versions.Tree) error {
	return c.read("pair")
}
func (c counted) Rescuer(context.Context) (string, int, error) {
	return "", 0, c.read("rescuer")
}
func (c counted) CheckRecovery(context.Context, systemd.Unit) *failure.Error { return nil }
func (c counted) OwnUnits() systemd.Units                                    { c.reads["own units"]++; return systemd.Units{} }

func surveyOf(t *testing.T, c counted) *Survey {
	t.Helper()
	dir := t.TempDir()
	paths := state.Paths{DataDir: dir, UnitDir: filepath.Join(dir, "units"), AgentConfig: filepath.Join(dir, "teleport.yaml")}
	return New(Sources{
		StateFiles: c, Place: c, Configuration: c, Updater: c, Fits: c, Store: versions.NewStore(paths.Versions()), Processes: procfs.Host(), Paths: paths, Now: time.Now,
		Connect: func(context.Context) (Manager, error) { c.reads["connect"]++; return c, nil },
	})
}

// all asks for every part, and returns which could not be read.
func all(s *Survey, ctx context.Context) map[string]error {
	unread := map[string]error{}
	_, unread["config"] = s.Config()
	_, unread["journal"] = s.Transaction()
	_, unread["history"] = s.History()
	s.Ticks()
	_, unread["agent"] = s.Agent(ctx)
	_, unread["own units"] = s.Own(ctx)
	_, unread["version"] = s.Version()
	_, unread["links"] = s.Links()
	_, unread["starts"] = s.Starts(ctx)
	_, unread["pair"] = s.Pair(ctx)
	_, unread["late"] = s.Late()
	_, unread["configuration"] = s.Configured()
	_, unread["servers"] = s.Servers()
	unread["fits"] = s.Fits(ctx)
	unread["rescuer"] = s.Rescuer(ctx)
	s.Kept(version.Release{Version: "0.9.0"})
	return unread
}

// TestEachPartIsReadOnce: whoever decides and whoever tells by one survey speak of one host.
func TestEachPartIsReadOnce(t *testing.T) {
	c := counted{reads: map[string]int{}}
	s := surveyOf(t, c)
	if len(c.reads) > 0 {
		t.Errorf("a new survey has read %v", c.reads)
	}
	for range 3 {
		all(s, t.Context())
	}
	s.Close()
	for _, what := range []string{"config", "journal", "ticks", "history", "connect", "agent", "configuration", "servers", "fits", "rescuer", "own units", "close",
		"teleport-update.timer", "teleport-update.service", "teleport-update-recover.service"} {
		if c.reads[what] != 1 {
			t.Errorf("%s is read %d times", what, c.reads[what])
		}
	}
}

// What cannot be read is not taken for what is not there.
func TestAPartThatCannotBeReadSaysWhy(t *testing.T) {
	why := errors.New("input/output error")
	c := counted{map[string]int{}, why}
	unread := all(surveyOf(t, c), t.Context())
	for _, what := range []string{"config", "journal", "history", "agent", "own units", "version", "links", "starts", "rescuer"} {
		if !errors.Is(unread[what], why) {
			t.Errorf("%s: %v", what, unread[what])
		}
	}
}

func TestAProgramThatCannotBeExecutedIsToldFromOneThatCannotBeSeen(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "teleport")
	write := func(mode os.FileMode) {
		t.Helper()
		_ = os.Remove(program)
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		prepare func()
		usable  bool
	}{
		"it can be":     {func() { write(0o755) }, true},
		"it may not be": {func() { write(0o644) }, false},
		"it is gone":    {func() { _ = os.Remove(program) }, false},
		"a folder":      {func() { _ = os.Remove(program); _ = os.Mkdir(program, 0o755) }, false},
	} {
		tc.prepare()
		if why, err := executable.Why(program); err != nil || (why == nil) != tc.usable {
			t.Errorf("%s: %v, %v", name, why, err)
		}
	}
	if why, err := executable.Why(filepath.Join(dir, string(make([]byte, 300)))); why != nil || err == nil {
		t.Errorf("a name that the kernel refuses: %v, %v", why, err)
	}
}

func TestAFolderOfUnitsIsThereAtBootOrNot(t *testing.T) {
	proc := procfs.FS{Proc: t.TempDir()}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(proc.Proc, "self"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "var", "usrlocal"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "local2"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("var/usrlocal", filepath.Join(dir, "local")); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ mount, units, want string }{
		"on /":                          {"/elsewhere", filepath.Join(dir, "local", "systemd"), ""},
		"a mount above it":              {filepath.Join(dir, "local2"), filepath.Join(dir, "local2", "lib", "systemd"), filepath.Join(dir, "local2")},
		"a link that leads to a mount":  {filepath.Join(dir, "var"), filepath.Join(dir, "local", "lib", "systemd"), filepath.Join(dir, "var")},
		"a mount with a similar name":   {filepath.Join(dir, "var", "usrlo"), filepath.Join(dir, "var", "usrlocal"), ""},
		"/usr, which is there at boot":  {"/usr", "/usr/lib/systemd/system", ""},
		"/usr/local, below it, is late": {"/usr/local", "/usr/local/lib/systemd/system", "/usr/local"},
	} {
		text := "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / " + tc.mount + " rw - ext4 /dev/sda2 rw\n"
		if err := os.WriteFile(filepath.Join(proc.Proc, "self", "mountinfo"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := LateMount(proc.MountAt, tc.units); err != nil || got != tc.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tc.want)
		}
	}
}
