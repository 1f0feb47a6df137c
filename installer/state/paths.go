// Package state is what the updater writes down: its configuration and the outcome of changes
// (updates.yaml), the journal of an open transaction, locks, and the last answer of find. It has
// the formats, and reads and writes them with care; others act on them.
package state

import (
	"fmt"
	"path/filepath"
	"strings"

	"teleport-update/internal/layout"
)

// Paths says where everything lives; every path of the updater hangs from one
// of these, so that a test or an image build can have its own.
type Paths struct {
	DataDir     string // the agent's state and ours; /var/lib/teleport
	LinkDir     string // where the links to the active version go; /usr/local/bin
	UnitDir     string // where the agent's unit goes; /usr/local/lib/systemd/system
	AgentConfig string // the agent's own configuration; /etc/teleport.yaml
	ProgramsDir string // where the programs of versions are; empty: see Programs
	RunDir      string // what is known of this boot; /run/teleport-update, empty if nothing is written there
	Hooks       string // an administrator's programs for the end of a transaction; /etc/teleport-update/hooks, empty if none are run
	PolicyDir   string // the host owner's rules about versions; /etc/teleport-update, empty if there are none
	AgentRunDir string // where the agent leaves its updater's id; /run/teleport-update-agent, empty if none is read
}

// DefaultPaths are the paths of an ordinary host.
func DefaultPaths() Paths {
	return Paths{
		DataDir:     layout.DataDir,
		LinkDir:     layout.LinkDir,
		UnitDir:     layout.UnitDir,
		AgentConfig: layout.AgentConfig,
		PolicyDir:   layout.PolicyDir,
		AgentRunDir: layout.AgentRunDir,
	}
}

// Versions is the folder of the version store.
func (p Paths) Versions() string { return filepath.Join(p.DataDir, "versions") }

// Programs is where the programs of versions are, which others than root execute. In the usual data
// folder nobody else may look, and programs have a folder elsewhere; in another data folder they
// are in the version store.
func (p Paths) Programs() string {
	switch {
	case p.ProgramsDir != "":
		return p.ProgramsDir
	case p.DataDir == layout.DataDir:
		return layout.ProgramsDir
	}
	return p.Versions()
}

// ClusterConfig is the file that the agent reads about its updater, to report it to its cluster.
// The agent's user can read files there.
func (p Paths) ClusterConfig() string { return filepath.Join(p.Programs(), "update_config.yaml") }

// UpdateID is where the agent writes the id of its updater.
func (p Paths) UpdateID() string { return filepath.Join(p.AgentRunDir, "update-id") }

// Config is updates.yaml: configuration and outcome.
func (p Paths) Config() string { return filepath.Join(p.Versions(), "updates.yaml") }

// Journal is the record of the open transaction; absent without one.
func (p Paths) Journal() string { return filepath.Join(p.Versions(), "journal.json") }

// Original is where files are kept that stood in the way of the first enable.
func (p Paths) Original() string { return filepath.Join(p.Versions(), "original") }

// Rollback is where the backup of the open transaction has its second name; absent without one.
func (p Paths) Rollback() string { return filepath.Join(p.Versions(), "rollback") }

// KeptBackups is where backups go that outlive the updater; absent if there are none.
func (p Paths) KeptBackups() string { return filepath.Join(p.DataDir, "database-backups") }

// AgentUnit is the name of the agent's unit; no other room knows it by heart.
func (p Paths) AgentUnit() string { return layout.AgentUnit }

// Unit is the agent's unit file.
func (p Paths) Unit() string { return filepath.Join(p.UnitDir, p.AgentUnit()) }

// Updater is the fixed copy of the updater, which the timer and the recovery run if no package
// supplies one. It lies outside the version store: the rescuer must not be part of the things to
// rescue.
func (p Paths) Updater() string { return filepath.Join(p.DataDir, "updater", "teleport-update") }

// UpdateLock keeps two updaters from switching at once.
func (p Paths) UpdateLock() string { return filepath.Join(p.Versions(), "update.lock") }

// FetchLock keeps two updaters from downloading at once.
func (p Paths) FetchLock() string { return filepath.Join(p.Versions(), "fetch.lock") }

// LastAnswer is find's last answer.
func (p Paths) LastAnswer() string { return filepath.Join(p.Versions(), "find.json") }

// History is the last transactions.
func (p Paths) History() string { return filepath.Join(p.Versions(), "history.json") }

// Report is the secret with which the host reports to a find server; absent if it
// does not report.
func (p Paths) Report() string { return filepath.Join(p.Versions(), "report.json") }

// Ticks is what the timer's runs remember of this boot; empty if they remember nothing.
func (p Paths) Ticks() string { return p.inRun("ticks.json") }

// Stopped names the run of the agent that a transaction has stopped; absent once it is over, empty if nothing is written.
func (p Paths) Stopped() string { return p.inRun("stopped") }

// WentDown names the units that a transaction took down with the agent; absent once they were started, empty if nothing is written.
// It is a file of its own: an older program reads Stopped to its end.
func (p Paths) WentDown() string { return p.inRun("went-down") }

// Summary is the part of status that everybody may read; empty if it is not written.
func (p Paths) Summary() string { return p.inRun("status.json") }

func (p Paths) inRun(name string) string {
	if p.RunDir == "" {
		return ""
	}
	return filepath.Join(p.RunDir, name)
}

// LinkDirs are the folders whose links count as a need of their targets.
func (p Paths) LinkDirs() []string { return []string{p.LinkDir, p.UnitDir} }

// CheckProgramsDir says what is wrong with a folder for programs, by its name. An agent
// that runs from the folder of Teleport's own packages and updater takes itself for one
// of theirs.
func CheckProgramsDir(dir string) error {
	switch {
	case !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || dir == "/":
		return fmt.Errorf("%q is not the clean absolute path of a folder", dir)
	case dir == layout.TeleportsDir || strings.HasPrefix(dir, layout.TeleportsDir+"/"):
		return fmt.Errorf("%s is for Teleport's own packages and updater: name another folder", dir)
	}
	return nil
}
