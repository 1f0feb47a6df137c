package decision

import (
	"errors"
	"fmt"
	"strings"

	"teleport-update/installer/state"
)

func recordsBroken(h *host, f *finder) error {
	if _, err := h.Config(); err != nil {
		f.found(nil, err.Error())
		return nil
	}
	t, err := h.Transaction()
	if bad, ok := errors.AsType[*state.JournalError](err); ok && bad.Newer == nil { // else it says what to do
		err = fmt.Errorf("%w; the next run, or `teleport-update update`, goes on where it can, and says what to do where it cannot", err)
	}
	if err != nil {
		f.found(nil, err.Error())
		return nil
	}
	if t != nil {
		return nil
	}
	if why := h.Fits(h); why != nil {
		f.found(nil, h.misfit(why))
	}
	return nil
}

// misfit says what to do about records that do not fit the host.
func (h *host) misfit(why error) string {
	if h.c.Spec.ActiveVersion != "" {
		return why.Error()
	}
	remedy := "nothing updates it before `teleport-update enable`"
	if h.c.Spec.Enabled && !h.c.Spec.Pinned {
		remedy = "the next update to the version that the cluster wants repairs it: `teleport-update update`, or the timer's next run"
	}
	return fmt.Sprintf("%s names no active version, but the updater may have installed the agent: %v; %s", h.Paths().Config(), why, remedy)
}

func transactionRunning(h *host, f *finder) error {
	if t, err := h.Transaction(); err == nil && t != nil && t.Running {
		f.found(&t.Started, t.Working)
	}
	return nil // what cannot be read is a broken record
}

func transactionOpen(h *host, f *finder) error {
	if t, err := h.Transaction(); err == nil && t != nil && !t.Running {
		f.found(&t.Started, t.CutOff)
	}
	return nil
}

func updatesDisabled(h *host, f *finder) error {
	if !h.c.Spec.Enabled {
		f.found(nil, "updates are disabled; `teleport-update enable` turns them on")
	}
	return nil
}

func hostPinned(h *host, f *finder) error {
	if h.c.Spec.Pinned {
		f.found(nil, fmt.Sprintf("pinned to %s; `teleport-update unpin` lets it follow the cluster again", h.c.Spec.ActiveVersion))
	}
	return nil
}

func enableFailed(h *host, f *finder) error {
	if e := h.c.Status.FirstEnable; e != nil && h.c.Spec.ActiveVersion == "" {
		f.found(&e.Time, fmt.Sprintf("the first enable failed, and nothing tries it again by itself: %s; remove the cause, then `%s`", e.Error,
			e.Command))
	}
	return nil
}

func settingsUnknown(h *host, f *finder) error {
	if names := h.c.UnknownSettings(); len(names) > 0 {
		f.found(nil, fmt.Sprintf("%s has settings that this program does not know: %s; a newer program wrote them, or they are misspelt",
			h.Paths().Config(), strings.Join(names, ", ")))
	}
	return nil
}

func templateExposed(h *host, f *finder) error {
	for _, text := range h.Exposed {
		f.found(nil, text)
	}
	return nil
}

func packageLeft(h *host, f *finder) error {
	if left := h.c.Status.PackagesLeft; len(left) > 0 {
		f.found(&left[0].Since, DescribeLeft(left))
	}
	return nil
}

// DescribeLeft names packages that are still to be removed.
func DescribeLeft(left []state.PackageLeft) string {
	var all []string
	for _, l := range left {
		all = append(all, l.Package.String()+": "+l.Error)
	}
	return strings.Join(all, "; ")
}

func versionsLeft(h *host, f *finder) error {
	if h.VersionsLeft != "" {
		f.found(nil, h.VersionsLeft)
	}
	return nil
}
