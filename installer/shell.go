package installer

import (
	"cmp"
	"os"
	"path/filepath"

	"teleport-update/installer/host"
	"teleport-update/internal/layout"
	"teleport-update/versions"
)

// rootPath is where a shell of root's looks for programs, where nothing says otherwise.
const rootPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// foreignUpdater is the program that a shell starts as teleport-update where that is not
// this one: Teleport's own packages have a program of that name in a folder that
// comes before ours. It is told by its build information, without being run.
func foreignUpdater(path string) string {
	for _, dir := range filepath.SplitList(cmp.Or(path, rootPath)) {
		file := filepath.Join(dir, host.UpdaterName)
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue
		}
		if u, ok := versions.UpdaterAt(file); ok && !u.Ours {
			return file
		}
		return ""
	}
	return ""
}

// logShell says by which name this program is found, where the usual one leads
// elsewhere.
func (i *Installer) logShell() {
	file := foreignUpdater(os.Getenv("PATH"))
	if file == "" {
		return
	}
	name := i.Machine.Host.Program
	if host.Exists(layout.SecondName) {
		name = filepath.Base(layout.SecondName)
	}
	i.Machine.Host.Log.Warn("a shell starts another program as teleport-update, one of Teleport's own packages; use the other "+
		"name of this program", "other", file, "run", name)
}
