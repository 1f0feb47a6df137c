package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"
)

// Of each error it is told whether it says something about the file or about the host, and never a
// host's as damage: that would have the only database be moved away.
func TestWhatAnErrorSaysOfABackupAndOfADatabase(t *testing.T) {
	for _, tc := range []struct {
		err     error
		damaged bool
	}{
		{unix.EIO, false}, {unix.EACCES, false}, {unix.EPERM, false}, {unix.EROFS, false}, {unix.ENOSPC, false}, {unix.EDQUOT, false},
		{unix.ENOMEM, false}, {unix.EMFILE, false}, {unix.ENFILE, false}, {unix.ESTALE, false},
		{sqlite3.NOMEM, false}, {sqlite3.IOERR, false}, {sqlite3.IOERR_READ, false}, {sqlite3.BUSY, false},
		{sqlite3.NOTADB, true}, {sqlite3.CORRUPT, true}, {sqlite3.IOERR_SHORT_READ, true}, {errors.New("two headers"), true},
	} {
		for _, err := range []error{tc.err, fmt.Errorf("check: %w", tc.err), &fs.PathError{Op: "read", Path: "/x", Err: tc.err}} {
			got := unusable("/b", err, "is damaged: %v", err)
			if _, damaged := errors.AsType[*InvalidError](got); damaged != tc.damaged || !damaged && !errors.Is(got, tc.err) {
				t.Errorf("a backup, %v: %v; want damaged %v", err, got, tc.damaged)
			}
			explained := explain(t.Context(), err, "/d/sqlite.db", "/d")
			if _, corrupt := errors.AsType[*CorruptError](explained); corrupt && !tc.damaged || !tc.damaged && strings.Contains(explained.Error(), "damaged") {
				t.Errorf("a database, %v: %v", err, explained)
			}
		}
	}
	for err, errno := range map[error]unix.Errno{sqlite3.IOERR_READ: unix.EIO, sqlite3.READONLY: unix.EROFS, sqlite3.FULL: unix.ENOSPC} {
		if got := explain(t.Context(), err, "/d/sqlite.db", "/"); !errors.Is(got, errno) {
			t.Errorf("%v does not keep its meaning: %v", err, got)
		}
	}
}
