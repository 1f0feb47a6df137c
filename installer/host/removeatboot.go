package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/internal/durable"
)

// removalRule has systemd-tmpfiles remove folders at the next boot that an uninstall leaves because processes execute from them.
const removalRule = "/etc/tmpfiles.d/teleport-update-uninstalled.conf"

// RemovesAtBoot reports whether RemoveAtBoot can have systemd remove folders at the next boot.
func (h *Host) RemovesAtBoot(folders []string) bool {
	// systemd-tmpfiles would take such a path for a pattern.
	pattern := slices.ContainsFunc(folders, func(path string) bool { return strings.ContainsAny(path, "*?[]\"\\\n") })
	return h.systemdReads() && !Absent("/run/systemd/system") && !pattern
}

// RemoveAtBoot has systemd remove folders at the next boot, and the folder around them if it is empty then.
func (h *Host) RemoveAtBoot(folders []string) error {
	var rule strings.Builder
	rule.WriteString("# An uninstall of teleport-update left folders from which processes executed.\n")
	for _, path := range folders {
		path = strings.ReplaceAll(path, "%", "%%")
		fmt.Fprintf(&rule, "R! \"%s\"\nr! \"%s\"\n", path, filepath.Dir(path))
	}
	fmt.Fprintf(&rule, "r! %s\n", removalRule)
	if err := durable.MkdirAll(filepath.Dir(removalRule), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(removalRule, []byte(rule.String()), 0o644)
}

// KeepAtBoot takes RemoveAtBoot back, before anything is put into the folders again.
func (h *Host) KeepAtBoot() error {
	if !h.systemdReads() || Absent(removalRule) {
		return nil
	}
	if err := durable.Remove(removalRule); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("keep the next boot from removing versions: %w", err)
	}
	return nil
}
