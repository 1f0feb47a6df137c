package trust

import (
	"io/fs"
	"os"
	"syscall"
)

// Sealed reports whether nobody but the user that runs this, root on a host, can change a file, or
// exchange files in a folder. It looks at that one name only, see Path for the way to it.
func Sealed(info fs.FileInfo) bool { return Ours(info) && info.Mode().Perm()&0o022 == 0 }

// Ours reports whether a file or folder belongs to the user that runs this.
func Ours(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
