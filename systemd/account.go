package systemd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"time"
)

// askLimit is how long the host's directory of users may take.
const askLimit = 10 * time.Second

// IsUser reports whether systemd can start something as a user; it also does where nobody
// can tell. Users that are not in /etc/passwd may be in a directory, which a program
// without the C library cannot ask itself.
func IsUser(ctx context.Context, name string) bool {
	_, err := user.Lookup(name)
	return isAccount(ctx, "passwd", name, err)
}

// IsGroup is IsUser for a group.
func IsGroup(ctx context.Context, name string) bool {
	_, err := user.LookupGroup(name)
	return isAccount(ctx, "group", name, err)
}

// isAccount asks the host's databases for a name that a file does not have.
func isAccount(ctx context.Context, database, name string, notInFile error) bool {
	if _, err := strconv.Atoi(name); name == "" || err == nil || notInFile == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "getent", database, name)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	ended, ok := errors.AsType[*exec.ExitError](cmd.Run())
	return !ok || ended.ExitCode() != getentUnknown
}

// getentUnknown is how getent(1) ends for a name that nobody knows.
const getentUnknown = 2
