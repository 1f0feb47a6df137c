//go:build hosts

package storage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// litter is everything that can be found in versions/. The scripts run there; put makes
// a release of that name, whose programs are in $P.
var litter = []struct {
	name   string
	script string
	stays  bool
}{
	// Ours, and not needed.
	{"0.5.0", "put 0.5.0", false},
	{"0.5.1", "put 0.5.1; rm 0.5.1/sha256", false},
	{"0.5.2", "mkdir 0.5.2", false},
	{"0.5.3", "put 0.5.3; rm -r 0.5.3/bin 0.5.3/manifest; mkdir -p 0.5.3/backup; echo >0.5.3/backup/sqlite.db", false},
	{"0.5.4-rc.1", "put 0.5.4-rc.1", false},
	{"0.5.5", "cp -a /root/programs $P/0.5.5", false},
	{"0.5.0_enterprise", "put 0.5.0_enterprise; echo enterprise >0.5.0_enterprise/edition", false},
	{"1.1.0_enterprise", "put 1.1.0_enterprise; echo enterprise >1.1.0_enterprise/edition", false},
	{"1.1.0_enterprise-fips", "mkdir 1.1.0_enterprise-fips", false},
	{".tmp-0.4.0-ABCDEFGH", "put .tmp-0.4.0-ABCDEFGH", false},
	// Ours, not needed by name, but by somebody.
	{"0.6.0", "put 0.6.0; cp /bin/sleep $P/0.6.0/bin/tsh; $P/0.6.0/bin/tsh infinity >/dev/null 2>&1 &", true},
	{"0.6.1", "put 0.6.1; cp /bin/sleep $P/0.6.1/bin/tsh; mkdir -p /mnt/x; mount --bind $P/0.6.1 /mnt/x; /mnt/x/bin/tsh infinity >/dev/null 2>&1 &", true},
	{"0.6.2", "put 0.6.2; ln -sfn $P/0.6.2/etc/systemd/teleport.service /usr/local/lib/systemd/system/teleport-old.service", true},
	{"0.6.3", "put 0.6.3; rm 0.6.3/sha256; cp /bin/sleep $P/0.6.3/bin/tsh; $P/0.6.3/bin/tsh infinity >/dev/null 2>&1 &", true},
	// Not ours.
	{"0.7.0", "ln -sfn /root/1.0.0 0.7.0", true},
	{"0.7.1", "echo a file >0.7.1", true},
	{"v0.7.2", "cp -a /root/1.0.0 v0.7.2", true},
	{"0.7", "cp -a /root/1.0.0 0.7", true},
	{"00.7.3", "cp -a /root/1.0.0 00.7.3", true},
	{"0.7.4.bak", "cp -a /root/1.0.0 0.7.4.bak", true},
	{"0.7.5_mine", "cp -a /root/1.0.0 0.7.5_mine", true},
	{"latest", "cp -a /root/1.0.0 latest", true},
	{"lost+found", "mkdir lost+found", true},
	{"notes", "mkdir notes; echo mine >notes/readme", true},
	{"original", "mkdir -p original; echo kept >original/kept", true},
	{"partial", "mkdir -p partial", true},
}

func TestOnlyWhatNobodyNeedsIsRemoved(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0", "1.2.0")
	s.Release(release.Spec{Version: "1.3.0", Variant: stamp.ExitsAtStart})
	s.Release(release.Spec{Version: "1.4.0", Variant: stamp.Unrunnable})
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Must("cp", "-a", store+"/1.0.0", "/root/")
	s.Must("cp", "-a", programs+"/1.0.0", "/root/programs")
	s.Updates("1.1.0")
	in := func(script string) {
		t.Helper()
		s.Must("sh", "-ec", "P="+programs+"; cd "+store+`
			put() { cp -a /root/1.0.0 $1; ln -sfn $P/$1/bin $P/$1/etc $1; cp -a /root/programs $P/$1; }
			`+script)
	}
	throw := func(all bool) {
		t.Helper()
		for _, l := range litter {
			if all || !l.stays {
				in(l.script)
			}
		}
	}
	left := func(after string, versions ...string) {
		t.Helper()
		want := map[string][]string{
			store:    append([]string{"updates.yaml", "update.lock", "fetch.lock", "find.json", "history.json"}, versions...),
			programs: append([]string{"update_config.yaml"}, versions...),
		}
		for _, l := range litter {
			if l.stays {
				want[store] = append(want[store], l.name)
			}
			if l.stays && strings.HasPrefix(l.script, "put ") {
				want[programs] = append(want[programs], l.name)
			}
		}
		for dir, want := range want {
			slices.Sort(want)
			got, err := s.Names(dir)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("after %s there is in %s\n%q; want\n%q", after, dir, got, want)
			}
		}
		for _, v := range versions {
			if damaged := s.Must("sh", "-c", "cd "+store+"/"+v+" && sha256sum --quiet -c manifest"); damaged != "" {
				t.Errorf("after %s version %s is damaged: %s", after, v, damaged)
			}
		}
	}
	throw(true)
	strangers := s.Tree(store).Without(store+"/1.0.0", store+"/1.1.0", store+"/updates.yaml", store+"/find.json", store+"/history.json", store+"/update.lock", store+"/fetch.lock")
	maps.DeleteFunc(strangers, func(path, _ string) bool {
		return slices.ContainsFunc(litter, func(l struct {
			name, script string
			stays        bool
		}) bool {
			return !l.stays && (path == store+"/"+l.name || strings.HasPrefix(path, store+"/"+l.name+"/"))
		})
	})

	s.Updates("1.2.0")
	left("an update", "1.1.0", "1.2.0")

	throw(false)
	in("put 1.0.0")
	s.Must(updater, "rollback")
	s.Serves("1.1.0")
	left("a rollback", "1.1.0", "1.2.0")

	// The last one that was rolled back stays for its next attempt.
	for _, failing := range []struct {
		version string
		left    []string
	}{{"1.3.0", []string{"1.1.0", "1.2.0", "1.3.0"}}, {"1.4.0", []string{"1.1.0", "1.2.0"}}} {
		throw(false)
		s.Wants(failing.version)
		s.Fails(1, failing.version, updater, "update", "--now")
		s.Serves("1.1.0")
		left("the failure of "+failing.version, failing.left...)
	}

	throw(false)
	s.Wants("1.1.0")
	s.Tick()
	s.Serves("1.1.0")
	after := s.Tree(store)
	for path, what := range strangers {
		if path != store && after[path] != what {
			t.Errorf("%s was %s and is %q", path, what, after[path])
		}
	}
}

// What cannot be looked at may be anything, also the process that needs a
// version.
func TestNothingIsRemovedWhileSomethingIsUnknown(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0", "1.2.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Updates("1.1.0")
	// A process whose executable nobody can tell.
	s.Background(host.Command{Args: []string{"sh", "-c", "echo $$ >/root/pid; exec sleep infinity"}})
	host.Wait(t, patience, func() error {
		if !s.Exists("/root/pid") || s.Read("/root/pid") == "" {
			return fmt.Errorf("the process has not begun")
		}
		return nil
	})
	pid := strings.TrimSpace(s.Read("/root/pid"))
	s.Must("mkdir", "-p", "/root/fake/exe")
	s.Must("mount", "--bind", "/root/fake", "/proc/"+pid)

	s.Updates("1.2.0")
	if got := s.Versions(); !slices.Equal(got, []string{"1.0.0", "1.1.0", "1.2.0"}) {
		t.Errorf("kept are %v; want all", got)
	}
	if log := s.Logged(); !strings.Contains(log, "some old versions could not be removed") || !strings.Contains(log, "nothing was removed") {
		t.Errorf("the journal does not say that nothing was removed:\n%s", log)
	}

	s.Must("umount", "/proc/"+pid)
	s.Must(updater, "rollback")
	s.Serves("1.1.0")
	if got := s.Versions(); !slices.Equal(got, []string{"1.1.0", "1.2.0"}) {
		t.Errorf("kept are %v; want the active and the previous version", got)
	}
}

// A folder that cannot be removed is not the new version's fault.
func TestAnOldVersionThatCannotBeRemovedFailsNothing(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0", "1.2.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Updates("1.1.0")
	s.Must("mount", "-t", "tmpfs", "tmpfs", programs+"/1.0.0/etc")
	s.Updates("1.2.0")
	if r := s.Status(); scenes.Text(r.LastResult) != "succeeded" || r.LastError != nil {
		t.Errorf("status: last result %s, %s", scenes.Text(r.LastResult), scenes.Text(r.LastError))
	}
	if log := s.Logged(); !strings.Contains(log, "some old versions could not be removed") {
		t.Errorf("the journal does not say that a version could not be removed:\n%s", log)
	}
	s.Must("sh", "-c", "umount "+programs+"/1.0.0/etc "+programs+"/.tmp-*/etc 2>/dev/null; true")
	s.Must(updater, "rollback")
	for _, dir := range []string{store, programs} {
		if got, err := s.Names(dir); err != nil || slices.ContainsFunc(got, func(n string) bool { return n == "1.0.0" || strings.HasPrefix(n, ".tmp") }) {
			t.Errorf("left in %s are %v, %v", dir, got, err)
		}
	}
}
