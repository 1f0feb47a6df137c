package asuser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// An Account is a user with the groups of a process.
type Account struct {
	Name     string
	UID, GID uint32
	Groups   []uint32 // all but GID, from the host's files

	shell string // empty: /bin/sh
}

// Find finds a user by its name or its number, in the host's files, or else in its directories, which a child process asks. group is the
// process's own group, if it is not the user's, and more are further ones, each by its name or its number.
func Find(ctx context.Context, name, group string, more []string) (Account, error) {
	a := Account{Name: name}
	known, err := user.Lookup(name)
	if err != nil {
		known, err = user.LookupId(name)
	}
	if err != nil {
		known, err = fromDirectory(ctx, name)
	}
	if err != nil {
		return a, err
	}
	a.Name = known.Username
	if a.UID, err = number(known.Uid); err != nil {
		return a, err
	}
	gids, _ := known.GroupIds() // the user's own group, and further groups in the host's files
	gid := known.Gid
	if group != "" {
		if gid, err = groupNumber(ctx, group); err != nil {
			return a, err
		}
	}
	if a.GID, err = number(gid); err != nil {
		return a, err
	}
	for _, group := range more {
		gid, err := groupNumber(ctx, group)
		if err != nil {
			return a, err
		}
		gids = append(gids, gid)
	}
	return a, a.join(gids)
}

// join adds groups.
func (a *Account) join(gids []string) error {
	for _, gid := range gids {
		n, err := number(gid)
		if err != nil {
			return err
		}
		if n != a.GID && !slices.Contains(a.Groups, n) {
			a.Groups = append(a.Groups, n)
		}
	}
	return nil
}

// withGroups returns the account with its groups in the host's directories.
func (a Account) withGroups(ctx context.Context) (Account, error) {
	out, err := exec.CommandContext(ctx, "id", "-G", a.Name).Output()
	if err != nil {
		return a, fmt.Errorf("ask for the groups of user %s: %w", a.Name, err)
	}
	a.Groups = slices.Clone(a.Groups)
	return a, a.join(strings.Fields(string(out)))
}

func fromDirectory(ctx context.Context, name string) (*user.User, error) {
	fields, err := getent(ctx, "passwd", name)
	if err != nil {
		return nil, err
	}
	return &user.User{Username: fields[0], Uid: fields[2], Gid: fields[3]}, nil
}

func groupNumber(ctx context.Context, name string) (string, error) {
	if _, err := number(name); err == nil {
		return name, nil
	}
	if known, err := user.LookupGroup(name); err == nil {
		return known.Gid, nil
	}
	fields, err := getent(ctx, "group", name)
	if err != nil {
		return "", err
	}
	return fields[2], nil
}

// ErrUnknown is the error of a user or a group that no directory of the host has.
var ErrUnknown = errors.New("it is unknown to this host")

// notFound is getent's status for a name that it does not know.
const notFound = 2

// getent returns an entry of the host's directories, with the numbers of user and group in its third and fourth field.
func getent(ctx context.Context, database, name string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "getent", database, name).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == notFound {
		return nil, fmt.Errorf("find %s in %s: %w", name, database, ErrUnknown)
	}
	if err != nil {
		return nil, fmt.Errorf("find %s in %s: %w", name, database, err)
	}
	fields := strings.Split(string(bytes.TrimSpace(out)), ":")
	if len(fields) < 4 {
		return nil, fmt.Errorf("find %s in %s: %q is no entry", name, database, out)
	}
	return fields, nil
}

func number(id string) (uint32, error) {
	n, err := strconv.ParseUint(id, 10, 32)
	return uint32(n), err
}
