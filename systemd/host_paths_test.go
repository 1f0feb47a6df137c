//go:build hosts

package systemd

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// systemd is what says which .path units start a service again that is stopped. Those that do come last: once they have, the
// others would have, too.
func TestHostPathUnitsThatStartAServiceAgain(t *testing.T) {
	t.Parallel()
	conn := dialHost(t)
	const file = "/run/watched/file"
	if err := os.MkdirAll("/run/watched", 0o755); err != nil {
		t.Fatal(err)
	}
	writeHostFile(t, file, "x")
	systemctl := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("systemctl", args...).CombinedOutput(); err != nil {
			t.Fatalf("systemctl %q: %v: %s", args, err, out)
		}
	}
	kinds := []struct {
		name, paths string
		again       bool
	}{
		{"changed", "PathChanged=" + file, false},
		{"modified", "PathModified=" + file, false},
		{"exists", "PathExists=" + file, true},
		{"glob", "PathExistsGlob=" + file + "*", true},
		{"not-empty", "DirectoryNotEmpty=/run/watched", true},
		{"both", "PathChanged=" + file + "\nPathExists=" + file, true},
	}
	for _, k := range kinds {
		unit := "/etc/systemd/system/watched-" + k.name
		writeHostFile(t, unit+".service", "[Service]\nExecStart=/bin/sleep infinity\n")
		writeHostFile(t, unit+".path", "[Path]\n"+k.paths+"\n")
		t.Cleanup(func() {
			exec.Command("systemctl", "stop", "watched-"+k.name+".path", "watched-"+k.name+".service").Run()
			os.Remove(unit + ".service")
			os.Remove(unit + ".path")
		})
	}
	systemctl("daemon-reload")
	state := func(name string) Unit {
		u, err := conn.Unit(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for _, k := range kinds {
		service, path := "watched-"+k.name+".service", "watched-"+k.name+".path"
		systemctl("start", path, service)
		before := state(service)
		if !slices.Contains(before.Ties.Starters, path) {
			t.Errorf("%s: starters %q", k.name, before.Ties.Starters)
		}
		active, err := conn.ActiveOf(t.Context(), before.Ties.Starters)
		if err != nil || slices.Contains(active, path) != k.again {
			t.Errorf("%s: %q, %v, start it again", k.name, active, err)
		}
		// systemctl(1) waits for ever if systemd reads its files at this moment, as other tests have it do.
		if err := conn.Stop(t.Context(), service); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); k.again && (!state(service).Running() || state(service).InvocationID == before.InvocationID); {
			if time.Since(began) > patience {
				t.Fatalf("%s: it is not started again", k.name)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	for _, k := range kinds {
		if u := state(fmt.Sprintf("watched-%s.service", k.name)); u.Running() != k.again {
			t.Errorf("%s: in the end the service is %s", k.name, u.ActiveState)
		}
	}
}
