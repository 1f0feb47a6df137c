package versions

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestUnpackingNeverLeavesItsFolder(t *testing.T) {
	// Whatever a future rule overlooks: the folder itself is the limit.
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/tree", 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := newTreeWriter(dir+"/tree", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../..", dir+"/tree/out"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../evil", "out/evil", "/evil", "a/../../evil"} {
		if _, err := w.Create(name, 0o644, 0); err == nil {
			t.Errorf("%s was created", name)
		}
	}
	if err := w.finish(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir + "/evil"); err == nil {
		t.Error("a file was written outside")
	}
}

func TestAnArchiveTakesNoMoreOfTheDiskThanItsTarballMayNeed(t *testing.T) {
	// A header names 1 GiB, and 1 KiB comes.
	dir := t.TempDir()
	w, err := newTreeWriter(dir, 4<<10)
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.Create("bin/teleport", 0o755, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(make([]byte, 1<<10))
	var st unix.Stat_t
	if err := unix.Stat(dir+"/bin/teleport", &st); err != nil {
		t.Fatal(err)
	}
	if taken := st.Blocks * 512; taken > 1<<20 {
		t.Errorf("%d bytes of the disk are taken for 1 KiB", taken)
	}
	if err := out.Close(); err == nil {
		t.Error("a file that did not come whole is taken")
	}
	w.finish()
}
