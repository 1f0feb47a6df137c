package transaction

import (
	"context"
	"slices"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/regular"
)

// The units that go down with the agent are noted when a transaction begins, and with each stop: a version that dies takes
// some of them down before anybody stops it, and the second stop of a transaction finds them down.

// wentDown are the units that a transaction of this boot took down with the agent, as far as nobody has started them again
// for the transaction. After a boot systemd has started what is enabled.
func wentDown(ctx context.Context, m *Machine, agent looker) ([]string, error) {
	path := m.Host.Paths.WentDown()
	if path == "" || host.Absent(path) {
		return nil, nil
	}
	text, err := regular.Read(path, 64<<10, regular.NoLink|regular.Sealed)
	if err != nil {
		return nil, err
	}
	boot, units, _ := strings.Cut(string(text), "\n")
	if !sameBoot(boot, m.thisBoot(ctx, agent)) {
		return nil, nil
	}
	return strings.Fields(units), nil
}

// addWentDown adds units to those that went down, and keeps all that are noted.
func addWentDown(ctx context.Context, m *Machine, agent looker, units []string) {
	if len(units) == 0 {
		return
	}
	known, _ := wentDown(ctx, m, agent) // what cannot be read is written again
	writeWentDown(ctx, m, agent, union(known, units))
}

// writeWentDown has the note name some units, and no others.
func writeWentDown(ctx context.Context, m *Machine, agent looker, units []string) {
	path := m.Host.Paths.WentDown()
	if path == "" {
		return
	}
	lines := append([]string{m.thisBoot(ctx, agent)}, units...)
	m.warn(state.WriteForRoot(path, []byte(strings.Join(lines, "\n")+"\n")),
		"units that depend on the agent may stay down if the journal is lost", "units", strings.Join(units, ", "))
}

// forgetWentDown removes the note of the units, once they were started or are to stay down.
func forgetWentDown(m *Machine) error { return forgetStop(m.Host.Paths.WentDown()) }

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, name := range b {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// forgetStop removes the note of a stop, once what it is for is over.
func forgetStop(note string) error {
	if note == "" || host.Absent(note) {
		return nil
	}
	return durable.Remove(note)
}
