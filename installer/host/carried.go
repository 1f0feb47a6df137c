package host

import (
	"path/filepath"
	"strings"

	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// CheckOverrules refuses to keep settings of the agent's unit, u, in a drop-in that would overrule somebody else's: systemd reads
// drop-ins by name, and the values of the unit itself before all of them.
func CheckOverrules(h *Host, u systemd.Unit, c systemd.Carried) error {
	found, err := h.OwnUnits().Overrules(c, u.Name, h.AgentUnit().dirs(), u.DropIns)
	switch {
	case err != nil:
		return failure.Unchanged("the drop-ins of %s cannot be read, and nobody knows what they set: %w", u.Name, err)
	case found == nil:
		return nil
	}
	ours, base := filepath.Base(h.OwnUnits().CarriedFile()), filepath.Base(found.File)
	return failure.Unchanged("%[1]s sets %[2]s=, and so does %[3]s, whose setting would be kept in %[4]s: systemd reads that file later, and "+
		"it would overrule %[5]s", found.File, found.Directive, u.FragmentPath, ours, base).
		To("rename %[1]s so that it sorts after %[2]s, for instance to 50-%[3]s, or put the setting of %[4]s into a drop-in of your own "+
			"instead, and remove it from there; then run the command again", found.File, ours, strings.TrimLeft(base, "0123456789-_"),
			u.FragmentPath).Refused()
}
