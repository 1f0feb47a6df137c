package systemd

import (
	"context"
	"fmt"
	"slices"
)

// Lack is a unit that keeps systemd from starting another one, as it is now.
type Lack struct {
	Of    string // the unit that has the need
	Need  Need
	State string // "masked", "not-found", "bad-setting", "error"; of Requisite= also "inactive", "failed", …
}

// String completes the sentence "the unit would not start, for …".
func (l *Lack) String() string {
	return fmt.Sprintf("%s, which %s needs (%s=), is %s", l.Need.Unit, l.Of, l.Need.Setting, l.State)
}

// Fix says what to do about it.
func (l *Lack) Fix() string {
	switch l.State {
	case "masked":
		return fmt.Sprintf("`%s`, or remove the setting (`systemctl cat %s` shows it)", Unmask(l.Need.Unit), l.Of)
	case "not-found":
		return fmt.Sprintf("bring the unit back, or remove the setting (`systemctl cat %s` shows it)", l.Of)
	case failed:
		if l.Need.Setting != requisite {
			return fmt.Sprintf("`systemctl status %s` says why, or remove the setting (`systemctl cat %s` shows it)", l.Need.Unit, l.Of)
		}
	case "bad-setting", "error":
		return fmt.Sprintf("`systemctl status %s` says what is wrong with it", l.Need.Unit)
	}
	return fmt.Sprintf("`systemctl start %s`", l.Need.Unit)
}

const failed = "failed" // a state of units

// FailedNeed returns a unit that u needs and that failed: a start of u that was asked for since did not come to pass, and the next
// one may not. It is nil if none did. It asks for one unit after the other.
func FailedNeed(ctx context.Context, u Unit, ask func(ctx context.Context, unit string) (Unit, error)) (*Lack, error) {
	for _, need := range u.Ties.Needs[:min(len(u.Ties.Needs), mostNeeds)] {
		needed, err := ask(ctx, need.Unit)
		if err != nil {
			return nil, err
		}
		if needed.ActiveState == failed {
			return &Lack{u.Name, need, failed}, nil
		}
	}
	return nil, nil
}

// mostNeeds bounds how many units LackOf asks for. An ordinary service needs five, with all that those need.
const mostNeeds = 100

// unloadable are the states of units for which systemd refuses the start of each unit that needs them, also if they
// are active.
var unloadable = []string{"masked", "not-found", "bad-setting", "error"}

// LackOf returns a unit that keeps systemd from starting u, by what u needs and what that needs in turn; nil if none shows.
// It asks for one unit after the other. A unit that is down and that systemd would start along with u is none: whether it
// starts only a try shows.
func LackOf(ctx context.Context, u Unit, ask func(ctx context.Context, unit string) (Unit, error)) (*Lack, error) {
	asked := map[string]bool{u.Name: true}
	for units := []Unit{u}; len(units) > 0; units = units[1:] {
		of := units[0]
		for _, need := range of.Ties.Needs {
			if asked[need.Unit] || len(asked) > mostNeeds {
				continue
			}
			asked[need.Unit] = true
			needed, err := ask(ctx, need.Unit)
			if err != nil {
				return nil, err
			}
			if state := missing(u, of, need, needed); state != "" {
				return &Lack{of.Name, need, state}, nil
			}
			units = append(units, needed)
		}
	}
	return nil, nil
}

// missing is the state of a needed unit in which systemd would not start u; empty if it would. Whether Requisite= prevents a start
// without an order between the two (After=) is by chance. Of what a needed unit needs it only counts if it can be loaded:
// who needs it may be up.
func missing(u, of Unit, need Need, needed Unit) string {
	down := slices.Contains([]string{"inactive", "failed", "deactivating"}, needed.ActiveState)
	switch {
	case slices.Contains(unloadable, needed.LoadState):
		return needed.LoadState
	case need.Setting == requisite && down && of.Name == u.Name:
		return needed.ActiveState
	}
	return ""
}
