package host

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
)

// readings counts how often systemd is told to read its files.
type readings int

func (r *readings) StartTimer(context.Context, string, bool) error { *r++; return nil }
func (r *readings) StopTimer(context.Context, string) error        { return nil }
func (r *readings) DaemonReload(context.Context) error             { *r++; return nil }

// What is the updater's leaves the old folder, once systemd knows it from the new one; what is an
// administrator's stays, and what the first enable found comes back where it was.
func TestUnitsMoveAndComeBack(t *testing.T) {
	h := testHost(t)
	from, to := h.Paths.UnitDir, t.TempDir()
	writeFile(t, h.Paths.Unit(), "[Service]\nExecStart=/usr/local/bin/teleport start\n")
	writeFile(t, filepath.Join(from, "teleport.service.d", "override.conf"), "[Service]\n")
	if _, err := h.OwnUnits().Write(); err != nil {
		t.Fatal(err)
	}
	h.Paths.UnitDir = to
	var systemd readings
	for range 2 { // the second time there is nothing to do
		if err := h.MoveUnits(t.Context(), &systemd, from); err != nil {
			t.Fatal(err)
		}
	}
	if systemd != 2 {
		t.Errorf("systemd read its files %d times; want once before the old files go, and once after", systemd)
	}
	for _, name := range []string{"teleport.service", "teleport-update.timer", "teleport-update.service", "teleport-update-recover.service"} {
		if !Exists(filepath.Join(to, name)) || Exists(filepath.Join(from, name)) {
			t.Errorf("%s did not move", name)
		}
	}
	if problems := h.OwnUnits().Problems(); len(problems) > 0 {
		t.Errorf("the units have problems: %v", problems)
	}
	if left := h.othersLeft(from); !slices.Equal(left, []string{filepath.Join(from, "teleport.service.d", "override.conf")}) {
		t.Errorf("an administrator is told of %v", left)
	}
}

// A unit that differs from the one in force is somebody's, and is not removed with the others.
func TestAUnitThatDiffersStaysWhereItIs(t *testing.T) {
	h := testHost(t)
	from := h.Paths.UnitDir
	writeFile(t, h.Paths.Unit(), "[Service]\n# an administrator's\n")
	h.Paths.UnitDir = t.TempDir()
	writeFile(t, h.Paths.Unit(), "[Service]\n")
	if err := h.leaveUnits(from); err != nil {
		t.Fatal(err)
	}
	if !Exists(filepath.Join(from, "teleport.service")) {
		t.Error("it is gone")
	}
}
