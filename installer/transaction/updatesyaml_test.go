package transaction

import (
	"errors"
	"os"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// meddling is what somebody does to updates.yaml while a transaction is open.
type meddling struct {
	do    func(path string) error
	lost  bool   // there is nothing to repair any more
	error string // else, what every run says
}

func meddlings() map[string]meddling {
	return map[string]meddling{
		"a typo":           {do: func(p string) error { return os.WriteFile(p, []byte("spec: [oops\n"), 0o600) }, error: "did not find"},
		"another format":   {do: func(p string) error { return os.WriteFile(p, []byte("version: v9\nkind: x\n"), 0o600) }, error: "want version v1"},
		"mode 0664":        {do: func(p string) error { return os.Chmod(p, 0o664) }, error: "chmod go-w"},
		"a folder instead": {do: func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) }, error: "is not a regular file"},
		"removed":          {do: os.Remove, lost: true},
		"emptied":          {do: func(p string) error { return os.Truncate(p, 0) }, lost: true},
		"zeros":            {do: func(p string) error { return os.WriteFile(p, make([]byte, 64), 0o600) }, lost: true},
	}
}

// inMidWatch makes the meddling with updates.yaml happen in the first watch; the
// transaction is killed then, or goes on.
func (m *model) inMidWatch(do func(path string) error, cut bool) (error, bool) {
	m.at("watch", func() error {
		m.before = nil
		must(m.t, do(m.Host.Paths.Config()))
		if cut {
			panic(killed{})
		}
		return nil
	})
	return m.runs(func() error { return m.transact(m.t.Context(), m.request(Update)) })
}

// everywhere tries it whatever the version does, and whether the updater was killed.
func (how meddling) everywhere(t *testing.T, do func(t *testing.T, m *model, cut bool, ends string)) {
	for name, tc := range map[string]struct {
		fate fate
		cut  bool
		ends string
	}{
		"holds":             {holds, false, "1.1.0"},
		"holds, killed":     {holds, true, "1.1.0"},
		"dies":              {diesLate, false, "1.0.0"},
		"dies, killed":      {diesLate, true, "1.0.0"},
		"is not ready":      {neverReady, false, "1.0.0"},
		"not ready, killed": {neverReady, true, "1.0.0"},
	} {
		t.Run("the new version "+name, func(t *testing.T) {
			do(t, upgrade(t, two(tc.fate)), tc.cut, tc.ends)
		})
	}
}

// The agent is brought up and watched once; then every run says what is wrong with the
// file, and leaves agent and file alone until it is repaired.
func TestAnUpdatesYAMLThatCannotBeReadKeepsNoAgentFromRunning(t *testing.T) {
	for name, how := range meddlings() {
		if how.lost {
			continue
		}
		t.Run(name, func(t *testing.T) {
			how.everywhere(t, func(t *testing.T, m *model, cut bool, ends string) {
				before, err := os.ReadFile(m.Host.Paths.Config())
				must(t, err)
				if err, dead := m.inMidWatch(how.do, cut); dead != cut {
					t.Fatal(err)
				} else if !cut {
					m.needsPerson(err, how.error)
				}
				if cut {
					err, _ := m.tick()
					m.needsPerson(err, how.error)
				}
				broken, _ := os.ReadFile(m.Host.Paths.Config())
				for range 3 {
					if err := m.sound(); err != nil {
						t.Fatal(err)
					}
					m.write()
					agent := m.main
					m.calls = nil
					err, _ := m.tick()
					m.needsPerson(err, how.error)
					for _, call := range m.calls {
						if call != "look" {
							t.Errorf("a run that can only wait calls %s", call)
						}
					}
					if m.main != agent {
						t.Error("a run that can only wait stopped the agent")
					}
				}
				if now, _ := os.ReadFile(m.Host.Paths.Config()); string(now) != string(broken) {
					t.Errorf("the file was overwritten: %q became %q", broken, now)
				}
				must(t, os.RemoveAll(m.Host.Paths.Config()))
				must(t, os.WriteFile(m.Host.Paths.Config(), before, 0o600))
				if err, _ := m.tick(); err != nil {
					t.Error(err)
				}
				m.endsOn(ends)
			})
		})
	}
}

// A file that is gone is no sign that the updater was never enabled: the host would
// never be updated again, and nobody would be told.
func TestAnUpdatesYAMLThatIsLostIsWrittenAgain(t *testing.T) {
	for name, how := range meddlings() {
		if !how.lost {
			continue
		}
		t.Run(name, func(t *testing.T) {
			how.everywhere(t, func(t *testing.T, m *model, cut bool, ends string) {
				if err, dead := m.inMidWatch(how.do, cut); dead != cut {
					t.Fatal(err)
				}
				if cut {
					if err, _ := m.tick(); err != nil {
						t.Error(err)
					}
				}
				m.endsOn(ends)
				c, err := state.LoadConfig(m.Host.Paths.Config())
				must(t, err)
				if !c.Spec.Enabled || c.Spec.Proxy != "proxy" || c.Spec.Health.ReadyURL != readyURL {
					t.Errorf("updates.yaml says %+v", c.Spec)
				}
				u := c.Status.LastUpdate
				if u == nil || !strings.Contains(u.Error, "updates.yaml was missing or empty") || (u.Result == state.Succeeded) != (ends == "1.1.0") {
					t.Errorf("status says %+v", u)
				}
			})
		})
	}
}

// A person who repairs the file while the agent waits to be committed may have changed
// it: that is what stays.
func TestWhatAPersonWroteInMidWatchStays(t *testing.T) {
	m := upgrade(t, twoHolds)
	m.inMidWatch(func(p string) error {
		c, err := state.LoadConfig(p)
		c.Spec.Group = "changed"
		return errors.Join(err, c.Save(p))
	}, false)
	m.endsOn("1.1.0")
	if c, err := state.LoadConfig(m.Host.Paths.Config()); err != nil || c.Spec.Group != "changed" {
		t.Errorf("%+v, %v", c.Spec, err)
	}
}

// The refusal of a transaction is recorded in the file as it is, and not over one that
// somebody is at work on.
func TestARefusalIsNotWrittenOverAFileThatCannotBeRead(t *testing.T) {
	m := upgrade(t, twoHolds)
	m.at("look", func() error {
		m.before = nil
		must(t, os.WriteFile(m.Host.Paths.Config(), []byte("oops: ["), 0o600))
		return errNoAnswer
	})
	err := m.do(Update)
	if _, person := errors.AsType[*failure.NeedsPersonError](err); person || !errors.Is(err, errNoAnswer) {
		t.Errorf("it ends with %v", err)
	}
	if text, _ := os.ReadFile(m.Host.Paths.Config()); string(text) != "oops: [" {
		t.Errorf("the file was overwritten: %q", text)
	}
}
