package backup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/internal/space"
)

// A file system without room and inodes: the database goes back by its reserve, and without a reserve it is refused before.
func TestARestoreTakesItsReserve(t *testing.T) {
	for n := range 4 {
		reserved, journal := n%2 == 0, []string{"wal", "delete"}[n/2]
		t.Run(fmt.Sprintf("reserved=%t, %s", reserved, journal), func(t *testing.T) {
			dir := t.TempDir()
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m,nr_inodes=60"); err != nil {
				t.Skipf("no file system of our own: %v", err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
			path := filepath.Join(dir, "proc", "sqlite.db")
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
			makeDB(t, path, "PRAGMA journal_mode="+journal, 2000, 1)
			d, err := Open(path)
			must(t, err)
			defer d.Close()
			kept := t.TempDir()
			_, err = d.Take(t.Context(), TakeRequest{Dir: kept, Meta: metaOf("1.0.0"), Stopped: true})
			must(t, err)
			if reserved {
				size, err := d.Size()
				must(t, err)
				must(t, d.Reserve(size))
			}
			execDB(t, path, "PRAGMA user_version=2; CREATE TABLE later (a)")
			_ = os.WriteFile(filepath.Join(dir, "bytes"), make([]byte, 80<<20), 0o600) // as many as fit
			for n := range 80 {
				_ = os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), nil, 0o600)
			}
			err = d.CanRestore(kept, nil)
			if _, full := errors.AsType[*space.Error](err); full == reserved {
				t.Fatalf("whether it can be restored: %v", err)
			}
			if !reserved {
				return
			}
			must(t, err)
			must(t, d.DropReserve())
			must(t, d.Restore(t.Context(), kept))
			got, err := d.Schema(t.Context())
			if want, wantErr := SchemaOf(t.Context(), kept); err != nil || wantErr != nil || got != want {
				t.Errorf("the database has %v, %v; want %v, %v", got, err, want, wantErr)
			}
		})
	}
}
