package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/internal/asuser"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// reachLimit is how long to wait for a file system, or for the host's directory of users.
const reachLimit = 5 * time.Second

// CheckReach says which file that the next process of the agent's unit needs is closed to its user: its program, its
// configuration or its database. The process that runs has all of them open, and shows nothing. why is a *failure.RefusedError,
// or nil if nothing is known to be closed; err is why that is not known. programs are those that the unit is to start beside its
// own. It starts child processes only if a mode closes something.
func CheckReach(ctx context.Context, h *Host, u systemd.Unit, ask AskUnit, programs ...string) (why, err error) {
	if u.LoadState != "loaded" || u.HasRoot() || u.User == "" { // root's
		return nil, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, reachLimit, errors.New("nothing answers"))
	defer cancel()
	account, err := accountOf(ctx, u)
	if errors.Is(err, asuser.ErrUnknown) || err == nil && account.UID == 0 {
		return nil, nil // another check reports an unknown user
	}
	if err != nil {
		return nil, err
	}
	for _, need := range needsOf(h, u, programs) {
		barrier, failed := account.Barred(ctx, need.path, need.to)
		switch {
		case errors.Is(failed, fs.ErrNotExist), errors.Is(failed, unix.ENOTDIR):
			continue // another check reports a missing file
		case failed != nil:
			err = failed
			continue
		case barrier == nil, !u.Forbids(barrier.Path, barrier.UID == account.UID):
			continue
		}
		if service, err := startsFirst(ctx, u, ask); service != "" || err != nil {
			return nil, err
		}
		return closedTo(h, u, account, need, barrier), nil
	}
	return nil, err
}

// accountOf returns the user of a unit's processes, with its groups.
func accountOf(ctx context.Context, u systemd.Unit) (asuser.Account, error) {
	own, more := "", []string(nil)
	for _, setting := range u.Ties.Startup.Groups {
		name, group, _ := strings.Cut(setting, "=")
		if name == "Group" {
			own = group
		} else {
			more = append(more, group)
		}
	}
	return asuser.Find(ctx, u.User, own, more)
}

// A need is what the agent's next process does with a file.
type need struct {
	path string
	to   asuser.Right
	does string // with the file, as a part of a sentence
	give string // the path below which everything has to be the agent's user's; empty: nothing has to be
	fix  string // what helps instead of opening the file; empty: opening it
}

// needsOf returns the needs of an agent. If a unit starts somebody's script, nobody knows which user the agent runs as.
func needsOf(h *Host, u systemd.Unit, programs []string) (all []need) {
	for _, program := range append([]string{u.ExecStart}, programs...) {
		if program != "" {
			all = append(all, need{path: program, to: asuser.Execute, does: "execute"})
		}
	}
	if filepath.Base(u.ExecStart) != AgentName || h.LooksElsewhere(u) {
		return all
	}
	if places, err := h.AgentPlaces(); err == nil {
		all = append(all, need{path: places.Config, to: asuser.Read, does: "read", give: places.Config})
	}
	if file := namedPIDFile(u); file != "" { // which may be in /run, and that is nobody's to open
		all = append(all, need{path: filepath.Dir(file), to: asuser.Write | asuser.Execute, does: "make its PID file in",
			fix: ownPIDFile(h, "/run/teleport/teleport.pid", true)})
	}
	database, err := h.Database()
	if err != nil {
		return all
	}
	folder := filepath.Dir(database)
	data := filepath.Dir(folder)
	all = append(all, need{path: folder, to: asuser.Write | asuser.Execute, does: "write in", give: data})
	for _, suffix := range []string{"", "-wal", "-shm"} {
		all = append(all, need{path: database + suffix, to: asuser.Read | asuser.Write, does: "write", give: data})
	}
	return all
}

// startsFirst returns a service that systemd starts before the unit: each time, it may open what is closed.
func startsFirst(ctx context.Context, u systemd.Unit, ask AskUnit) (string, error) {
	for _, name := range u.Ties.Startup.Services {
		service, err := ask(ctx, name)
		if err != nil {
			return "", err
		}
		service.Name = name
		if startsWith(u, service) {
			return name, nil
		}
	}
	return "", nil
}

// startsWith reports whether systemd starts a service when it starts the unit again, so that the service may bring what is missing
// now. A service that runs is not started again, unless it goes down with the unit. A service that failed brought nothing.
func startsWith(u, service systemd.Unit) bool {
	switch {
	case service.LoadState != "loaded", service.ActiveState == "failed":
		return false
	case service.ActiveState == "active":
		return service.Ties.StopsUnneeded || slices.Contains(u.Ties.Dependents, service.Name)
	}
	return true
}

// startingNow returns the unit without the services that systemd does not start first if it starts the unit now: at the next boot it
// starts all of them. A service that systemd cannot be asked about stays.
func startingNow(ctx context.Context, u systemd.Unit, ask AskUnit) systemd.Unit {
	var services []string
	for _, name := range u.Ties.Startup.Services {
		service, err := ask(ctx, name)
		if service.Name = name; err != nil || startsWith(u, service) {
			services = append(services, name)
		}
	}
	u.Ties.Startup.Services = services
	return u
}

// closedTo says what keeps the agent's user from a need of the next process, and how to open it.
func closedTo(h *Host, u systemd.Unit, account asuser.Account, n need, b *asuser.Barrier) error {
	advice := fmt.Sprintf("`%s` opens it, and `namei -l %s` shows the way", opens(account, n, b), n.path)
	switch {
	case n.fix != "":
		advice = n.fix
	case isSameFile(n.give, h.Paths.DataDir):
		advice = "that folder is the updater's and stays root's: an agent that runs as another user needs a data_dir of its own, which its " +
			"configuration names, or named before somebody changed it"
	case b.Misled:
		advice = fmt.Sprintf("look at the way with `namei -l %s`, and put back what belongs there: others than root can change where it leads",
			n.path)
	}
	return failure.Refuse("%s would not start again, for its user %s may not %s %s: %s has mode %v and belongs to %s; %s", u.Name,
		account.Name, n.does, n.path, b.Path, b.Mode, nameOf(b.UID), advice)
}

func isSameFile(a, b string) bool {
	one, err := os.Stat(a)
	other, otherErr := os.Stat(b)
	return err == nil && otherErr == nil && os.SameFile(one, other)
}

// opens returns the command that opens a barrier: the least that helps, and nothing that opens the agent's own files to everybody. It
// follows no link that the agent's user puts there before somebody types it.
func opens(account asuser.Account, n need, b *asuser.Barrier) string {
	letter := map[asuser.Right]string{asuser.Execute: "x", asuser.Write: "w", asuser.Read: "r"}[b.Lacks]
	real, err := filepath.EvalSymlinks(n.give)
	own := n.give != "" && err == nil && (b.Path == real || strings.HasPrefix(b.Path, real+"/"))
	if own && b.Class == "o" {
		return fmt.Sprintf("chown -h %s %s", account.Name, b.Path)
	}
	return fmt.Sprintf("chmod %s+%s %s", b.Class, letter, b.Path)
}

func nameOf(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if known, err := user.LookupId(id); err == nil {
		return known.Username
	}
	return id
}
