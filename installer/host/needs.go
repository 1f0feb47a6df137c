package host

import (
	"context"

	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// AskUnit asks systemd for a unit.
type AskUnit = func(ctx context.Context, name string) (systemd.Unit, error)

// CheckNeeds says which unit that the agent's unit needs keeps systemd from starting it: a *failure.RefusedError. It
// asks for all needed units, so it is for a caller that is about to change something, or for a person who asks.
func CheckNeeds(ctx context.Context, u systemd.Unit, ask AskUnit) error {
	lack, err := systemd.LackOf(ctx, u, ask)
	if err != nil || lack == nil {
		return err
	}
	return failure.Refuse("%s would not start again, for %v: %s", u.Name, lack, lack.Fix())
}

// CheckNeedFailed says which unit that the agent's unit needs has failed: a *failure.RefusedError. If a needed unit fails later,
// systemd leaves the agent up, and starts the unit again with the agent's next start: if the unit fails again, so does that start.
func CheckNeedFailed(ctx context.Context, u systemd.Unit, ask AskUnit) error {
	lack, err := systemd.FailedNeed(ctx, u, ask)
	if err != nil || lack == nil {
		return err
	}
	return failure.Refuse("%s may not start again, for %v: %s", u.Name, lack, lack.Fix())
}

// CheckOwnNeeds is CheckNeeds for a unit of the updater's own. err is why the answer is not known.
func CheckOwnNeeds(ctx context.Context, u systemd.Unit, ask AskUnit) (why *failure.Error, err error) {
	lack, err := systemd.LackOf(ctx, u, ask)
	if err != nil || lack == nil {
		return nil, err
	}
	return failure.Unchanged("%s would not be started, for %v", u.Name, lack).To("%s", lack.Fix()), nil
}
