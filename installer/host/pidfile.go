package host

import (
	"cmp"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"teleport-update/internal/failure"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// CheckPIDFile refuses a first version whose PID file the agent could not write: the agent's unit, u, keeps its user and its
// view of the file system, and the PID file is the release's. Teleport ends with an error then. A drop-in with a command of
// its own has the last word.
func CheckPIDFile(h *Host, u systemd.Unit, tree versions.Tree) error {
	if h.hasOwnCommand() {
		return nil
	}
	unit, err := h.unitOf(tree)
	if err != nil {
		return err
	}
	now, then := pidFile(systemd.Arguments(u.Command)), pidFile(systemd.UnitArguments(unit))
	if then == "" || now == then {
		return nil
	}
	setting := keepsFromFolder(u, filepath.Dir(then))
	if setting == "" {
		return nil
	}
	file, makes := now, false
	if !filepath.IsAbs(now) || keepsFromFolder(u, filepath.Dir(now)) != "" {
		file, makes = "/run/teleport/teleport.pid", true
	}
	return failure.Unchanged("%s of %s is kept, and the agent could not write the PID file of version %s, %s: it would not start", setting,
		u.Name, tree.Release.Short(), then).To("%s; then run the command again", ownPIDFile(h, file, makes)).Refused()
}

// keepsFromFolder returns the setting of a unit that keeps its processes from making files in a folder; empty if none
// does, or if that is not known. A missing folder may be one that systemd makes.
func keepsFromFolder(u systemd.Unit, dir string) string {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ""
	}
	if setting := u.Ties.View.Denies(real, systemd.Writing); setting != "" {
		return setting
	}
	info, err := os.Stat(real)
	if err != nil {
		return ""
	}
	uid, err := strconv.Atoi(cmp.Or(u.User, "0"))
	if err != nil {
		uid = -1
		if account, err := user.Lookup(u.User); err == nil {
			uid, _ = strconv.Atoi(account.Uid)
		}
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	owns := ok && int(owner.Uid) == uid
	const others = fs.FileMode(0o022) // only systemd knows all groups of the user
	if uid == 0 || owns || u.PassesModes || info.Mode()&others != 0 {
		return ""
	}
	return "User=" + u.User
}
