package transaction

import (
	"errors"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

var one, twoHolds = behaviour{schema: 1, fate: holds}, behaviour{schema: 2, fate: holds}

func two(f fate) behaviour { return behaviour{schema: 2, fate: f} }

// upgrade is a host on 1.0.0 that is to go to 1.1.0, which behaves so.
func upgrade(t *testing.T, b behaviour) *model {
	return newModel(t, "1.0.0", "1.1.0", map[string]behaviour{"1.0.0": one, "1.1.0": b})
}

// downgrade is a host on 1.1.0 that is to go back to 1.0.0, with the database that
// it left.
func downgrade(t *testing.T, f fate) *model {
	m := newModel(t, "1.1.0", "1.0.0", map[string]behaviour{"1.1.0": twoHolds, "1.0.0": {schema: 1, fate: f}})
	m.left("1.0.0")
	return m
}

func (m *model) do(kind Kind) error {
	err, _ := m.runs(func() error { return m.transact(m.t.Context(), m.request(kind)) })
	return err
}

// ends asserts which version all of it ended on.
func (m *model) endsOn(v string) {
	m.t.Helper()
	if err := m.closed(); err != nil {
		m.t.Error(err)
	}
	if got, _ := m.program(); got != v {
		m.t.Errorf("the host is on %s; want %s; calls: %q", got, v, m.calls)
	}
}

func TestATransactionEndsWithAnAgentOnADatabaseOfItsOwn(t *testing.T) {
	update := func(f fate) func(*testing.T) *model {
		return func(t *testing.T) *model { return upgrade(t, two(f)) }
	}
	back := func(f fate) func(*testing.T) *model {
		return func(t *testing.T) *model { return downgrade(t, f) }
	}
	for _, tc := range []struct {
		name  string
		model func(*testing.T) *model
		kind  Kind
		ends  string // version
		says  string
	}{
		{"an update that holds", update(holds), Update, "1.1.0", ""},
		{"an update that dies at once", update(dies), Update, "1.0.0", "was not healthy"},
		{"an update that dies before it is of any use", update(diesFirst), Update, "1.0.0", "was not healthy"},
		{"an update that dies in its watch", update(diesLate), Update, "1.0.0", "was not healthy"},
		{"an update that is never ready", update(neverReady), Update, "1.0.0", "is not ready"},
		{"a downgrade that holds", back(holds), Downgrade, "1.0.0", ""},
		{"a downgrade that dies", back(dies), Downgrade, "1.1.0", "was not healthy"},
		{"a rollback that dies in its watch", back(diesLate), Rollback, "1.1.0", "was not healthy"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := tc.model(t)
			err := m.do(tc.kind)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("it ends with %v; want %q", err, tc.says)
			}
			m.endsOn(tc.ends)
			want := state.Succeeded
			if tc.says != "" {
				want = state.RolledBack
			}
			c, err := m.Host.Paths.LoadConfig()
			if err != nil || c.Status.LastUpdate.Result != want || (c.Status.Failed != nil) != (tc.says != "") {
				t.Errorf("last update %+v, failed %+v, %v", c.Status.LastUpdate, c.Status.Failed, err)
			}
		})
	}
}

// Both versions fail for a reason that is neither's. The first time is written down
// for the next run, which is another process, and for status; the second one closes
// the journal, so that another version can come and help.
func TestAnOldVersionThatDoesNotHoldEitherIsTriedOnceMore(t *testing.T) {
	m := upgrade(t, two(diesLate))
	m.before = func(call string) error {
		if call == "prove" { // the configuration broke meanwhile
			m.versions["1.0.0"] = behaviour{schema: 1, fate: diesLate}
		}
		return nil
	}
	err := m.do(Update)
	if _, person := errors.AsType[*failure.NeedsPersonError](err); !person || !strings.Contains(err.Error(), "is not healthy") {
		t.Errorf("it ends with %v; want a person to be called", err)
	}
	d, err := Describe(m.Host.Paths.Journal())
	if err != nil || d == nil || d.Phase != restored || !strings.Contains(d.CutOff, "the version before is not healthy either") {
		t.Fatalf("the next run finds %+v, %v", d, err)
	}
	if err, _ := m.tick(); err != nil {
		t.Errorf("the next run ends with %v", err)
	}
	c, err := m.Host.Paths.LoadConfig()
	if why := c.Status.LastUpdate.Error; err != nil || strings.Count(why, "died and was restarted by systemd") != 2 {
		t.Errorf("recorded: %q, %v; want both reasons", why, err)
	}
}

// What says nothing about a version is tried again as often as it takes.
func TestAnOldVersionThatCannotBeWatchedIsTriedAgainAndAgain(t *testing.T) {
	m := upgrade(t, two(dies))
	silent := errors.New("systemd does not answer")
	proofs := 0
	m.before = func(call string) error {
		if call == "prove" {
			if proofs++; proofs > 1 && proofs < 5 {
				return silent
			}
		}
		return nil
	}
	if err := m.do(Update); !errors.Is(err, silent) {
		t.Errorf("it ends with %v", err)
	}
	for range 2 {
		if err, _ := m.tick(); !errors.Is(err, silent) {
			t.Errorf("a run ends with %v", err)
		}
	}
	if err, _ := m.tick(); err != nil {
		t.Errorf("the last run ends with %v", err)
	}
	m.endsOn("1.0.0")
}

func TestAPersonWhoStopsTheAgentInMidWatchHasTheLastWord(t *testing.T) {
	m := upgrade(t, twoHolds)
	m.before = func(call string) error {
		if call == "watch" {
			m.ends()
		}
		return nil
	}
	if err := m.do(Update); err == nil {
		t.Error("a transaction that was stopped ends well")
	}
	m.before = nil
	if m.main != nil {
		t.Error("the agent was started, although a person stopped it")
	}
	m.startUnit()
	m.endsOn("1.0.0")
	c, err := m.Host.Paths.LoadConfig()
	if err != nil || c.Status.Failed != nil || c.Status.LastUpdate.Result != state.Interrupt {
		t.Errorf("%v: last update %+v, failed %+v; want an interruption that nobody is blamed for", err, c.Status.LastUpdate, c.Status.Failed)
	}
}

// The host is shutting down: that says nothing about the version, and the next boot
// puts the old one back.
func TestAShutdownInMidWatchIsUndoneAtTheNextBoot(t *testing.T) {
	m := upgrade(t, twoHolds)
	m.before = func(call string) error {
		if call == "watch" {
			m.ends()
			m.down = true
		}
		return nil
	}
	err := m.do(Update)
	if !errors.Is(err, errNeedsBoot) {
		t.Errorf("it ends with %v", err)
	}
	m.before = nil
	if err, _ := m.reboot(); err != nil {
		t.Error(err)
	}
	if err := m.sound(); err != nil {
		t.Errorf("after the boot: %v", err)
	}
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}

// An old process that never stopped serving is left in peace, unless the version
// that failed migrated its database.
func TestAnOldProcessThatServesOn(t *testing.T) {
	for name, tc := range map[string]struct {
		new   behaviour
		peace bool
	}{
		"on a database as it was":          {two(diesFirst), true},
		"on one that the new one migrated": {two(dies), false},
	} {
		t.Run(name, func(t *testing.T) {
			m := upgrade(t, tc.new)
			before := m.main
			if err := m.do(Update); err == nil || !strings.Contains(err.Error(), "the version before serves on") {
				t.Errorf("it ends with %v", err)
			}
			m.endsOn("1.0.0")
			if (m.main == before) != tc.peace {
				t.Errorf("the process is the one before: %v; calls %q", m.main == before, m.calls)
			}
		})
	}
}
