package backup

import "fmt"

// A Reason says why a backup is not the one that is wanted.
type Reason string

const (
	Missing      Reason = "missing"         // there is no backup
	Incomplete   Reason = "incomplete"      // it was cut off, see Outdate too
	OtherProxy   Reason = "other proxy"     // it belongs to another cluster
	OtherHost    Reason = "other host"      // it has the identity of another host, or of this one in another cluster
	OtherVersion Reason = "other version"   // another version wrote the database
	OtherEdition Reason = "other edition"   // another edition of the version did
	TooOld       Reason = "too old"         // it is older than Want.MaxAge
	FromFuture   Reason = "from the future" // it was taken after Want.Now
	Damaged      Reason = "damaged"         // it is not what was written, or others can write it
)

// An InvalidError says that a backup must not be restored, and why.
type InvalidError struct {
	Dir    string // of the backup
	Reason Reason
	detail string
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("the database backup in %s %s", e.Dir, e.detail)
}

func invalid(dir string, reason Reason, format string, args ...any) *InvalidError {
	return &InvalidError{Dir: dir, Reason: reason, detail: fmt.Sprintf(format, args...)}
}
