//go:build hosts

package packages

import (
	"testing"

	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

// manager of packages, on a host that has it.
type manager struct {
	name, format string
	host         host.Options
	repository   func(s *scene, packages ...string)
	run          func(s *scene, args ...string) string
	try          func(s *scene, args ...string) host.Result
	// To the old version, and away with the configuration.
	downgrade, purge []string
	// own is what changes with every package.
	own []string
}

var (
	usingApt = manager{
		name: "apt-get", format: "deb",
		repository: (*scene).AptRepository, run: (*scene).Apt, try: (*scene).TryApt,
		downgrade: []string{"install", "--allow-downgrades", "teleport-update=" + scenes.PackageOld},
		purge:     []string{"purge", "teleport-update"},
		own:       []string{"/etc/apt"},
	}
	usingDnf = manager{
		name: "dnf", format: "rpm", host: scenes.DnfHost,
		repository: (*scene).DnfRepository, run: (*scene).Dnf, try: (*scene).TryDnf,
		downgrade: []string{"downgrade", "teleport-update"},
		purge:     []string{"remove", "teleport-update"},
		own:       []string{"/root/.rpmdb"},
	}
)

// eachManager runs a test under apt and under dnf.
func eachManager(t *testing.T, test func(t *testing.T, m manager)) {
	t.Helper()
	t.Parallel()
	t.Run("apt", func(t *testing.T) { test(t, usingApt) })
	t.Run("dnf", func(t *testing.T) { test(t, usingDnf) })
}
