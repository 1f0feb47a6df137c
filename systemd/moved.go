package systemd

import (
	"path/filepath"

	"teleport-update/internal/durable"
)

// Foreign are somebody else's files that have the names of our units.
func (u Units) Foreign() (names []string) {
	places, err := u.places()
	if err != nil {
		return nil // a problem
	}
	for _, p := range places {
		if p.foreign {
			names = append(names, p.own)
		}
	}
	return names
}

// CopyDropIns writes our own drop-ins of the agent's unit for units in another folder.
func (u Units) CopyDropIns(to Units) error {
	for from, path := range map[string]string{u.CarriedFile(): to.CarriedFile(), u.UpdaterInfoFile(): to.UpdaterInfoFile()} {
		content, foreign, err := readDropIn(from)
		if err != nil {
			return err
		}
		if content == nil || foreign {
			continue
		}
		if _, err := writeDropIn(path, content); err != nil {
			return err
		}
	}
	return nil
}

// EraseFiles is Erase once the same units are in another folder: what enables them goes only if they
// are enabled elsewhere.
func (u Units) EraseFiles(enabledElsewhere bool) error {
	places, err := u.places()
	if err != nil {
		return err
	}
	for _, p := range places {
		if !enabledElsewhere {
			p.wants = ""
		}
		if err := p.remove(); err != nil {
			return err
		}
		if dir := filepath.Dir(p.wants); p.wants != "" {
			if err := durable.RemoveEmpty(dir); err != nil {
				return err
			}
		}
	}
	if err := u.EraseCarried(); err != nil {
		return err
	}
	if _, err := u.EraseUpdaterInfo(); err != nil {
		return err
	}
	return u.ForgetMounts()
}
