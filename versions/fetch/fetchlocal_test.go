package fetch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/internal/version"
	"teleport-update/versions"
)

func TestADamagedVersionIsReplacedAndKeepsItsBackup(t *testing.T) {
	for name, replace := range map[string]bool{"found damaged": false, "told to": true} {
		t.Run(name, func(t *testing.T) {
			f, _ := testFetcher(t, nil)
			tree := publish(t, f, oss("15.1.1"))
			if err := os.MkdirAll(tree.BackupDir(), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{tree.BackupDir() + "/sqlite.db", tree.BackupDir() + "/backup.yaml"} {
				if err := os.WriteFile(path, []byte("rows"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if !replace {
				if err := os.Truncate(tree.Binary("tsh"), 1); err != nil {
					t.Fatal(err)
				}
			}
			before, err := os.Stat(tree.Dir)
			if err != nil {
				t.Fatal(err)
			}
			tarball := soundTarball("15.1.1")
			again, err := f.Fetch(context.Background(), Request{Release: oss("15.1.1"), Sources: []*Template{onDisk(t, tarball)}, Replace: replace})
			if err != nil {
				t.Fatal(err)
			}
			if again != tree {
				t.Errorf("the tree is %+v; want %+v", again, tree)
			}
			if after, err := os.Stat(tree.Dir); err != nil || os.SameFile(before, after) {
				t.Errorf("the folder was not exchanged (%v)", err)
			}
			wantWhole(t, again, tarball)
			got := contents(t, tree.BackupDir())
			want := []string{"backup.yaml -rw------- rows", "sqlite.db -rw------- rows"}
			if !slices.Equal(got, want) {
				t.Errorf("backup holds %q; want %q", got, want)
			}
			if info, err := os.Stat(tree.BackupDir()); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("backup has mode %v, %v; want 0700", info.Mode(), err)
			}
			if left, _ := os.ReadDir(f.Store.PartialDir()); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestAVersionsNameThatIsTakenIsNotTouched(t *testing.T) {
	f, _ := testFetcher(t, nil)
	if err := os.MkdirAll(f.Store.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.Store.Dir+"/15.1.1", []byte("somebody's file"), 0o644); err != nil {
		t.Fatal(err)
	}
	tree := publish(t, f, oss("15.1.1"))
	if filepath.Base(tree.Dir) != "15.1.1_oss" {
		t.Errorf("the tree is in %s", tree.Dir)
	}
	if err := os.Symlink("elsewhere", f.Store.Dir+"/15.1.1_enterprise"); err != nil {
		t.Fatal(err)
	}
	_, err := f.Fetch(context.Background(), Request{Release: versions.Release{Version: "15.1.1", Edition: version.Enterprise}, Sources: []*Template{onDisk(t, soundTarball("15.1.1"))}})
	if err == nil || !strings.Contains(err.Error(), "move them away") {
		t.Errorf("error %v; want one that names what is in the way", err)
	}
	if data, err := os.ReadFile(f.Store.Dir + "/15.1.1"); err != nil || string(data) != "somebody's file" {
		t.Errorf("somebody's file holds %q, %v", data, err)
	}
}

func TestOnlyRegularFilesAreFetchedFromThisHost(t *testing.T) {
	f, _ := testFetcher(t, nil)
	f.Patience.Backoff, f.Patience.MaxBackoff = time.Hour, time.Hour // none is worth a second look
	dir := t.TempDir()
	for name, want := range map[string]string{dir: "not a regular file", "/dev/zero": "not a regular file", dir + "/missing": "release not found"} {
		_, err := f.Fetch(context.Background(), Request{
			Release: oss("15.1.1"), Sources: []*Template{mustTemplate(t, "file://"+name)}, ExpectSHA256: digestHex(nil),
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; want %q", name, err, want)
		}
	}
}

func TestWhatIsOnThisHostIsNotKeptTwice(t *testing.T) {
	f, _ := testFetcher(t, nil)
	f.Patience.KeepAfter = 0 // every download is slow
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.Progress = &at{f.Progress, 1 << 20, cancel}
	_, err := f.Fetch(ctx, Request{Release: oss("15.1.1"), Sources: []*Template{onDisk(t, largeRelease("15.1.1", 3<<20))}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the interrupted fetch: %v", err)
	}
	wantNothingLeft(t, f.Store)
}
