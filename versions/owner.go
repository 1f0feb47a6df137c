package versions

import (
	"io/fs"
	"os"
	"syscall"
)

const openToOthers = "can be written by another user"

// sealed reports whether nobody but the user that runs this can change a file, or
// exchange what is in a folder.
func sealed(info fs.FileInfo) bool {
	return ownedByUs(info) && info.Mode().Perm()&0o022 == 0
}

// ownedByUs reports whether a file belongs to the user that runs this, who is
// root on a host.
func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
