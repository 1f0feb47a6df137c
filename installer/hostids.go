package installer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"teleport-update/find"
	"teleport-update/installer/state"
	"teleport-update/internal/folder"
	"teleport-update/internal/regular"
)

var uuidShape = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// hostUUID reads the id that the agent gave this host, as find knows it; empty when it has not
// run yet. It becomes part of a request, so nothing but an id of a known form is taken.
func (f finder) hostUUID() string {
	dir, err := f.m.Host.AgentDataDir()
	if err != nil {
		f.m.Host.Log.Warn("host_uuid is left out of the question to find", "error", err)
		return ""
	}
	file := filepath.Join(dir, "host_uuid")
	// It is the agent's user's, and goes nowhere unless it has the form of an id.
	data, err := regular.Read(file, 256, regular.NoLink)
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	if err != nil {
		f.m.Host.Log.Warn("host_uuid is left out of the question to find", "error", err)
		return ""
	}
	id, ok := find.HostID(strings.TrimSpace(string(data)))
	if !ok {
		f.m.Host.Log.Warn("host_uuid is not a UUID and is left out of the question to find", "file", file)
		return ""
	}
	return id
}

// maxUpdateID is more than a UUID and a line's end have, in bytes.
const maxUpdateID = 64

// updateID reads the id that the agent made for its updater, by which its cluster picks
// canaries; empty if the agent has made none. The file is the agent's user's, and
// becomes part of a request: nothing but a UUID is taken, and from no other folder
// than one that only that user and root can enter.
func (f finder) updateID(spec state.Spec) string {
	if spec.NoClusterReport || f.m.Host.Paths.AgentRunDir == "" {
		return ""
	}
	id, err := readUpdateID(f.m.Host.Paths)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		f.m.Host.Log.Warn("update_id is left out of the question to find", "error", err)
	}
	return id
}

func readUpdateID(paths state.Paths) (string, error) {
	dir := paths.AgentRunDir
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s is no folder that only root and the agent's user can enter (mode %v)", dir, info.Mode())
	}
	f, err := folder.Open(dir)
	if err != nil {
		return "", err
	}
	defer f.Close()
	uid, _, err := f.Owner()
	if err != nil {
		return "", err
	}
	path := paths.UpdateID()
	file, info, err := regular.Open(f.At(strings.TrimPrefix(path, dir+"/")), regular.NoLink)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	defer file.Close()
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != 0 && owner != uid {
		return "", fmt.Errorf("%s belongs to user %d, who is not the agent's", path, owner)
	}
	data := make([]byte, maxUpdateID)
	n, err := file.Read(data)
	id := strings.TrimSpace(string(data[:n]))
	if err != nil || info.Size() >= maxUpdateID || !uuidShape.MatchString(id) {
		return "", fmt.Errorf("%s does not hold one UUID", path)
	}
	return id, nil
}
