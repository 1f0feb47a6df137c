package backup

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The note is of one backup: the next in the same folder is not settled, nor is a backup with a note that others may have written.
func TestABackupIsSettledOnce(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "", 4, 1)
	must(t, Settle(h.dir))
	if Settled(h.dir) {
		t.Error("a backup that is not there is settled")
	}
	h.take(t, "15.1.0")
	if Settled(h.dir) {
		t.Error("a new backup is settled")
	}
	must(t, Settle(h.dir))
	if !Settled(h.dir) {
		t.Error("the note does not count")
	}
	note := filepath.Join(h.dir, settledName)
	must(t, os.Chmod(note, 0o666))
	if Settled(h.dir) {
		t.Error("a note of another user's counts")
	}
	must(t, os.Chmod(note, 0o600))
	next := metaOf("15.1.0")
	next.Created = next.Created.Add(time.Millisecond)
	must(t, take(t.Context(), h.db, TakeRequest{Dir: h.dir, Meta: next}))
	if Settled(h.dir) {
		t.Error("the note of the backup before counts for the next one")
	}
}
