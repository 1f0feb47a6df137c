package versions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"teleport-update/integration/tarball"
	"teleport-update/internal/version"
	"teleport-update/versions/archive"
)

func TestASoundReleaseIsUnpackedWithOurModesWhateverTheUmask(t *testing.T) {
	plain := tarball.Of(tarball.Sound("15.1.1")...)
	for name, data := range map[string][]byte{
		"gzip":                tarball.Gzip(plain),
		"gzip padded by tar":  tarball.Gzip(append(plain, make([]byte, 9<<10)...)),
		"zstd":                tarball.Zstd(plain),
		"zstd with a window":  tarball.Zstd(plain, zstd.WithWindowSize(archive.MaxZstdWindow)),
		"under teleport-ent/": tarball.Gzip(tarball.Of(tarball.Under("teleport-ent", tarball.Sound("15.1.1"))...)),
	} {
		t.Run(name, func(t *testing.T) {
			old := syscall.Umask(0o027)
			defer syscall.Umask(old)
			f, _ := testFetcher(t, nil)
			source := onDisk(t, data)
			if found := checkFile(t, source, f.Limits); len(found) > 0 {
				t.Errorf("CheckArchive: %v", found)
			}
			tree, err := f.Fetch(context.Background(), FetchRequest{Release: oss("15.1.1"), Sources: []*Template{source}})
			if err != nil {
				t.Fatal(err)
			}
			got := contents(t, tree.Dir)
			want := []string{
				"bin drwxr-xr-x",
				"bin/tctl -rwxr-xr-x tctl 15.1.1",
				"bin/teleport -rwxr-xr-x " + tarball.Agent("15.1.1"),
				"bin/tsh -rwxr-xr-x tsh 15.1.1",
				"edition -rw-r--r-- oss\n",
				"etc drwxr-xr-x",
				"etc/systemd drwxr-xr-x",
				"etc/systemd/teleport.service -rw-r--r-- " + tarball.Unit,
				"manifest -rw-r--r-- " + string(formatManifest([]sum{
					sumOf("bin/tsh", []byte("tsh 15.1.1")),
					sumOf("bin/tctl", []byte("tctl 15.1.1")),
					sumOf("bin/teleport", []byte(tarball.Agent("15.1.1"))),
					sumOf("edition", []byte("oss\n")),
					sumOf("etc/systemd/teleport.service", []byte(tarball.Unit)),
				})),
				"sha256 -rw-r--r-- " + digestHex(data) + "\n",
			}
			if !slices.Equal(got, want) {
				t.Errorf("tree:\n%q\nwant:\n%q", got, want)
			}
			if tree.SHA256 != digestHex(data) || filepath.Base(tree.Dir) != "15.1.1" {
				t.Errorf("tree is %+v", tree)
			}
			if info, _ := os.Stat(tree.Dir); info.Mode().Perm() != 0o755 {
				t.Errorf("the folder has mode %v; want 0755", info.Mode())
			}
			if err := tree.Verify(context.Background()); err != nil {
				t.Error(err)
			}
			if out, err := sha256sum(tree.Dir); err != nil {
				t.Errorf("sha256sum -c: %v\n%s", err, out)
			}
			entries, err := os.ReadDir(f.Store.PartialDir())
			if err != nil || len(entries) > 0 {
				t.Errorf("partial/ holds %v, %v; want nothing", entries, err)
			}
		})
	}
}

func sha256sum(dir string) ([]byte, error) {
	cmd := exec.Command("sha256sum", "--check", "--strict", "manifest")
	cmd.Dir = dir
	return cmd.CombinedOutput()
}

// Teleport's tarballs have a unit for each edition, of any of which the host may be.
func TestAReleaseHasTheUnitOfItsEdition(t *testing.T) {
	const fips = "[Service]\nExecStart=/usr/local/bin/teleport start --fips\n"
	items := append(tarball.Under("teleport-ent", tarball.Sound("15.1.1")),
		tarball.Item{Name: "teleport-ent/examples/systemd/fips/teleport.service", Data: fips},
		tarball.Item{Name: "teleport-ent/examples/systemd/production/node/teleport.service", Data: "another one"})
	for edition, want := range map[version.Edition]string{version.FIPS: fips, version.Enterprise: tarball.Unit} {
		f, _ := testFetcher(t, nil)
		tree, err := f.Fetch(t.Context(), FetchRequest{
			Release: Release{Version: "15.1.1", Edition: edition}, Sources: []*Template{onDisk(t, tarball.Gzip(tarball.Of(items...)))},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(tree.UnitFile()); string(got) != want || err != nil {
			t.Errorf("%s: the unit is %q, %v; want %q", edition, got, err, want)
		}
		if err := tree.Verify(t.Context()); err != nil {
			t.Errorf("%s: %v", edition, err)
		}
	}
}

func TestHostileTarballsAreRefusedAndLeaveNothing(t *testing.T) {
	for name, tc := range tarball.HostileTarballs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := testFetcher(t, nil)
			f.Limits = archive.Limits{Download: 2 << 20, Entries: 100, File: 1 << 20, Total: 4 << 20, Ratio: 50, Slack: 1 << 20}
			if tc.Loose() {
				f.Limits.Slack = 1 << 30
			}
			victim := filepath.Join(filepath.Dir(f.Store.Dir), "evil")
			source := onDisk(t, tc.Data)
			tree, err := f.Fetch(context.Background(), FetchRequest{Release: oss("15.1.1"), Sources: []*Template{source}})
			if err == nil {
				t.Fatalf("it was published as %s:\n%q", tree.Dir, contents(t, tree.Dir))
			}
			if found := checkFile(t, source, f.Limits); rulesOf(found) != tc.Rules {
				t.Errorf("CheckArchive: %v; want %q", found, tc.Rules)
			}
			if !strings.Contains(err.Error(), tc.Says) {
				t.Errorf("error %q; want it to say %q", err, tc.Says)
			}
			if strings.Count(err.Error(), "refused") > 1 {
				t.Errorf("the error repeats itself: %q", err)
			}
			wantNothingLeft(t, f.Store)
			if _, err := os.Lstat(victim); err == nil {
				t.Errorf("%s was written", victim)
			}
		})
	}
}

// checkFile is CheckArchive of the file that a source leads to.
func checkFile(t *testing.T, source *Template, limits archive.Limits) []*archive.Violation {
	t.Helper()
	u, err := source.URL(oss("15.1.1"))
	if err != nil {
		t.Fatal(err)
	}
	found, err := CheckArchive(u.Path, limits)
	if err != nil {
		t.Errorf("CheckArchive: %v", err)
	}
	return found
}

func rulesOf(found []*archive.Violation) string {
	var rules []string
	for _, v := range found {
		rules = append(rules, v.Rule)
	}
	return strings.Join(rules, " ")
}

func TestACheckedTarballHasItsOwnChecksum(t *testing.T) {
	data := soundTarball("15.1.1")
	for name, tc := range map[string]struct {
		checksum string // empty: there is none
		want     string // the rules that are broken
		says     string
	}{
		"none":                        {"", "", ""},
		"its own":                     {digestHex(data) + "  release.tar\n", "", ""},
		"its own, and then much else": {digestHex(data) + "\n" + strings.Repeat("x", 2*maxChecksum), "", ""},
		"another's":                   {digestHex(nil), "checksum", "its checksum file says sha256 " + digestHex(nil) + ", and it has " + digestHex(data)},
		"what is none":                {"<html>", "checksum", "does not begin with a SHA-256"},
	} {
		path := filepath.Join(t.TempDir(), "release.tar")
		must(t, os.WriteFile(path, data, 0o644))
		if tc.checksum != "" {
			must(t, os.WriteFile(path+checksumSuffix, []byte(tc.checksum), 0o644))
		}
		found, err := CheckArchive(path, archive.DefaultLimits())
		if err != nil || rulesOf(found) != tc.want || len(found) > 0 && !strings.Contains(found[0].Text, tc.says) {
			t.Errorf("%s: %v, %v; want %q", name, found, err, tc.want)
		}
	}
	for name, path := range map[string]string{"a folder": t.TempDir(), "nothing": filepath.Join(t.TempDir(), "none")} {
		if found, err := CheckArchive(path, archive.DefaultLimits()); err == nil || len(found) > 0 {
			t.Errorf("%s: %v, %v; want an error", name, found, err)
		}
	}
}

func TestATarballCutAnywhereIsRefused(t *testing.T) {
	whole := largeRelease("15.1.1", 160<<10)
	if len(whole) < 40*4096 {
		t.Fatalf("the release has only %d bytes", len(whole))
	}
	for cut := 0; cut < len(whole); cut += 4096 {
		t.Run(fmt.Sprint("at ", cut), func(t *testing.T) {
			t.Parallel()
			f, _ := testFetcher(t, nil)
			source := onDisk(t, whole[:cut])
			if _, err := f.Fetch(context.Background(), FetchRequest{Release: oss("15.1.1"), Sources: []*Template{source}}); err == nil {
				t.Error("it was published")
			}
			if found := checkFile(t, source, f.Limits); len(found) == 0 {
				t.Error("CheckArchive takes it")
			}
			wantNothingLeft(t, f.Store)
		})
	}
}

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

func TestEditionsOfOneVersionLieSideBySide(t *testing.T) {
	f, _ := testFetcher(t, nil)
	first := publish(t, f, oss("15.1.1"))
	second := publish(t, f, Release{Version: "15.1.1", Edition: version.Enterprise})
	third := publish(t, f, Release{Version: "15.1.1", Edition: version.FIPS})
	for tree, want := range map[Tree]string{first: "15.1.1", second: "15.1.1_enterprise", third: "15.1.1_enterprise-fips"} {
		if filepath.Base(tree.Dir) != want {
			t.Errorf("%v is in %s; want %s", tree.Release, tree.Dir, want)
		}
		found, ok, err := f.Store.Lookup(tree.Release)
		if err != nil || !ok || found != tree {
			t.Errorf("Lookup(%v) = %+v, %v, %v; want %+v", tree.Release, found, ok, err, tree)
		}
	}
}

// Whose mark of the edition is lost keeps its folder: the agent executes what is in it.
func TestAnotherEditionDoesNotTakeTheFolderOfTheActiveOne(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"removed": os.Remove,
		"emptied": func(path string) error { return os.WriteFile(path, nil, 0o644) },
		"broken":  func(path string) error { return os.WriteFile(path, []byte("{[ broken"), 0o644) },
	} {
		f, _ := testFetcher(t, nil)
		active := publish(t, f, oss("15.1.1"))
		if err := spoil(active.Dir + "/edition"); err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			r    Release
			want string
		}{{Release{Version: "15.1.1", Edition: version.Enterprise}, "15.1.1_enterprise"}, {active.Release, "15.1.1"}} {
			tree, err := f.Fetch(t.Context(), FetchRequest{Release: tc.r, Beside: active.Release, Sources: []*Template{onDisk(t, soundTarball("15.1.1"))}})
			if err != nil || filepath.Base(tree.Dir) != tc.want {
				t.Errorf("%s: %v is in %s, %v; want %s", name, tc.r, tree.Dir, err, tc.want)
			}
		}
	}
}

// A folder whose mark is lost is by its name the one of a release, also where a plainer name is free.
func TestAReleaseComesBackIntoTheFolderOfItsName(t *testing.T) {
	f, _ := testFetcher(t, nil)
	r := Release{Version: "15.1.1", Edition: version.Enterprise}
	first := publish(t, f, oss("15.1.1"))
	tree := publish(t, f, r)
	if err := errors.Join(os.RemoveAll(first.Dir), os.Remove(tree.Dir+"/edition")); err != nil {
		t.Fatal(err)
	}
	again, err := f.Fetch(t.Context(), FetchRequest{Release: r, Beside: r, Sources: []*Template{onDisk(t, soundTarball("15.1.1"))}})
	if err != nil || again.Dir != tree.Dir {
		t.Errorf("it comes back into %s, %v; want %s", again.Dir, err, tree.Dir)
	}
}

func TestAReleaseIsReplacedInTheFolderThatItIsIn(t *testing.T) {
	f, _ := testFetcher(t, nil)
	first := publish(t, f, oss("15.1.1"))
	r := Release{Version: "15.1.1", Edition: version.Enterprise}
	tree := publish(t, f, r)
	if err := os.RemoveAll(first.Dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(tree.BackupDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	again, err := f.Fetch(t.Context(), FetchRequest{Release: r, Sources: []*Template{onDisk(t, soundTarball("15.1.1"))}, Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	if again.Dir != tree.Dir {
		t.Errorf("it is in %s now, apart from its backup; want %s", again.Dir, tree.Dir)
	}
	if _, err := os.Stat(again.BackupDir()); err != nil {
		t.Error(err)
	}
}
