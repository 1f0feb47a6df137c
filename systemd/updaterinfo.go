package systemd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"teleport-update/internal/durable"
)

// UpdaterInfo is what the agent has to know to report to its cluster how it is kept up to
// date. It is the same for all versions.
type UpdaterInfo struct {
	InstallDir string // the folder that the agent's executable lies below, without links
	ConfigFile string // what the agent reads of its updater
	RunDir     string // below /run: a folder for the agent's user and root alone; empty: none
}

// UpdaterInfoFile is a drop-in of the agent's unit. Its name comes before those that people
// give theirs, so that theirs have the last word.
func (u Units) UpdaterInfoFile() string {
	u = u.withDefaults()
	return filepath.Join(u.UnitDir, u.Agent+".d", "10-teleport-update-report.conf")
}

func (r UpdaterInfo) content() []byte {
	var b bytes.Buffer
	b.WriteString(mark + "\n[Service]\n")
	fmt.Fprintf(&b, "Environment=%s\n", quote("TELEPORT_UPDATE_INSTALL_DIR="+r.InstallDir))
	fmt.Fprintf(&b, "Environment=%s\n", quote("TELEPORT_UPDATE_CONFIG_FILE="+r.ConfigFile))
	if r.RunDir == "" {
		return b.Bytes()
	}
	// systemd makes it as the agent's user at each start, and the id in it outlives a stop.
	fmt.Fprintf(&b, "RuntimeDirectory=%s\nRuntimeDirectoryMode=0700\nRuntimeDirectoryPreserve=yes\n", strings.TrimPrefix(r.RunDir, "/run/"))
	return b.Bytes()
}

// WriteUpdaterInfo has the agent know it from its next start on; systemd has to be told. A
// file that is not the updater's own is left alone. It reports whether anything was
// changed.
func (u Units) WriteUpdaterInfo(r UpdaterInfo) (changed bool, err error) {
	return writeDropIn(u.UpdaterInfoFile(), r.content())
}

func writeDropIn(path string, want []byte) (changed bool, err error) {
	present, foreign, err := readDropIn(path)
	switch {
	case err != nil:
		return false, err
	case foreign:
		return false, fmt.Errorf("%s is not teleport-update's own: move it away", path)
	case bytes.Equal(present, want):
		return false, nil
	default:
		if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return false, err
		}
		return true, durable.WriteFile(path, want, 0o644)
	}
}

// EraseUpdaterInfo takes away what WriteUpdaterInfo wrote.
func (u Units) EraseUpdaterInfo() (changed bool, err error) { return eraseDropIn(u.UpdaterInfoFile()) }

func eraseDropIn(path string) (changed bool, err error) {
	present, foreign, err := readDropIn(path)
	if err != nil || foreign {
		return false, err
	}
	dir := filepath.Dir(path)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if present != nil {
		err = durable.Remove(path)
	}
	// An administrator may have drop-ins of their own there.
	if err == nil && durable.UnlinkNoSync(dir) == nil {
		err = durable.SyncDir(filepath.Dir(dir))
	}
	return present != nil && err == nil, err
}

// readDropIn returns what is there, nil for nothing.
func readDropIn(path string) (present []byte, foreign bool, err error) {
	present, err = readUnit(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return present, err == nil && !bytes.HasPrefix(present, []byte(mark+"\n")), err
}
