package versions

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByUs reports whether a file belongs to the user that runs this, who is
// root on a host.
func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
