package host

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
	"teleport-update/internal/procfs"
	"teleport-update/internal/space"
	"teleport-update/systemd"
)

// CheckCanStart says what keeps systemd from starting the agent again, as far as that shows without trying: an agent that
// serves is not to be stopped for a start that is known to fail. Each error is a *failure.RefusedError, for all the causes
// are an administrator's. database is the path of the agent's database; empty means that it has none. ask is called for the
// services that systemd starts first.
func (h *Host) CheckCanStart(ctx context.Context, u systemd.Unit, database string, ask AskUnit) error {
	if u.LoadState == "" || u.LoadState == "not-found" {
		return nil // nobody starts it here
	}
	switch {
	case u.LoadState == "masked":
		return failure.Refuse("%s is masked: `%s` first", u.Name, systemd.Unmask(u.Name))
	case u.LoadState != "loaded":
		return failure.Refuse("systemd has %s as %s: %s", u.Name, u.LoadState, mendUnit(u))
	case u.Ties.RefusesStart:
		return failure.Refuse("systemd does not start %[1]s when asked (RefuseManualStart=): `systemctl cat %[1]s` shows where that is set",
			u.Name)
	}
	return h.CheckNextStart(ctx, startingNow(ctx, u, ask), database)
}

// CheckNextStart is CheckCanStart for the next boot, which also starts services that nothing else
// starts. Another check reports a masked unit.
func (h *Host) CheckNextStart(ctx context.Context, u systemd.Unit, database string) error {
	unmet, obstacle := u.Ties.Unmet(ctx), u.Ties.Startup.Obstacle()
	places, err := h.AgentPlaces()
	config, now := places.Config, ""
	if err == nil {
		now, err = places.dataDir(h.Paths.DataDir)
		now = databaseIn(now)
	}
	needs := database
	if needs == "" && err == nil {
		needs = now
	}
	named := slices.ContainsFunc(u.Command, func(word string) bool { return strings.HasSuffix(word, config) })
	var broken error
	if named || config == layout.AgentConfig || slices.Contains(u.Environment, configVariable+"="+config) {
		broken = checkConfigReads(u.Name, config)
	}
	switch {
	case h.unreachable(u, needs) != nil:
		return h.unreachable(u, needs)
	case err == nil && checkConfigSeen(u, config) != nil:
		return checkConfigSeen(u, config)
	case checkPIDFolder(u) != nil:
		return checkPIDFolder(u)
	case len(unmet) > 0:
		return failure.Refuse("%[1]s would not start again, for its %[2]s does not hold now: `systemctl cat %[1]s` shows where that is set",
			u.Name, unmet[0])
	case h.startsAnother(u):
		return &failure.RefusedError{Err: h.another(u)}
	case obstacle != "":
		return failure.Refuse("%[1]s would not start again, for %[2]s keeps it from that: `systemctl cat %[1]s` shows where that is set",
			u.Name, obstacle)
	case named && checkConfigThere(config) != nil:
		return checkConfigThere(config)
	case broken != nil:
		return broken
	case err != nil:
		return &failure.RefusedError{Err: &UnresolvedError{err}}
	case database != "" && now != database:
		return failure.Refuse("%s leads the agent to the database %s, and its own is %s", config, now, database)
	}
	dir := filepath.Dir(cmp.Or(database, now))
	if errors.Is(unix.Access(dir, unix.W_OK), unix.EROFS) {
		return failure.Refuse("the file system of %s is read-only, and the agent writes there", dir)
	}
	free, err := space.At(dir)
	left := free.Bytes
	if u.User == "" || u.User == "root" {
		left = free.RootBytes
	}
	if err == nil && left < startRoom {
		return &failure.RefusedError{Err: &space.Error{Path: dir, Need: startRoom, Free: left}}
	}
	return nil
}

// checkConfigThere follows a link to the end, as the agent does.
func checkConfigThere(config string) error {
	_, err := os.Stat(config)
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
	to, _ := os.Readlink(config) // empty if it is no link
	switch {
	case err == nil:
		return nil
	case missing && to != "":
		return failure.Refuse("%s, with which the agent's unit starts it, leads to %s, which is missing", config, to)
	case missing:
		return failure.Refuse("%s, with which the agent's unit starts it, is missing", config)
	}
	return failure.Refuse("%s, with which the agent's unit starts it, cannot be looked at: %w", config, err)
}

// checkConfigReads refuses a configuration that the agent's next process could not read. The process that runs may have read it
// before somebody broke it.
func checkConfigReads(unit, config string) error {
	if _, err := ReadAgentSettings(config); err != nil {
		return failure.Refuse("%s would not start again, for its configuration cannot be read: %w: correct the file", unit, err)
	}
	return nil
}

// CheckDatabaseThere says that the database of an agent's process is missing, is empty, or is another one, at the path where the next
// process would look for it and make an empty one. had says that the agent is known to have had a database; otherwise the process has to
// have one open, whose path nobody follows.
func (h *Host) CheckDatabaseThere(pid int, had bool) error {
	path, err := h.Database()
	if err != nil {
		return nil // another check reports that
	}
	info, err := os.Lstat(path)
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return err
	case !missing:
		if open := procfs.Host().OpenInstead(pid, path); open != "" {
			return failure.Refuse("the agent has the database %s open, and %s is another one, with which an agent that starts would go on: "+
				"put the agent's own back before anybody restarts it; if its configuration was changed on purpose, restart the agent", open, path)
		}
		if had && err == nil && info.Mode().IsRegular() && info.Size() == 0 {
			return failure.Refuse("the agent's database %s is empty, and an agent that starts goes on as a new one: "+
				"put its content back before anybody restarts the agent", path)
		}
		return nil
	case procfs.Host().Sees(pid, path): // by a mount of its own
		return nil
	case !had && !procfs.Host().HasDatabase(pid, filepath.Base(path)):
		return nil // it has none yet
	}
	return failure.Refuse("the agent's database %s is missing, and an agent that starts makes an empty one: "+
		"put it back, or mount its file system, before anybody restarts the agent", path)
}

// unreachable says which setting of the unit, or which mount, keeps the unit's next process from the
// agent's program or its database: the process that runs may have been started without it.
func (h *Host) unreachable(u systemd.Unit, database string) error {
	program := u.ExecStart
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		real = program // another check reports a missing file
	}
	for path, to := range map[string]systemd.Access{program: systemd.Seeing, real: systemd.Executing} {
		if setting := u.Ties.View.Denies(path, to); setting != "" {
			return failure.Refuse("%s would not start again, for %s hides its program %s from it: `systemctl cat %[1]s` shows where that is set",
				u.Name, setting, path)
		}
	}
	if noexec, err := space.NoExec(real); err == nil && noexec {
		return failure.Refuse("%s would not start again, for the file system of its program %s is mounted noexec: "+
			"mount it with exec (see `findmnt -T %[2]s`)", u.Name, real)
	}
	if database == "" {
		return nil
	}
	dir := filepath.Dir(database)
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if setting := u.Ties.View.Denies(dir, systemd.Writing); setting != "" {
		return failure.Refuse("%s would start again without its database, for %s hides %s from it, or makes that read-only: "+
			"`systemctl cat %[1]s` shows where that is set", u.Name, setting, dir)
	}
	return nil
}

// CheckCanStop says what keeps systemd from stopping the agent when asked, or from keeping it
// stopped, as far as that shows without trying: each change may have to be undone, and that
// takes a stop. Each error is a *failure.RefusedError.
func (h *Host) CheckCanStop(u systemd.Unit) error {
	switch {
	case u.LoadState == "" || u.LoadState == "not-found":
		return nil
	case u.Ties.EndsHost != "":
		return failure.Refuse("systemd ends the host once %[1]s is down (%[2]s), and a version that is not healthy could not be undone: "+
			"`systemctl cat %[1]s` shows where that is set; remove it", u.Name, u.Ties.EndsHost)
	case !u.Ties.RefusesStop:
		return nil
	}
	return failure.Refuse("systemd does not stop %[1]s when asked (RefuseManualStop=), "+
		"and a version that is not healthy could not be undone: "+
		"`systemctl cat %[1]s` shows where that is set; remove it", u.Name)
}

// LooksElsewhere reports whether the agent's unit, as systemd has read it, leads the agent elsewhere
// than its files say: they may have changed since. Variables have no value there, and say nothing.
func (h *Host) LooksElsewhere(u systemd.Unit) bool {
	p, err := h.AgentPlaces()
	if err != nil {
		return true
	}
	loaded := ledTo(u.Command)
	differs := func(loaded, read string) bool {
		return loaded != "" && !strings.Contains(loaded, "$") && loaded != read
	}
	return differs(loaded.Config, p.Config) || differs(loaded.DataDir, p.DataDir)
}

// startRoom is how many bytes an agent needs on its data's file system to start: less than any
// agent does, so that one that could start is not kept from it.
const startRoom = 256 << 10
