package installer

import (
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// A dry run is refused by the policy as the update is.
func TestADryRunOfUpdateIsRefusedAsTheUpdateIs(t *testing.T) {
	for _, policy := range []string{"minimum: 1.2.0\n", "withdrawn: [1.1.0]\n", "minimum: newest\n"} {
		w := newWorld(t)
		w.owner(map[string]string{"policy.yaml": policy})
		_, dry := w.UpdatePlan(t.Context(), UpdateOptions{})
		_, err := w.tick()
		if !failure.Is[*failure.RefusedError](err) || dry == nil || dry.Error() != err.Error() {
			t.Errorf("%q: the update ends with %v, its dry run with %v", policy, err, dry)
		}
	}
}

// A dry run says whether a transaction that is open was cut off, or is running.
func TestADryRunSaysThatAnUpdateIsRunning(t *testing.T) {
	w := newWorld(t)
	j := &state.Journal{ID: "x", BootID: "boot", Started: noon}
	j.Phase, j.To.Version = "switched", "1.2.0"
	must(t, j.Save(w.Machine.Host.Paths.Journal()))
	says := func(running bool) {
		p, err := w.UpdatePlan(t.Context(), UpdateOptions{})
		if cutOff := strings.Contains(p.Nothing, "cut off"); err != nil || p.Nothing == "" || cutOff == running {
			t.Errorf("running: %t; the dry run says %q, %v", running, p.Nothing, err)
		}
	}
	says(false)
	w.locked(func() { says(true) })
}
