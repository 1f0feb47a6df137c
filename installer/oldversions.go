package installer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/internal/failure"
	"teleport-update/versions"
)

// makeRoom removes versions that nothing needs before a new one comes. It does nothing while another process switches: that process has not
// linked its new version yet.
func (o obtainer) makeRoom(ctx context.Context, remove func(context.Context, state.Config)) {
	unlock, err := state.Lock(ctx, o.m.Host.Paths.UpdateLock(), 0)
	if err != nil {
		return
	}
	defer unlock()
	// Another run may have switched since the caller looked.
	if c, err := o.m.FreshConfig(); err == nil {
		remove(ctx, c)
	}
}

// tidy removes old versions that a run was kept from removing, by a kill or an
// error of the disk: each is as large as a release, and it may be long until
// something new comes and makes room.
func (o obtainer) tidy(ctx context.Context, c state.Config) {
	if c.Spec.ActiveVersion == "" || !o.hasOldVersions(o.m.Needed(c)) {
		return
	}
	unlock, err := state.Lock(ctx, o.m.Host.Paths.FetchLock(), 0)
	if err != nil {
		return // something new comes
	}
	defer unlock()
	o.makeRoom(ctx, o.m.Retain)
}

// hasOldVersions reports whether there are folders of versions that may not be needed.
func (o obtainer) hasOldVersions(needed versions.Needed) bool {
	names := []string{needed.Failed.Version}
	for _, r := range needed.Releases {
		names = append(names, r.Version)
	}
	return o.m.Host.Store.HasOthers(names...)
}

// oldVersionsLeft says which versions stay on disk although nothing needs them, and why; empty if there are none. It leaves out whole
// versions: the next run removes them.
func (o obtainer) oldVersionsLeft(c state.Config) string {
	needed := o.m.Needed(c)
	if c.Spec.ActiveVersion == "" || !o.hasOldVersions(needed) && !o.m.Host.Store.HasLeftovers() {
		return ""
	}
	verdicts, err := o.m.Host.Store.Judge(needed)
	if err != nil {
		return fmt.Sprintf("old versions stay on disk: %v", err)
	}
	var left []string
	for _, v := range verdicts {
		if !v.Keep && v.Entry.Kind != versions.Complete {
			left = append(left, v.Entry.Name)
		}
	}
	if left == nil {
		return ""
	}
	return fmt.Sprintf("the removal of %s from %s did not end; the next run tries again, and `journalctl -t teleport-update "+
		"_UID=0` says what is in the way", strings.Join(left, ", "), o.m.Host.Store.Dir)
}

// checkPrograms refuses a folder of programs other than this host's, and a folder that only root may enter.
func checkPrograms(p state.Paths, asked string) error {
	switch dir := p.Programs(); {
	case asked != "" && filepath.Clean(asked) != dir:
		return failure.Unchanged("the programs of this host's versions are in %s, and stay there", dir).
			To("leave out --programs-dir, or `teleport-update uninstall` first").Refused()
	case p.UnusualPrograms() != "" && strings.HasPrefix(dir+"/", p.DataDir+"/"):
		return failure.Unchanged("%s is in the agent's data folder, which is closed to others", dir).To("name a folder outside of it").Refused()
	}
	return nil
}

// closedPrograms says which linked programs users other than root cannot run; empty if they can run all. A link that is missing or leads
// elsewhere is a finding of its own.
func closedPrograms(ctx context.Context, linkDir string, tree versions.Tree) (string, error) {
	names, err := tree.Binaries()
	if err != nil {
		return "", nil // the version is damaged
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		to, err := os.Readlink(filepath.Join(linkDir, name))
		return err != nil || to != tree.Binary(name) || !host.Exists(to)
	})
	closed, err := closedToOthers(ctx, linkDir, names)
	if err != nil || len(closed) == 0 {
		return "", err
	}
	return fmt.Sprintf("other users cannot run %s: a folder above %s, or a file in it, is closed to them; see `namei -l %s`, and open it",
		strings.Join(closed, ", "), tree.Binary(""), tree.Binary(closed[0])), nil
}

const (
	// nobody is a user and a group that own nothing, on every distribution.
	nobody = 65534
	// nobodyLimit is far more than a look at a few files takes.
	nobodyLimit = 20 * time.Second
)

// closedToOthers returns the programs, by the links that people call them by, that a user without rights cannot run. It asks the kernel as
// that user, because modes alone do not decide. It returns nothing if the folder of links itself is closed, or if this process is not root.
func closedToOthers(ctx context.Context, linkDir string, names []string) ([]string, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, nobodyLimit)
	defer cancel()
	script := `cd "$1" 2>/dev/null || exit 0; shift; for name; do test -x "$name" || echo "$name"; done`
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", script, "sh", linkDir}, names...)...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("look at the programs as a user without rights: %w", err)
	}
	return strings.Fields(string(out)), nil
}

// tablesAgain is the time between two looks at the tables of a healthy agent's database: a look costs more than a run's question to find.
const tablesAgain = time.Hour

// recordTables records the tables of a healthy agent's database anew if the active version changed them after it was proven, as by a
// migration that it makes later. Else they count as another version's once the agent crashes, and going back is refused.
func (t *tick) recordTables(ctx context.Context, c state.Config, sight survey.Agent) {
	now := t.i.Machine.Timestamp()
	if c.Status.Unproven || c.Status.ActiveSchema == "" || now.Sub(t.memory.Tables).Abs() < tablesAgain {
		return
	}
	if damage, err := t.host().Damage(ctx); damage != nil || err != nil {
		return // it may be another version that is healthy
	}
	if t.i.Machine.Host.CheckDatabaseThere(int(sight.MainPID), false) != nil {
		return // of another database; status says so
	}
	tables, err := t.host().Schema(ctx)
	if err != nil || tables == "" {
		return
	}
	t.memory.Tables = now
	if tables == c.Status.ActiveSchema {
		return
	}
	err = changeStatus(ctx, t.i.Machine, func(now *state.Config) {
		if now.Active() == c.Active() && now.Status.ActiveSchema == c.Status.ActiveSchema {
			now.Status.ActiveSchema = tables
		}
	})
	if err != nil {
		t.i.Machine.Host.Log.Debug("the tables of the agent's database could not be recorded", "error", err)
		return
	}
	t.i.Machine.Host.Log.Info("the agent, which is healthy, has changed the tables of its database since its version was proven; they are "+
		"recorded", "version", c.Spec.ActiveVersion)
}
