package host

import (
	"os"
	"path/filepath"
	"slices"

	"teleport-update/internal/durable"
)

// EnabledBy returns the links by which an administrator, or a package, has the agent started with
// other units, at boot for example.
func (h *Host) EnabledBy() ([]string, error) {
	var links []string
	for _, kind := range []string{"wants", "requires", "upholds"} {
		found, err := filepath.Glob(filepath.Join(h.configDir(), "*."+kind, h.Paths.AgentUnit()))
		if err != nil {
			return nil, err
		}
		links = append(links, found...)
	}
	return links, nil
}

// Dangling returns which of these links are gone, or lead to nothing any more.
func Dangling(links []string) []string {
	return slices.DeleteFunc(slices.Clone(links), func(link string) bool {
		_, err := os.Stat(link)
		return err == nil
	})
}

// Reenable makes these links lead to the agent's unit, durably. Links of "systemctl enable" would
// not survive a power cut.
func (h *Host) Reenable(links []string) error {
	for _, link := range links {
		dir := filepath.Dir(link)
		if err := durable.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := durable.RelinkNoSync(h.Paths.Unit(), link); err != nil {
			return err
		}
		if err := durable.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}
