package host

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

type noTimer struct{}

func (noTimer) StartTimer(context.Context, string, bool) error { return nil }
func (noTimer) StopTimer(context.Context, string) error        { return nil }
func (noTimer) DaemonReload(context.Context) error             { return nil }

// The rescuer must not be a program that has yet to show that it can make a transaction.
func TestTheRescuerStaysUntilTheNextOneHasFinishedATransaction(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("what root trusts is root's")
	}
	h := testHost(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := func(name string) string {
		path := filepath.Join(t.TempDir(), "teleport-update")
		if err := os.WriteFile(path, append(self[:len(self):len(self)], name...), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	is := func(path, want string) {
		t.Helper()
		if same, err := SameContent(want, path); !same || err != nil {
			t.Errorf("%s is not %s: %v", path, want, err)
		}
	}
	install := func() {
		t.Helper()
		if _, err := h.InstallUnits(t.Context(), noTimer{}, Installing{EnableTimer: true}); err != nil {
			t.Fatal(err)
		}
	}
	first, second, third := program("first"), program("second"), program("third")
	h.Program = first
	install()
	is(h.Paths.Updater(), first)

	h.Program = second
	install()
	is(h.Paths.Updater(), first)
	if err := h.PromoteCopy(t.Context()); err != nil {
		t.Fatal(err)
	}
	is(h.Paths.Updater(), second)
	is(h.FormerUpdater(), first)
	if err := h.PromoteCopy(t.Context()); err != nil { // the next transaction of the same one
		t.Fatal(err)
	}
	is(h.FormerUpdater(), first)

	h.Program = third
	install()
	is(h.Paths.Updater(), second)
	if err := h.PromoteCopy(t.Context()); err != nil {
		t.Fatal(err)
	}
	is(h.Paths.Updater(), third)
	is(h.FormerUpdater(), second)

	// What cannot rescue is replaced at once.
	if err := os.WriteFile(h.Paths.Updater(), []byte("rotten"), 0o755); err != nil {
		t.Fatal(err)
	}
	install()
	is(h.Paths.Updater(), third)
	if err := h.RemoveUnits(t.Context(), noTimer{}); err != nil {
		t.Fatal(err)
	}
	if Exists(h.FormerUpdater()) || Exists(h.Paths.Updater()) {
		t.Error("a copy of the updater is left")
	}
}
