package versions

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"teleport-update/integration/tarball"
)

// treeWith publishes a release whose teleport is that script.
func treeWith(t *testing.T, script string) Tree {
	t.Helper()
	s := testStore(t)
	items := append(tarball.Without(tarball.Sound("15.1.1"), "teleport/teleport"), tarball.Item{Name: "teleport/teleport", Data: script})
	data := tarball.Gzip(tarball.Of(items...))
	tree, err := build(t, s, oss("15.1.1"), data).Publish(Release{}, digestHex(data))
	must(t, err)
	return tree
}

func TestSmoke(t *testing.T) {
	t.Setenv("LD_PRELOAD", "/nonexistent.so")
	t.Setenv("PLANTED", "secret")
	for name, tc := range map[string]struct {
		script string
		want   string // part of the error; empty: fine
	}{
		"the version":              {tarball.Agent("15.1.1"), ""},
		"the enterprise edition":   {"#!/bin/sh\necho Teleport Enterprise v15.1.1 git:v15.1.1-0-gabc go1.22\n", ""},
		"a warning before":         {"#!/bin/sh\necho WARNING: something >&2\necho Teleport v15.1.1 go1.22\n", ""},
		"another version":          {tarball.Agent("15.1.10"), "does not name that version"},
		"the version in a word":    {"#!/bin/sh\necho Teleport git:v15.1.1 go1.22\n", "does not name that version"},
		"somebody else's version":  {"#!/bin/sh\necho Telescope v15.1.1\n", "does not name that version"},
		"nothing":                  {"#!/bin/sh\n", "does not name that version"},
		"the version and a crash":  {tarball.Agent("15.1.1") + "exit 2\n", "exit status 2"},
		"a crash with a message":   {"#!/bin/sh\necho GLIBC_2.34 not found >&2\nexit 1\n", "GLIBC_2.34 not found"},
		"not a program":            {"\x7fELF but not really", "exec format error"},
		"a missing interpreter":    {"#!/nonexistent/ld.so\n", "no such file"},
		"endless output":           {"#!/bin/sh\nexec cat /dev/zero\n", "deadline"},
		"a hanging program":        {"#!/bin/sh\nexec sleep 600\n", "deadline"},
		"a hanging child":          {"#!/bin/sh\nsleep 600\n", "deadline"},
		"a child that stays":       {"#!/bin/sh\nsleep 2 &\necho Teleport v15.1.1\n", ""},
		"a clean environment":      {"#!/bin/sh\ntest -z \"$PLANTED$LD_PRELOAD\" && test \"$HOME\" = / && test \"$PWD\" = / && echo Teleport v15.1.1\n", ""},
		"nothing to read from":     {"#!/bin/sh\nread line && exit 3\necho Teleport v15.1.1\n", ""},
		"the argument it is given": {"#!/bin/sh\ntest \"$*\" = version && echo Teleport v15.1.1\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			tree := treeWith(t, tc.script)
			ctx := context.Background()
			if tc.want == "deadline" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
				defer cancel()
			}
			start := time.Now()
			err := tree.Smoke(ctx)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v; want %q", err, tc.want)
			}
			if err != nil && len(err.Error()) > 2000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if time.Since(start) > smokeLimit/2 {
				t.Errorf("it took %v", time.Since(start))
			}
		})
	}
}

// What the host does to a program is not held against the version of the program.
func TestSmokeTellsTheHostsFaultsFromTheVersions(t *testing.T) {
	const say = "#!/bin/sh\necho '"
	for name, tc := range map[string]struct {
		script string
		host   bool
	}{
		"killed, as for want of memory": {"#!/bin/sh\nkill -9 $$\n", true},
		"no memory for the runtime":     {say + "fatal error: runtime: cannot allocate memory' >&2\nexit 2\n", true},
		"no thread for the runtime":     {say + "runtime: failed to create new OS thread (have 5 already; errno=11)' >&2\nexit 2\n", true},
		"no memory for the linker":      {say + "teleport: error while loading shared libraries: libc.so.6: failed to map segment from shared object' >&2\nexit 127\n", true},
		"no room for the runtime":       {say + "runtime: failed to reserve page summary memory' >&2\nexit 2\n", true},
		"a crash":                       {"#!/bin/sh\nkill -SEGV $$\n", false},
		"a library that is too old":     {say + "GLIBC_2.34 not found' >&2\nexit 1\n", false},
		"another version":               {tarball.Agent("15.1.2"), false},
	} {
		err := treeWith(t, tc.script).Smoke(t.Context())
		if _, host := errors.AsType[*HostError](err); err == nil || host != tc.host {
			t.Errorf("%s: %v; want it to be the host's: %t", name, err, tc.host)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	tree := treeWith(t, tarball.Agent("15.1.1"))
	must(t, os.Chmod(tree.Binary(""), 0o777))
	if _, host := errors.AsType[*HostError](tree.Smoke(t.Context())); !host {
		t.Error("a folder that others can write is held against the version")
	}
}

func TestSmokeWaitsForABinaryThatIsBusy(t *testing.T) {
	tree := treeWith(t, tarball.Agent("15.1.1"))
	// Scripts are never busy: a real program, held open for writing.
	program := tree.Binary("teleport")
	echo, err := os.ReadFile("/bin/echo")
	must(t, err)
	must(t, os.WriteFile(program, echo, 0o755))
	f, err := os.OpenFile(program, os.O_WRONLY, 0)
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := runVersion(ctx, program) // waits in vain
	if err == nil || !strings.Contains(err.Error(), syscall.ETXTBSY.Error()) {
		t.Fatalf("a busy program ran: %q, %v", out, err)
	}
	time.AfterFunc(2*busyPause, func() { f.Close() })
	if out, err := runVersion(ctx, program); err != nil || out != "version\n" {
		t.Errorf("after it was busy for a while: %q, %v", out, err)
	}
}

func TestRootRunsNothingThatOthersCanExchange(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has something to lose")
	}
	tree := treeWith(t, "#!/bin/sh\ntouch \"$0.ran\"\n"+strings.TrimPrefix(tarball.Agent("15.1.1"), "#!/bin/sh\n"))
	must(t, os.Chmod(tree.Binary(""), 0o777))
	if err := tree.Smoke(context.Background()); err == nil || !strings.Contains(err.Error(), "written by everybody") {
		t.Errorf("error %v; want one that says who could exchange it", err)
	}
	if _, err := os.Stat(tree.Binary("teleport.ran")); err == nil {
		t.Error("it was run")
	}
}
