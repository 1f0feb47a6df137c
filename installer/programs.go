package installer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/versions"
)

// checkPrograms refuses another folder of programs than the one that this host has, and
// one that nobody but root may enter.
func checkPrograms(p state.Paths, asked string) error {
	switch dir := p.Programs(); {
	case asked != "" && filepath.Clean(asked) != dir:
		return failure.Unchanged("the programs of this host's versions are in %s, and stay there", dir).
			To("leave out --programs-dir, or `teleport-update uninstall` first").Refused()
	case p.UnusualPrograms() != "" && strings.HasPrefix(dir+"/", p.DataDir+"/"):
		return failure.Unchanged("%s is in the agent's data folder, which is closed to others", dir).To("name a folder outside of it").Refused()
	}
	return nil
}

// closedPrograms says which of the linked programs others than root cannot run; empty if they
// can. A link that is missing or leads elsewhere is a finding of its own.
func closedPrograms(ctx context.Context, linkDir string, tree versions.Tree) (string, error) {
	names, err := tree.Binaries()
	if err != nil {
		return "", nil // the version is damaged
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		to, err := os.Readlink(filepath.Join(linkDir, name))
		return err != nil || to != tree.Binary(name) || !host.Exists(to)
	})
	closed, err := closedToOthers(ctx, linkDir, names)
	if err != nil || len(closed) == 0 {
		return "", err
	}
	return fmt.Sprintf("other users cannot run %s: a folder above %s, or a file in it, is closed to them; see `namei -l %s`, and open it",
		strings.Join(closed, ", "), tree.Binary(""), tree.Binary(closed[0])), nil
}

const (
	// nobody is a user and a group that own nothing, on every distribution.
	nobody = 65534
	// nobodyLimit is far more than a look at a few files takes.
	nobodyLimit = 20 * time.Second
)

// closedToOthers returns which of the programs, by the links that people call them by,
// a user without rights cannot run. The kernel is asked in that user's name, for modes
// are not all that it looks at. Where the folder of links itself is closed, or this is
// not root, nothing is promised to anybody.
func closedToOthers(ctx context.Context, linkDir string, names []string) ([]string, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, nobodyLimit)
	defer cancel()
	script := `cd "$1" 2>/dev/null || exit 0; shift; for name; do test -x "$name" || echo "$name"; done`
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", script, "sh", linkDir}, names...)...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("look at the programs as a user without rights: %w", err)
	}
	return strings.Fields(string(out)), nil
}
