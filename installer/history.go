package installer

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

// History returns the last transactions of this host, the newest first.
func (i *Installer) History() (state.History, error) {
	if err := i.readable(); err != nil {
		return state.History{}, err
	}
	h, err := state.ReadHistory(i.Machine.Host.Paths.History())
	slices.Reverse(h.Ended)
	return h, err
}

// addEnded adds the transaction in updates.yaml to the history, if it is not there: the command that made it may have been killed, and a
// recovery has closed it. updates.yaml also has an attempt that failed before anything was changed. addEnded returns the transaction that
// it added.
func (n chronicle) addEnded(c state.Config, command string) (added *state.Ended) {
	last := c.Status.LastUpdate
	if last == nil || !host.Absent(n.m.Host.Paths.Journal()) {
		return nil
	}
	before := last.Time.Before(n.started.Truncate(time.Second))
	early := last.Result == state.FailedEarly && last.Transaction == ""
	if early && before {
		return nil // the command that made the attempt has noted it
	}
	h, err := state.LoadHistory(n.m.Host.Paths.History())
	if err != nil {
		n.m.Host.Log.Warn("the transaction is not added to the history in this run", "error", err)
		return nil // the next run adds it
	}
	to := version.Release{Version: last.Target, Edition: last.TargetEdition}
	if slices.ContainsFunc(h.Ended, func(s state.Ended) bool { return s.Time.Equal(last.Time) && s.To == to && s.Result != state.Repaired }) {
		return nil
	}
	s := state.Ended{Time: last.Time, Cause: command, By: n.who(), From: c.Active(), To: to, Result: last.Result, Error: last.Error,
		Took: last.Took}
	if last.Result == state.Succeeded {
		s.From = c.Previous()
	}
	if before {
		s.Cause, s.By = "recovery", ""
	} else if n.took > 0 {
		if s.Took == nil {
			s.Took = map[string]state.Duration{}
		}
		s.Took["download"] = state.Duration(n.took.Round(time.Millisecond))
	}
	if early {
		h.DropSame(s)
	}
	if err := h.Add(s, n.m.Host.Paths.History()); err != nil {
		n.m.Host.Log.Debug("the transaction could not be added to the history", "error", err)
		return nil // else each run would take it for news
	}
	if early {
		return nil // no transaction, for hooks and reports
	}
	return &s
}

// addRepair adds a repair, as of links and units, to the history, with the problems.
func (n chronicle) addRepair(of version.Release, problems []string) {
	s := state.Ended{Time: n.m.Timestamp(), Cause: "repair", By: n.who(), From: of, To: of, Result: state.Repaired,
		Error: strings.Join(problems, "; ")}
	h, err := state.LoadHistory(n.m.Host.Paths.History())
	if err != nil {
		n.m.Host.Log.Warn("the repair is not added to the history", "error", err)
		return
	}
	h.DropSame(s)
	if err := h.Add(s, n.m.Host.Paths.History()); err != nil {
		n.m.Host.Log.Debug("the repair could not be added to the history", "error", err)
	}
}

// who names the person who asked for this run, or the timer.
func (n chronicle) who() string {
	if n.m.Scheduled {
		return "timer"
	}
	return cmp.Or(os.Getenv("SUDO_USER"), os.Getenv("USER"), fmt.Sprintf("uid %d", os.Getuid()))
}
