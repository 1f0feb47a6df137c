package procfs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MountOf returns where the file system is mounted on which a file is that this process
// has open; empty where the kernel does not say.
func (f FS) MountOf(file *os.File) (string, error) {
	about, err := os.ReadFile(filepath.Join(f.Proc, "self/fdinfo", strconv.Itoa(int(file.Fd()))))
	if err != nil {
		return "", err
	}
	number := ""
	for line := range strings.Lines(string(about)) {
		if value, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			number = strings.TrimSpace(value)
		}
	}
	mounts, err := os.ReadFile(filepath.Join(f.Proc, "self/mountinfo"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[0] == number {
			return unescaped.Replace(fields[4]), nil
		}
	}
	return "", nil
}

// unescaped undoes what the kernel does to paths in its table of mounts (proc(5)).
var unescaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
