package fetch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/versions"
)

// Retention of another command must not find a release that nobody has claimed yet.
func TestAReleaseIsClaimedBeforeItCanBeFound(t *testing.T) {
	f, _ := testFetcher(t, nil)
	var claim versions.Claim
	claimed := false
	f.Progress = whileReceiving{f.Progress, func() {
		trees, _ := filepath.Glob(filepath.Join(f.Store.PartialDir(), ".staging-*"))
		for _, dir := range trees {
			claimed = locked(t, dir)
		}
	}}
	tree, err := f.Fetch(context.Background(), Request{Release: oss("1.1.0"), Sources: []*Template{onDisk(t, soundTarball("1.1.0"))}, Claim: &claim})
	must(t, err)
	if !claimed {
		t.Error("the release could be found before it was claimed")
	}
	if !locked(t, tree.Dir) {
		t.Error("the claim does not follow the release to its name")
	}
	claim.End()
	if locked(t, tree.Dir) {
		t.Error("the release stays claimed")
	}
}

// locked reports whether somebody has a lock on a folder.
func locked(t *testing.T, dir string) bool {
	t.Helper()
	folder, err := os.Open(dir)
	must(t, err)
	defer folder.Close()
	err = unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		t.Fatal(err)
	}
	return err != nil
}

// whileReceiving does something whenever bytes have come.
type whileReceiving struct {
	Progress
	do func()
}

func (w whileReceiving) Update(have, total int64) { w.do(); w.Progress.Update(have, total) }
