package transaction

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// nobody is a user of each host, and the agent's in these tests.
const nobody = 65534

// ownUser gives the agent a user of its own, and all that this user needs.
func (m *model) ownUser() {
	m.t.Helper()
	if os.Geteuid() != 0 {
		m.t.Skip("only root gives files away")
	}
	m.user = "nobody"
	root := filepath.Dir(m.Host.Paths.DataDir)
	writeFile(m.t, m.Host.Paths.AgentConfig, "teleport: {}\n")
	must(m.t, os.Chown(m.Host.Paths.AgentConfig, nobody, nobody))
	for _, dir := range []string{filepath.Dir(root), root, m.Host.Paths.DataDir} {
		must(m.t, os.Chmod(dir, 0o755))
	}
	must(m.t, filepath.WalkDir(filepath.Dir(m.db), func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, nobody, nobody))
	}))
}

// closings close something to the agent's user, and open it again.
func (m *model) closings() map[string][2]func() error {
	chmod := func(path string, mode os.FileMode) func() error { return func() error { return os.Chmod(path, mode) } }
	chown := func(path string, id int) func() error { return func() error { return os.Chown(path, id, id) } }
	root := filepath.Dir(m.Host.Paths.DataDir)
	to, _, err := m.Host.Store.Lookup(m.to)
	must(m.t, err)
	return map[string][2]func() error{
		"the link folder": {chmod(m.Host.Paths.LinkDir, 0o700), chmod(m.Host.Paths.LinkDir, 0o755)},
		"the new version": {chmod(to.ProgramsDir(), 0o700), chmod(to.ProgramsDir(), 0o755)},
		"the configuration": {func() error {
			return errors.Join(chown(m.Host.Paths.AgentConfig, 0)(), chmod(m.Host.Paths.AgentConfig, 0o600)())
		}, chown(m.Host.Paths.AgentConfig, nobody)},
		"the database":          {chown(m.db, 0), chown(m.db, nobody)},
		"the database's folder": {chown(filepath.Dir(m.db), 0), chown(filepath.Dir(m.db), nobody)},
		"a folder above":        {chmod(root, 0o700), chmod(root, 0o755)},
	}
}

// allFiles are the files of a host, with their content, or what they lead to.
func (m *model) allFiles() map[string]string {
	files := map[string]string{}
	root := filepath.Dir(m.Host.Paths.DataDir)
	must(m.t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, root)
		// What a refusal writes: why there was one, and who holds the lock.
		if err != nil || d.IsDir() || path == m.Host.Paths.Config() || path == m.Host.Paths.UpdateLock() {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			files[name], err = os.Readlink(path)
			return err
		}
		content, err := os.ReadFile(path)
		files[name] = string(content)
		return err
	}))
	return files
}

// A change whose next process would die is refused before anything is touched, and goes on once the file is open.
func TestAnAgentThatMayNotUseItsFilesIsLeftAlone(t *testing.T) {
	for name := range upgrade(t, twoHolds).closings() {
		for kind, model := range map[Kind]func(t *testing.T) *model{
			Update:    func(t *testing.T) *model { return upgrade(t, twoHolds) },
			Downgrade: func(t *testing.T) *model { return downgrade(t, holds) },
		} {
			t.Run(name+", "+string(kind), func(t *testing.T) {
				m := model(t)
				m.ownUser()
				before, files := m.main, m.allFiles()
				must(t, m.closings()[name][0]())
				err, _ := m.runs(func() error { return m.transact(t.Context(), m.request(kind)) })
				if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), "would not start again, for its user nobody may not ") {
					t.Fatalf("it ends with %v", err)
				}
				for _, call := range m.calls {
					if call != "look" && call != "unit" {
						t.Errorf("systemd was asked for %q", m.calls)
						break
					}
				}
				if now := m.allFiles(); !maps.Equal(now, files) {
					t.Errorf("files were %d and are %d, or have another content", len(files), len(now))
				}
				if c, err := state.LoadConfig(m.Host.Paths.Config()); err != nil || c.Status.Failed != nil || m.main != before {
					t.Errorf("the version is blamed, %+v, or the agent was touched; %v", c.Status.Failed, err)
				}
				must(t, m.closings()[name][1]())
				if err, _ := m.runs(func() error { return m.transact(t.Context(), m.request(kind)) }); err != nil {
					t.Fatal(err)
				}
				m.endsOn(m.to.Version)
			})
		}
	}
}

// A version is not blamed for what is closed, nor tried, where the agent fails already.
func TestAnAgentThatFailsForItsFilesIsNoVersionsFault(t *testing.T) {
	m := upgrade(t, twoHolds)
	m.ownUser()
	must(t, os.Chmod(m.Host.Paths.LinkDir, 0o700))
	m.ends()
	m.failed = true
	err := m.do(Update)
	if c, _ := m.Host.Paths.LoadConfig(); !failure.Is[*failure.RefusedError](err) || c.Status.Failed != nil {
		t.Errorf("it ends with %v, and %+v is held against the version", err, c.Status.Failed)
	}
	if v, _ := m.program(); v != "1.0.0" {
		t.Errorf("the host is on %s; calls %q", v, m.calls)
	}
}

// Neither is an agent restarted by a person's word, nor stopped by an undoing.
func TestAnAgentThatMayNotUseItsFilesIsNotStopped(t *testing.T) {
	const says = "would not start again, for its user nobody may not execute"
	m := upgrade(t, twoHolds)
	m.ownUser()
	must(t, os.Chmod(m.Host.Paths.LinkDir, 0o700))
	c, err := m.Host.Paths.LoadConfig()
	must(t, err)
	if err := CheckRestart(t.Context(), m.Machine, c); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("a restart: %v", err)
	}
	must(t, os.Chmod(m.Host.Paths.LinkDir, 0o755))

	m = upgrade(t, two(neverReady))
	m.ownUser()
	m.at("prove", func() error { return os.Chmod(m.Host.Paths.LinkDir, 0o700) })
	m.needsPerson(m.do(Update), says)
	m.dropHooks()
	before := m.main
	if before == nil {
		t.Fatal("the agent was stopped")
	}
	err, _ = m.tick()
	if m.needsPerson(err, says); m.main != before {
		t.Error("the agent was stopped")
	}
	must(t, os.Chmod(m.Host.Paths.LinkDir, 0o755))
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}
