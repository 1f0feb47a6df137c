package installer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/view"
	"teleport-update/internal/folder"
	"teleport-update/internal/regular"
)

// maxUpdateID is more than a UUID and a line's end have, in bytes.
const maxUpdateID = 64

// updateID reads the id that the agent made for its updater, by which its cluster picks
// canaries; empty where the agent has made none. The file is the agent's user's, and
// becomes part of a request: nothing but a UUID is taken, and from no other folder
// than one that only that user and root can enter.
func (i *Installer) updateID(spec state.Spec) string {
	if spec.NoClusterReport || i.Machine.Host.Paths.AgentRunDir == "" {
		return ""
	}
	id, err := readUpdateID(i.Machine.Host.Paths)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		i.Machine.Host.Log.Warn("update_id is left out of the question to find", "error", err)
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

// seeReport sees that the agent reports to its cluster, from its next start on, or
// does not, as the configuration says.
func (i *Installer) seeReport(ctx context.Context, spec state.Spec) error {
	changed, err := i.Machine.Host.ReportToCluster(!spec.NoClusterReport)
	if err != nil {
		// No agent may wait for what is only told about it.
		i.Machine.Host.Log.Warn("the agent may not report its updates to its cluster", "error", err)
	}
	if !changed {
		return nil
	}
	return i.reloadUnits(ctx)
}

// settleReport writes what the agent reports to its cluster: a host that is held, or
// backs off, does not follow the cluster, just as a pinned one.
func (i *Installer) settleReport(r view.Report) error {
	c, err := i.Machine.Host.Paths.LoadConfig()
	if err != nil {
		return err
	}
	stays := func(c decision.Condition) bool {
		return c.Type == decision.HostHeld || c.Type == decision.VersionBacksOff
	}
	return i.Machine.Host.WriteClusterConfig(c, c.Spec.Pinned || slices.ContainsFunc(r.Conditions, stays))
}
