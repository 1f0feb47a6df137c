package backup

import (
	"fmt"
	"path/filepath"
	"time"

	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/internal/regular"
)

// settledName is the file that says that the transaction which took a backup has ended. It has the time at which the backup was taken, to
// identify it.
const settledName = "settled"

// Settle notes that the transaction which took the backup in dir has ended: nobody restores the backup for it any more.
func Settle(dir string) error {
	r, err := readMetadata(dir)
	if failure.Is[*InvalidError](err) {
		return nil // nobody can restore it, or it is not there any more
	}
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, settledName), []byte(r.taken()), 0o600)
	}
	if err != nil {
		return fmt.Errorf("settle the backup in %s: %w", dir, err)
	}
	return nil
}

// Settled reports whether it is noted that the transaction which took the backup in dir has ended.
func Settled(dir string) bool {
	r, err := readMetadata(dir)
	if err != nil {
		return false
	}
	note, err := regular.Read(filepath.Join(dir, settledName), maxMeta, regular.NoLink|regular.Sealed)
	return err == nil && string(note) == r.taken()
}

// taken identifies a backup among the backups that were ever in its folder.
func (r metadata) taken() string { return r.Created.UTC().Format(time.RFC3339Nano) + "\n" }
