package systemd

import (
	"os"
	"path/filepath"
	"slices"

	"teleport-update/internal/durable"
)

// EnabledBy returns the links by which an administrator, or a package, has a unit
// started with others, at boot for example.
func (u Units) EnabledBy(unit string) ([]string, error) {
	u = u.withDefaults()
	var links []string
	for _, kind := range []string{"wants", "requires", "upholds"} {
		found, err := filepath.Glob(filepath.Join(u.ConfigDir, "*."+kind, unit))
		if err != nil {
			return nil, err
		}
		links = append(links, found...)
	}
	return links, nil
}

// Dangling returns which of these links are gone, or lead to nothing any more.
func (u Units) Dangling(links []string) []string {
	return slices.DeleteFunc(slices.Clone(links), func(link string) bool {
		_, err := os.Stat(link)
		return err == nil
	})
}

// Reenable makes these links lead to a unit's file, durably. What "systemctl
// enable" does would not survive a power cut.
func (u Units) Reenable(links []string, unitFile string) error {
	for _, link := range links {
		dir := filepath.Dir(link)
		if err := durable.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := durable.RelinkNoSync(unitFile, link); err != nil {
			return err
		}
		if err := durable.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}
