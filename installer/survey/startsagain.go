package survey

import (
	"context"
	"fmt"

	"teleport-update/internal/executable"
)

// StartsAgain says what would keep systemd from starting a service again that is restarted; nil if nothing shows.
// err is why that is not known.
func (s *Survey) StartsAgain(ctx context.Context, unit string) (why, err error) {
	u, err := s.unit(ctx, unit)
	if err != nil {
		return nil, err
	}
	unmet := u.Ties.Unmet(ctx)
	switch {
	case u.LoadState == "": // there is no systemd
		return nil, nil
	case u.LoadState != "loaded":
		return fmt.Errorf("systemd has no unit %s that it can start (%s)", unit, u.LoadState), nil
	case u.Ties.RefusesStop || u.Ties.RefusesStart:
		return fmt.Errorf("systemd refuses to restart %s when asked (RefuseManualStart=, RefuseManualStop=)", unit), nil
	case len(unmet) > 0:
		return fmt.Errorf("systemd would not start it, for %v does not hold now", unmet[0]), nil
	case u.ExecStart == "" || u.Ties.View.Root != "": // its files are not the host's
		return nil, nil
	}
	return executable.Why(u.ExecStart)
}
