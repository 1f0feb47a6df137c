package fetch

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"

	"teleport-update/integration/tarball"
	"teleport-update/internal/version"
	"teleport-update/versions"
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
			tree, err := f.Fetch(context.Background(), Request{Release: oss("15.1.1"), Sources: []*Template{source}})
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
				"manifest -rw-r--r-- " +
					manifestLine("bin/tctl", "tctl 15.1.1") +
					manifestLine("bin/teleport", tarball.Agent("15.1.1")) +
					manifestLine("bin/tsh", "tsh 15.1.1") +
					manifestLine("edition", "oss\n") +
					manifestLine("etc/systemd/teleport.service", tarball.Unit),
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

func manifestLine(name, data string) string { return digestHex([]byte(data)) + "  " + name + "\n" }

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
		tree, err := f.Fetch(t.Context(), Request{
			Release: versions.Release{Version: "15.1.1", Edition: edition}, Sources: []*Template{onDisk(t, tarball.Gzip(tarball.Of(items...)))},
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
			tree, err := f.Fetch(context.Background(), Request{Release: oss("15.1.1"), Sources: []*Template{source}})
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
			if _, err := f.Fetch(context.Background(), Request{Release: oss("15.1.1"), Sources: []*Template{source}}); err == nil {
				t.Error("it was published")
			}
			if found := checkFile(t, source, f.Limits); len(found) == 0 {
				t.Error("CheckArchive takes it")
			}
			wantNothingLeft(t, f.Store)
		})
	}
}
