//go:build hosts

// Package hostile gives the built updater everything that somebody else could
// put in its way: archives, answers, state files, links, an environment, a
// network. Each case runs the real program in folders of its own, and whatever
// is given, the same holds: one clear error and the right exit code in bounded
// time and memory, the host as it was but for what may change, nothing outside
// touched, no secret told.
//
// The cases are data (a name that reads as a sentence, what is given, what must
// come of it), so that docs/development/threat-model.md can name them.
package hostile

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/integration/host"
)

// full also runs the cases that wait for every attempt of a download to stall.
var full = os.Getenv("FAULTS") == "all"

// fixture is what all cases share; nothing in it changes.
var fixture struct {
	updater string // the built program
	dir     string // of all worlds
	server  certificates
}

func TestMain(m *testing.M) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		// Those that wait for a limit of the updater's are many; see busy.
		flag.Set("test.parallel", "200")
	}
	if os.Geteuid() == 0 && os.Getpid() != 1 {
		os.Exit(inside())
	}
	os.Exit(testMain(m))
}

// inside runs the test again where it sees no processes but its own: the updater
// looks at all of them before it removes a version, and none of this machine's
// may keep it from that.
func inside() int {
	cmd := exec.Command("unshare", append([]string{"--mount", "--pid", "--fork", "--mount-proc", "--kill-child"}, os.Args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	switch exit, ok := errors.AsType[*exec.ExitError](err); {
	case ok:
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func testMain(m *testing.M) int {
	if os.Geteuid() != 0 {
		fmt.Println("*** NOT TESTED: hostile input needs root, for files of other users ***")
		if os.Getenv("CI") == "true" {
			return 1
		}
		return 0
	}
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "prepare the fixture:", err)
		return 1
	}
	defer os.RemoveAll(fixture.dir)
	// What is on this machine itself must not change either.
	mine := []string{"/etc", "/usr/local", "/var/lib/teleport", "/opt/teleport"}
	before := snapshot(mine...)
	code := m.Run()
	if diff := before.diff(snapshot(mine...)); len(diff) > 0 {
		fmt.Printf("this machine changed:\n%s\n", strings.Join(diff, "\n"))
		code = 1
		figures.violations.Add(1)
	}
	report(os.Stdout)
	return code
}

func prepare() (err error) {
	if fixture.updater, err = host.Build(context.Background(), host.Updater()); err != nil {
		return err
	}
	if fixture.dir, err = os.MkdirTemp("", "hostile-"); err != nil {
		return err
	}
	if err = os.Chmod(fixture.dir, 0o755); err != nil {
		return err
	}
	if fixture.server, err = makeCertificates(); err != nil {
		return err
	}
	if err = os.WriteFile(filepath.Join(fixture.dir, "ca.pem"), fixture.server.ca, 0o644); err != nil {
		return err
	}
	return makeMaster()
}
