package backup

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"
)

// A Reason says why a backup must not be restored.
type Reason string

const (
	Missing      Reason = "missing"         // there is no backup
	Incomplete   Reason = "incomplete"      // it was cut off, see Outdate too
	OtherProxy   Reason = "other proxy"     // it belongs to another cluster
	OtherHost    Reason = "other host"      // it has the identity of another host, or of this host in another cluster
	OtherVersion Reason = "other version"   // another version wrote the database
	OtherEdition Reason = "other edition"   // another edition of the version did
	TooOld       Reason = "too old"         // it is older than Want.MaxAge
	FromFuture   Reason = "from the future" // it was taken after Want.Now
	Damaged      Reason = "damaged"         // it has changed since, or others can write it
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

// hostsErrors say something about the host, and nothing about the content of a file.
var hostsErrors = []error{
	unix.EIO, unix.EACCES, unix.EPERM, unix.EROFS, unix.ENOSPC, unix.EDQUOT, unix.EFBIG, unix.ENOMEM, unix.EMFILE, unix.ENFILE,
	unix.ESTALE, unix.ENODEV,
	sqlite3.NOMEM, sqlite3.IOERR, sqlite3.BUSY,
}

// ofHost reports whether a file could not be looked at. A file that ends too early could be.
func ofHost(err error) bool {
	is := func(target error) bool { return errors.Is(err, target) }
	return slices.ContainsFunc(hostsErrors, is) && !errors.Is(err, sqlite3.IOERR_SHORT_READ)
}

// unusable turns an error of a look at a backup into an *InvalidError, unless the error says something about the host. A backup that cannot
// be read is not a damaged one: nothing is decided without it.
func unusable(dir string, err error, format string, args ...any) error {
	if ofHost(err) {
		return fmt.Errorf("read the database backup in %s: %w", dir, err)
	}
	return invalid(dir, Damaged, format, args...)
}
