package transaction

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// recoveryOf has the recovery at boot run a program of a drop-in's.
type recoveryOf struct {
	*model
	program string
}

func (r recoveryOf) Unit(ctx context.Context, name string) (systemd.Unit, error) {
	u, err := r.model.Unit(ctx, name)
	if name == r.Host.OwnUnits().Recovery() {
		u.ExecStart, u.Command = r.program, []string{r.program, "recover", "--boot"}
	}
	return u, err
}

// Nothing is changed while the recovery at boot, as systemd has it, cannot be executed: the units' files name another program.
func TestAProgramOfADropInThatIsMissingIsNoRecovery(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there")
	if err := os.WriteFile(there, []byte(rescuerOfToday), 0o755); err != nil {
		t.Fatal(err)
	}
	for program, refused := range map[string]bool{filepath.Join(t.TempDir(), "teleport-update"): true, there: false} {
		m := newModel(t, "1.0.0", "1.1.0", map[string]behaviour{"1.0.0": one, "1.1.0": twoHolds})
		m.Machine.Connect = func(context.Context) (Agent, error) { return recoveryOf{m, program}, nil }
		before := m.main
		err, _ := m.runs(func() error { return m.transact(t.Context(), m.request(Update)) })
		if failure.Is[*failure.RefusedError](err) != refused || refused && (m.main != before || !strings.Contains(err.Error(), program+" is missing")) {
			t.Errorf("%s: %v, the agent is %+v", program, err, m.main)
		}
	}
}

// A security module may forbid to systemd what this process may do, as SELinux does with a copy of the updater that has the label of
// data: the recovery at boot would not run.
func TestARecoveryThatSystemdMayNotExecuteIsNone(t *testing.T) {
	m := newModel(t, "1.0.0", "1.1.0", map[string]behaviour{"1.0.0": one, "1.1.0": twoHolds})
	m.refusesRun = errors.New("teleport-update-switch-x.service could not be executed (status 203)")
	before := m.main
	err, _ := m.runs(func() error { return m.transact(t.Context(), m.request(Update)) })
	if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), "SELinux") || m.main != before {
		t.Errorf("it ends with %v, the agent is %+v", err, m.main)
	}
	m.refusesRun = nil
	if err := m.do(Update); err != nil {
		t.Error(err)
	}
}
