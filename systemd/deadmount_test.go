package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// deadMount mounts a file system whose server never answers, as that of a network may be.
func deadMount(t *testing.T) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	// Whoever waits for an answer is let go when the file is closed.
	server, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip(err)
	}
	dir = t.TempDir()
	err = unix.Mount("dead", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server))
	if err != nil {
		unix.Close(server)
		t.Skip(err)
	}
	t.Cleanup(func() {
		unix.Close(server)
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestAFileServerThatDoesNotAnswerHoldsNobodyUp(t *testing.T) {
	dead := deadMount(t)
	below := filepath.Join(dead, "below")
	const agent, data = "/opt/teleport-update/1.0.0/bin/teleport", "/var/lib/teleport/proc"
	type answer struct{ name, got, want string }
	said := make(chan answer)
	asked := []struct {
		name string
		ask  func() string
		want string
	}{
		{"a mount elsewhere", func() string { return viewOf("InaccessiblePaths", dead).Denies(agent, Executing) }, ""},
		{"a mount above", func() string { return viewOf("InaccessiblePaths", dead).Denies(below, Seeing) }, "InaccessiblePaths=" + dead},
		{"another kind", func() string { return viewOf("NoExecPaths", below).Denies(agent, Seeing) }, ""},
		{"below a mount", func() string { return viewOf("ReadOnlyPaths", below).Denies(data, Writing) }, ""},
		{"one of two", func() string { return viewOf("InaccessiblePaths", below, "/opt").Denies(agent, Seeing) }, "InaccessiblePaths=/opt"},
		{"a condition", func() string { return unmet(t, "ConditionPathExists", below) }, ""},
		{"a pattern", func() string { return unmet(t, "AssertPathExistsGlob", below+"/*") }, ""},
		{"a program", func() string { return Startup{programs: []program{{below, "ExecStartPre=" + below}}}.Obstacle() }, ""},
		{"a folder of the unit", func() string { return Startup{folders: []ownFolder{{path: below}}}.Obstacle() }, ""},
	}
	for _, a := range asked {
		go func() { said <- answer{a.name, a.ask(), a.want} }()
	}
	for range asked {
		select {
		case a := <-said:
			if a.got != a.want {
				t.Errorf("%s: %q; want %q", a.name, a.got, a.want)
			}
		case <-time.After(time.Minute):
			t.Fatal("somebody waits for a server that does not answer")
		}
	}
}

func viewOf(setting string, paths ...string) View {
	return parseView(variants(map[string]any{setting: paths}))
}

func unmet(t *testing.T, condition, path string) string {
	var all []string
	for _, c := range (Ties{Conditions: []Condition{{Type: condition, Parameter: path}}}).Unmet(t.Context()) {
		all = append(all, c.String())
	}
	return strings.Join(all, " ")
}
