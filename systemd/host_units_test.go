//go:build hosts

package systemd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"teleport-update/internal/layout"
	"testing"
	"time"
)

// dialHost connects to the systemd of a host that these tests may do with what
// they like.
func dialHost(t *testing.T) *Conn {
	t.Helper()
	if os.Getenv("DISPOSABLE_HOST") == "" {
		t.Skip("DISPOSABLE_HOST is not set: this would change the units of the host it runs on")
	}
	conn, err := Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// patience is for what comes sooner or later: on a busy host it may be later.
const patience = time.Minute

func writeHostFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

func TestHostUnits(t *testing.T) {
	conn := dialHost(t)
	root, err := os.MkdirTemp("/var/tmp", "units with 100% ")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	// An update that restarts the agent, from the unit that is ordered after it.
	writeHostFile(t, root+"/updater", "#!/bin/sh\necho \"$TELEPORT_UPDATE_SCHEDULED $*\" >> \"${0%/*}/ran\"\n[ \"$3\" = update ] || exit 0\nsystemctl restart teleport.service && systemctl stop teleport.service && systemctl start teleport.service\n")
	if err := os.Chmod(root+"/updater", 0o755); err != nil {
		t.Fatal(err)
	}
	const agent = "/etc/systemd/system/teleport.service"
	writeHostFile(t, agent, "[Service]\nExecStart=/bin/sleep 1000\n")
	units := Units{Binary: root + "/updater", DataDir: root + "/data"}
	t.Cleanup(func() {
		exec.Command("systemctl", "stop", "teleport.service").Run()
		os.Remove(agent)
		if err := errors.Join(conn.StopTimer(context.Background(), units.Timer()), units.Erase(), conn.DaemonReload(context.Background())); err != nil {
			t.Error(err)
		}
		if out, _ := exec.Command("sh", "-c", "ls -d /etc/systemd/system/*/teleport* /usr/local/lib/systemd/system/* /var/lib/systemd/timers/*teleport-update*").Output(); len(out) > 0 {
			t.Errorf("left behind: %s", out)
		}
		if u, err := conn.Unit(context.Background(), (Units{}).Timer()); err != nil || u.LoadState != "not-found" {
			t.Errorf("%+v, %v; want no timer", u, err)
		}
	})
	install := func(u Units) error {
		changed, err := u.Write()
		if err == nil {
			err = conn.StartTimer(t.Context(), units.Timer(), changed)
		}
		return err
	}
	for range 2 {
		if err := install(units); err != nil {
			t.Fatal(err)
		}
		if problems := units.Problems(); problems != nil {
			t.Errorf("problems: %q", problems)
		}
	}
	for unit, want := range map[string]string{Units{}.Timer(): "enabled", "teleport-update-recover.service": "enabled", "teleport-update.service": "static"} {
		if u, err := conn.Unit(t.Context(), unit); err != nil || u.UnitFileState != want || u.FragmentPath != filepath.Join(layout.UnitDir, unit) {
			t.Errorf("%+v, %v; want %s", u, err, want)
		}
	}
	if u, err := conn.Unit(t.Context(), (Units{}).Timer()); err != nil || u.ActiveState != "active" {
		t.Errorf("%+v, %v; want a timer that runs", u, err)
	}

	// A tick that comes just now would be one run more.
	noTicks := func() {
		if out, err := exec.Command("systemctl", "stop", (Units{}).Timer(), "teleport-update.service").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	noTicks()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	if err := conn.Start(ctx, "teleport-update.service"); err != nil {
		t.Fatalf("an update before the first enable: %v", err)
	}
	if ran, err := os.ReadFile(root + "/ran"); err == nil {
		t.Errorf("an update ran before the first enable: %q", ran)
	}
	if err := os.MkdirAll(root+"/data/versions", 0o755); err != nil {
		t.Fatal(err)
	}
	writeHostFile(t, root+"/data/versions/updates.yaml", "version: v1\n")
	if err := conn.Start(ctx, "teleport-update.service"); err != nil {
		t.Fatalf("an update that restarts the agent: %v", err)
	}
	want := "1 --data-dir " + root + "/data update\n"
	if ran, err := os.ReadFile(root + "/ran"); err != nil || string(ran) != want {
		t.Errorf("ran %q, %v; want %q", ran, err, want)
	}

	// A change of what the units say takes effect at once.
	moved := units
	moved.Binary = root + "/elsewhere/updater"
	for _, u := range []Units{moved, units} {
		if err := install(u); err != nil {
			t.Fatal(err)
		}
		if got, err := conn.Unit(t.Context(), "teleport-update.service"); err != nil || got.ExecStart != u.Binary {
			t.Errorf("systemd runs %q, %v; want %q", got.ExecStart, err, u.Binary)
		}
	}

	noTicks()
	// One that is masked in a file which systemd has not read yet stays off, too.
	mask := filepath.Join("/etc/systemd/system", (Units{}).Timer())
	if err := os.Symlink("/dev/null", mask); err != nil {
		t.Fatal(err)
	}
	if err := conn.StartTimer(t.Context(), units.Timer(), true); err != nil {
		t.Errorf("the timer is masked: %v", err)
	}
	if u, err := conn.Unit(t.Context(), (Units{}).Timer()); err != nil || u.ActiveState != "inactive" {
		t.Errorf("%+v, %v; want a timer that is off", u, err)
	}
	if err := errors.Join(os.Remove(mask), conn.DaemonReload(t.Context())); err != nil {
		t.Fatal(err)
	}

	// And one that is disabled.
	disable := exec.Command("systemctl", "disable", "--now", (Units{}).Timer())
	if out, err := disable.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := install(units); err != nil {
		t.Fatal(err)
	}
	if u, err := conn.Unit(t.Context(), (Units{}).Timer()); err != nil || u.ActiveState != "inactive" || u.UnitFileState != "disabled" {
		t.Errorf("%+v, %v; want a timer that is disabled", u, err)
	}
	units.EnableTimer = true
	if err := install(units); err != nil {
		t.Fatal(err)
	}
	if u, err := conn.Unit(t.Context(), (Units{}).Timer()); err != nil || u.ActiveState != "active" || u.UnitFileState != "enabled" {
		t.Errorf("%+v, %v; want a timer that is enabled again", u, err)
	}
	noTicks()

	// Only an open journal makes the recovery run.
	journal := root + "/data/versions/journal.json"
	if err := os.MkdirAll(filepath.Dir(journal), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"", "{}"} {
		os.Remove(root + "/ran")
		if content != "" {
			writeHostFile(t, journal, content)
		}
		if err := conn.Start(ctx, "teleport-update-recover.service"); err != nil {
			t.Fatal(err)
		}
		ran, _ := os.ReadFile(root + "/ran")
		if want := " --data-dir " + root + "/data recover --boot\n"; (string(ran) == want) != (content != "") {
			t.Errorf("with the journal %q, recovery ran %q", content, ran)
		}
	}
}
