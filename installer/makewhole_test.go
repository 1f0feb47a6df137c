package installer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A damaged active version is made whole before it is left; without a mirror that has it the change is
// refused, unless a person insists.
func TestADamagedActiveVersionIsMadeWholeBeforeItIsLeft(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"a program is gone": func(dir string) error { return os.Remove(filepath.Join(dir, "bin", "tsh")) },
		"a program is another": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "bin", "tsh"), []byte("another"), 0o755)
		},
		"the manifest is broken": func(dir string) error { return os.WriteFile(filepath.Join(dir, "manifest"), []byte("broken\n"), 0o644) },
		"the digest is gone":     func(dir string) error { return os.Remove(filepath.Join(dir, "sha256")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			to := wanted{Release: oss("1.1.0"), Config: s.c, Spec: s.c.Spec, Retried: true}
			must(t, makeWhole(t.Context(), s.Installer, to, false, "insist"))
			must(t, os.Remove(filepath.Join(s.dir, "1.0.0.tar.gz")))
			must(t, damage(filepath.Join(s.Machine.Host.Paths.Versions(), "1.0.0")))
			err := makeWhole(t.Context(), s.Installer, to, false, "insist")
			if err == nil || !strings.Contains(err.Error(), "`insist` makes it all the same") {
				t.Errorf("without a mirror: %v; want a refusal that names the command", err)
			}
			must(t, makeWhole(t.Context(), s.Installer, to, true, "insist"))
			if _, damaged, _ := damageOf(t.Context(), s.Machine, to); damaged == nil {
				t.Fatal("it is whole, and nobody had it")
			}
			s.publish("1.0.0")
			must(t, makeWhole(t.Context(), s.Installer, to, false, "insist"))
			if _, damaged, err := damageOf(t.Context(), s.Machine, to); damaged != nil || err != nil {
				t.Errorf("it is not whole: %v, %v", damaged, err)
			}
		})
	}
}

// Somebody copied a newer program through the agent's link, and it has changed the database: no repair, no change and no advice
// puts the old program back over that.
func TestAnExchangedProgramStaysOverTheDatabaseThatItChanged(t *testing.T) {
	s := overOtherTables(t, nil)
	tree, _, err := s.Machine.Active(s.c)
	must(t, err)
	time.Sleep(20 * time.Millisecond) // longer than the kernel's clock of files stands still
	must(t, os.WriteFile(tree.Binary("teleport"), []byte("#!/bin/sh\necho Teleport v1.5.0\n"), 0o755))
	stays := func(who string) {
		t.Helper()
		if text, _ := os.ReadFile(tree.Binary("teleport")); !strings.Contains(string(text), "1.5.0") {
			t.Fatalf("%s put the old program back", who)
		}
	}
	for _, thorough := range []bool{false, true} {
		if whole, err := s.repair(t.Context(), s.c, thorough); err != nil || !whole {
			t.Errorf("a repair, thorough: %v: %v, and it would be fetched: %v", thorough, err, !whole)
		}
		stays("a repair")
	}
	must(t, makeWhole(t.Context(), s.Installer, wanted{Release: oss("1.2.0"), Config: s.c, Spec: s.c.Spec, Retried: true}, false, "insist"))
	stays("a change")
	s.Machine.RecordSchema(t.Context(), &s.c)
	says, err := s.Status(t.Context(), StatusOptions{Offline: true})
	must(t, err)
	if why := says.Explanation; !strings.Contains(why, "`teleport-update pin 1.5.0`") || strings.Contains(why, "fetches it again") {
		t.Errorf("status says %s: %s", says.State, why)
	}
}
