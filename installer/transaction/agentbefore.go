package transaction

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/backup"
	"teleport-update/installer/state"
)

// AgentBefore is what is known of the agent that the first enable found.
type AgentBefore struct {
	Packages []state.Package // that brought it
	Replaced bool            // another updater managed it
	tables   *backup.Schema  // that it left
}

// AgentBefore looks before an uninstall, which removes the record.
func (m *Machine) AgentBefore(ctx context.Context) (b AgentBefore) {
	if !m.Host.HasOriginals() {
		return b
	}
	o, err := m.Host.Originals()
	m.warn(err, "what was here before the first enable is not known")
	b.Packages, b.Replaced = o.Packages, o.Replaced
	all, err := m.allBackups(ctx)
	m.warn(err, "which backup the agent before the first enable can read is not known")
	for _, a := range all {
		ofPackage := slices.ContainsFunc(b.Packages, func(p state.Package) bool { return strings.HasPrefix(p.Version+"-", a.meta.Version+"-") })
		if a.meta.Version == "" || ofPackage {
			b.tables = &a.schema
			break
		}
	}
	return b
}

// BackupOf returns the newest kept backup with the tables of the agent before the first enable; same reports whether today's database has
// these tables.
func (m *Machine) BackupOf(ctx context.Context, b AgentBefore) (dir string, same bool) {
	if b.tables == nil {
		return "", false
	}
	live, err := m.liveSchema(ctx)
	if err == nil && slices.Contains(live, *b.tables) {
		return "", true
	}
	all, err := m.allBackups(ctx)
	m.warn(err, "which backup the agent before the first enable can read is not known")
	n := slices.IndexFunc(all, func(a aBackup) bool { return a.schema == *b.tables })
	if n < 0 {
		return "", false
	}
	return all[n].dir, false
}

// allBackups returns the backups of the store and those that outlive the updater, the newest first.
func (m *Machine) allBackups(ctx context.Context) ([]aBackup, error) {
	var dirs []string
	for _, pattern := range []string{filepath.Join(m.Host.Paths.Versions(), "*", "backup"), filepath.Join(m.Host.Paths.KeptBackups(), "*")} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, found...)
	}
	all, _, err := m.completeOf(ctx, dirs)
	return all, err
}
