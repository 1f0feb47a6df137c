package repository

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// programs are the programs for a publication, with their Debian packages.
var programs = []struct{ name, pkg string }{
	{"apt-ftparchive", "apt-utils"},
	{"createrepo_c", "createrepo-c"},
	{"dpkg-deb", "dpkg"},
	{"rpm", "rpm"},
	{"rpmkeys", "rpm"},
}

// checkPrograms returns an error that names all missing programs.
func checkPrograms() error {
	var missing, packages []string
	for _, p := range programs {
		if _, err := exec.LookPath(p.name); err == nil {
			continue
		} else if !errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("%s cannot be run: %w", p.name, err)
		}
		missing = append(missing, p.name)
		if !slices.Contains(packages, p.pkg) {
			packages = append(packages, p.pkg)
		}
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("not installed: %s; nothing was published: apt-get install %s", strings.Join(missing, ", "), strings.Join(packages, " "))
}

// program is one run of another program. Its language does not depend on the user's.
type program struct {
	dir  string
	env  []string
	args []string
}

// output returns the program's output. Its messages are in the error if it fails.
func (p program) output(ctx context.Context) ([]byte, error) {
	cmd := exec.CommandContext(ctx, p.args[0], p.args[1:]...)
	cmd.Dir = p.dir
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), p.env...)
	var out, says bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &says
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(says.String() + out.String())
		return nil, fmt.Errorf("%s: %w: %s", p.args[0], err, said)
	}
	return out.Bytes(), nil
}
