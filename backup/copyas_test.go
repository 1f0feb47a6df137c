package backup

import (
	"path/filepath"
	"testing"

	"teleport-update/internal/version"
)

func TestABackupBecomesTheOneOfAVersionThatIsKnownLater(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "", 20, 1)
	h.take(t, "")
	kept := host{db: h.db, dir: filepath.Join(t.TempDir(), "backup")}
	must(t, CopyAs(h.dir, kept.dir, version.Release{Version: "15.1.0", Edition: wantOf("15.1.0").Edition}))
	kept.wantBackup(t, "15.1.0", state{20, 1})
	if r, err := readMetadata(h.dir); err != nil || r.Version != "" {
		t.Errorf("the first one is of version %q now, %v", r.Version, err)
	}

	// Another backup in the first folder changes nothing in the second.
	execDB(t, h.db, "DELETE FROM a WHERE id=20; DELETE FROM b WHERE id=20")
	h.take(t, "15.2.0")
	kept.wantBackup(t, "15.1.0", state{20, 1})
	if err := CopyAs(filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "to"), version.Release{}); err == nil {
		t.Error("a backup that is not there was copied")
	}
}
