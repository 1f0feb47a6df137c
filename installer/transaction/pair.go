package transaction

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/executable"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// The link of the agent, its unit and its database are one pair with the version, in a repair as in
// an undoing. Configuration management, a tarball or a snapshot may have put another program in
// their place, which has migrated the database since.

// Seen is the host as a check sees it. A survey returns what it has seen already; the Machine looks
// itself, for callers that hold the update lock.
type Seen interface {
	// Sight returns the agent.
	Sight(context.Context) (Sight, error)
	// Schema returns the digest of the schema of the agent's database; empty if there is no database.
	Schema(context.Context) (string, error)
}

// Sight looks at the agent. It waits for systemd as long as the context says.
func (m *Machine) Sight(ctx context.Context) (Sight, error) {
	agent, err := m.Agent(ctx)
	if err != nil {
		return Sight{}, err
	}
	defer agent.Close()
	return agent.Look(ctx)
}

// digestNow returns the digest of the schema of the agent's database; empty if it cannot be read.
func (m *Machine) digestNow(ctx context.Context) string {
	digest, err := m.Schema(ctx)
	m.warn(err, "the schema of the agent's database is not noted")
	return digest
}

// Schema reads the schema of the agent's database, and returns its digest, which is empty if there is no
// database.
func (m *Machine) Schema(ctx context.Context) (string, error) {
	path, err := m.Host.Database()
	if err != nil {
		return "", err
	}
	db, err := backup.Open(path)
	if errors.Is(err, backup.ErrNoDatabase) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer db.Close()
	now, err := db.Schema(ctx)
	if errors.Is(err, backup.ErrNoDatabase) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return now.Digest(), nil
}

// RecordSchema records the active version and the schema of its database once its agent is seen to run, if the version
// was enabled before its agent ran, by an older program, or by an edit of active_version. A failure is only a warning.
func (m *Machine) RecordSchema(ctx context.Context, c *state.Config) {
	tree, ok, err := m.Active(*c)
	recorded := c.Status.ActiveSchema != "" && c.Status.CommittedVersion == c.Spec.ActiveVersion
	if recorded || c.Spec.ActiveVersion == "" || err != nil || !ok {
		return
	}
	sight, err := m.Sight(ctx)
	if err != nil || sight.State != state.AgentRunning || !sight.servesFrom(tree.ProgramsDir()) {
		return // a caller that needs systemd reports that it cannot be reached
	}
	if _, another := exchanged(ctx, tree); another {
		return // the tables may be that program's
	}
	if err := m.Host.CheckDatabaseThere(int(sight.MainPID), false); err != nil {
		return // of another database; status says so
	}
	older := c.Committed() && c.Status.CommittedVersion == "" // an older program has recorded the schema
	c.Status.CommittedVersion = c.Spec.ActiveVersion
	if !older || c.Status.ActiveSchema == "" {
		c.Status.ActiveSchema = m.digestNow(ctx)
	}
	if c.Status.ActiveSchema != "" {
		m.warn(c.Save(m.Host.Paths.Config()), "the schema of the agent's database is not noted")
	}
}

// CheckPair refuses to put the link, the unit or the program of the active version back if another program
// stands in their place and has changed the database since: the active version could not start on it. A
// *failure.RefusedError says what to do. The host is looked at only if another program stands there.
func (m *Machine) CheckPair(ctx context.Context, c state.Config, tree versions.Tree, seen Seen) error {
	noted := c.Status.ActiveSchema
	place, program := m.programInPlace(tree)
	var sight Sight
	switch _, another := exchanged(ctx, tree); {
	case another:
		place, program = tree.Binary(host.AgentName), tree.Binary(host.AgentName)
	case program == "":
		return checkGone(ctx, m, c, tree, seen) // nothing else would start by the link, or by the unit
	default:
		var err error
		sight, err = seen.Sight(ctx)
		if err != nil || sight.servesFrom(tree.ProgramsDir()) {
			return err
		}
	}
	now, err := seen.Schema(ctx)
	switch {
	case err != nil:
		return failure.Unchanged("see whether version %s can read the agent's database: %w", tree.Release.Short(), err).
			To("repair that first").Refused()
	case now == "":
		return nil
	}
	if err := checkCommitted(m, c, sight, place, program); err != nil || now == noted {
		return err
	}
	runs, err := versions.ProgramVersion(ctx, program)
	if noted == "" && (err != nil || version.Compare(runs, tree.Release.Version) <= 0) {
		return nil // nothing was noted, and no newer version was there to change the tables
	}
	return failure.Unchanged("somebody put %s in the place of %s, and the agent's database may have other tables since: "+
		"link, unit and program stay as they are, for version %s may not be able to start on it",
		namedVersion(runs), place, tree.Release.Short()).
		To("`teleport-update pin %s` takes that version over, or set the cluster to it", orVersion(runs)).Refused()
}

// checkCommitted refuses to lead links and unit from another kept version's program to the active version if no transaction made
// that one active: the agent would change its database without a backup, or die on it, and nothing would go back.
func checkCommitted(m *Machine, c state.Config, sight Sight, place, program string) error {
	if c.Committed() {
		return nil
	}
	is := place + " leads to"
	there, kept := m.Host.Store.ReleaseOf(program)
	if !kept && len(sight.serving()) > 0 {
		is = "the agent runs"
		there, kept = m.Host.Store.ReleaseOf(sight.serving()[0].Exe)
	}
	if !kept || there.Version == c.Spec.ActiveVersion {
		return nil
	}
	return failure.Unchanged("%s names version %s, to which no change of version led, and %s version %s, whose database it is: link, unit "+
		"and program stay as they are", m.Host.Paths.Config(), c.Active().Short(), is, there.Short()).
		To("%s", c.GoOnWith(there)).Refused()
}

// checkGone is CheckPair for an agent's link that leads to a version of the store whose folder is gone. Its agent may have changed the
// database. That shows if the tables of the active version are known, from the record or from its own backup. If they are not, a newer
// version may have changed them.
func checkGone(ctx context.Context, m *Machine, c state.Config, tree versions.Tree, seen Seen) error {
	gone := goneInPlace(m, tree)
	if gone == "" {
		return nil
	}
	sight, err := seen.Sight(ctx)
	if err != nil || sight.servesFrom(tree.ProgramsDir()) {
		return err
	}
	fits := c.Status.ActiveSchema
	if then, err := backup.SchemaOf(ctx, tree.BackupDir()); fits == "" && err == nil {
		fits = then.Digest()
	}
	now, err := seen.Schema(ctx)
	switch {
	case err != nil:
		return failure.Unchanged("see whether version %s can read the agent's database: %w", tree.Release.Short(), err).
			To("repair that first").Refused()
	case now == "":
		return nil
	case !c.Edited() && (now == fits || fits == "" && version.Compare(gone, tree.Release.Version) <= 0):
		return nil
	}
	return failure.Unchanged("%s leads to version %s, whose folder is gone, and the agent's database may have other tables than version %s "+
		"runs with: link, unit and program stay as they are", filepath.Join(m.Host.Paths.LinkDir, host.AgentName), gone, tree.Release.Short()).
		To("`teleport-update pin %s` fetches that version again, or set the cluster to it", gone).Refused()
}

// goneInPlace returns the version that the agent's link leads to in the place of another one, if the program of that version
// is gone; otherwise empty.
func goneInPlace(m *Machine, tree versions.Tree) string {
	link := filepath.Join(m.Host.Paths.LinkDir, host.AgentName)
	target, err := os.Readlink(link)
	if err != nil {
		return ""
	}
	named, ok := m.Host.Store.Named(link, target)
	if _, err := os.Stat(link); !ok || named.Version == tree.Release.Version || !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return named.Version
}

// programInPlace returns a program that somebody put in the place of a version's, and the place that leads
// to it now: the agent's link, or the file of its unit.
func (m *Machine) programInPlace(tree versions.Tree) (place, program string) {
	ours, err := filepath.EvalSymlinks(tree.ProgramsDir())
	if err != nil {
		return "", ""
	}
	link := filepath.Join(m.Host.Paths.LinkDir, host.AgentName)
	for _, lead := range []struct{ place, program string }{{link, link}, {m.Host.Paths.Unit(), m.Host.AgentUnit().StartedProgram()}} {
		program, err := filepath.EvalSymlinks(lead.program)
		if err == nil && !strings.HasPrefix(program, ours+"/") {
			return lead.place, program
		}
	}
	return "", ""
}

// exchanged reports whether another program may be in the place of a version's own one, in its folder, and which version that is;
// empty if it does not say. `cp` onto the agent's link writes through it, and the install script of a tarball does so. A file that
// cannot be executed has run no agent, and changed no table; a program that could not be asked may have.
func exchanged(ctx context.Context, tree versions.Tree) (is string, another bool) {
	program := tree.Binary(host.AgentName)
	if !tree.AgentChanged() {
		return "", false
	}
	if why, err := executable.Why(program); why != nil && err == nil {
		return "", false
	}
	is, err := versions.ProgramVersion(ctx, program)
	if err != nil {
		return "", !errors.Is(err, unix.ENOEXEC)
	}
	return is, is != tree.Release.Version
}

func namedVersion(v string) string {
	if v == "" {
		return "a program that names no version"
	}
	return "version " + v
}

func orVersion(v string) string {
	if v == "" {
		return "VERSION"
	}
	return v
}

// CheckLed refuses to put a version's unit in the place of a unit that somebody wrote, if that leads the agent elsewhere and the agent
// was started by it: its next start would go on with another configuration or another database. systemd's view decides, not the
// agent's. A unit that was written since, or that no agent runs by, is not the agent's. A *failure.RefusedError says what to do.
func CheckLed(ctx context.Context, m *Machine, tree versions.Tree, seen Seen) error {
	unit, err := m.Host.UnitOf(tree)
	if err != nil {
		return nil // the caller that places it reports that
	}
	now, then, elsewhere := host.LedElsewhere(m.Host, unit.Content)
	if !elsewhere {
		return nil
	}
	sight, err := seen.Sight(ctx)
	if err != nil {
		return err
	}
	info, err := os.Lstat(m.Host.Paths.Unit())
	written := err == nil && info.Mode().IsRegular()
	if !written || sight.State != state.AgentRunning || !sight.Since.After(info.ModTime()) {
		return nil
	}
	if m.Host.AgentUnit().CheckLoaded(sight.Unit) != nil {
		return nil
	}
	return failure.Unchanged("somebody wrote %s, which leads the agent to %s, and the unit of version %s would lead it to %s: the unit stays "+
		"as it is", m.Host.Paths.Unit(), now, tree.Release.Short(), then).
		To("write the command into a drop-in (`systemctl edit %s`: ExecStart=, then the whole command), which a change of version keeps",
			m.Host.Paths.AgentUnit()).Refused()
}

// The backup that an open transaction goes back to is in the folder of the version that is being
// left, as RFD 0169 says. Somebody who removes that version by hand removes the only copy of its
// database. So the backup has a second name, in a folder of its own, as long as the transaction is
// open.

// giveSecondName returns the folder in which the backup has its second name now, before the journal
// says that there is a backup. The transaction goes on without one: it is needed only if somebody
// removes the backup.
func (t *transaction) giveSecondName() (second string) {
	d := t.j.Database
	if d.SecondDir == "" {
		return ""
	}
	if err := backup.GiveSecondName(d.Dir, d.SecondDir); err != nil {
		t.m.Host.Log.Warn("whoever removes the version before while this transaction is open takes the only backup of its database", "error", err)
		return ""
	}
	return d.SecondDir
}

// dropSecondName removes the second name once no transaction needs it. A leftover takes room that
// the next backup may need, so each run without a journal tries again.
func (m *Machine) dropSecondName() {
	m.warn(backup.DropSecondName(m.Host.Paths.Rollback()), "a leftover of a transaction stays")
}

// backups returns the folders in which the backup of the transaction has a name.
func (t *transaction) backups() []string {
	d := t.j.Database
	if d.SecondDir == "" {
		return []string{d.Dir}
	}
	return []string{d.Dir, d.SecondDir}
}

// withBackup calls do with the first folder in which the backup is there and whole. If there is no
// such folder, it returns the error of the first one.
func (t *transaction) withBackup(do func(dir string) error) error {
	var first error
	for _, dir := range t.backups() {
		err := do(dir)
		if !failure.Is[*backup.InvalidError](err) {
			return err
		}
		first = cmp.Or(first, err)
	}
	return first
}
