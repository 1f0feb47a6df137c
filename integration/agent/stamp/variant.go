package stamp

import (
	"fmt"
	"slices"
	"strings"
)

// Variant is one way in which a release behaves, sound or not.
type Variant string

const (
	// Sound does everything right.
	Sound Variant = "sound"

	// Unrunnable exits with 1 whatever it is asked, "teleport version" too.
	Unrunnable Variant = "unrunnable"
	// ExitsAtStart exits with 1 before it touches the database: at once, or a
	// fifth of a second after it was started to be handed over to.
	ExitsAtStart Variant = "exits-at-start"
	// ExitsZero does the same with 0, which systemd takes for a success.
	ExitsZero Variant = "exits-zero"
	// MigratesThenExits migrates the database to its schema and exits with 1,
	// as quickly as ExitsAtStart.
	MigratesThenExits Variant = "migrates-then-exits"
	// CrashLoops becomes ready and dies after Stamp.CrashAfter, every time.
	CrashLoops Variant = "crash-loops"
	// NeverReady starts, takes over and serves, but /readyz answers 503.
	NeverReady Variant = "never-ready"
	// SlowToStart is sound, but for two seconds it does nothing before it opens the
	// database, whoever starts it.
	SlowToStart Variant = "slow-to-start"
	// HangsOnStop ignores SIGTERM, SIGINT and SIGQUIT.
	HangsOnStop Variant = "hangs-on-stop"

	// DiesOnReload started by the old version on SIGHUP opens the database,
	// which migrates it, and dies half a second later without having reported
	// ready: the old process serves on. Started by systemd it exits with 1.
	DiesOnReload Variant = "dies-on-reload"
	// HandoverDies dies like DiesOnReload on SIGHUP, but is sound when systemd
	// starts it.
	HandoverDies Variant = "handover-dies"
	// HandoverDiesLate is HandoverDies, except that it has taken over the PID
	// file by then: the file names a dead process and nobody locks it.
	HandoverDiesLate Variant = "handover-dies-late"

	// IgnoresReload ignores SIGHUP.
	IgnoresReload Variant = "ignores-reload"
	// ReexecutesItself answers SIGHUP by executing the file it runs from, not
	// the link it was started by: same PID, same version.
	ReexecutesItself Variant = "reexecutes-itself"
	// Drains stays for Stamp.DrainFor after it has handed over on SIGHUP, or
	// after SIGQUIT, with its database still open.
	Drains Variant = "drains"
)

// Variants lists all of them.
func Variants() []Variant {
	return []Variant{
		Sound, Unrunnable, ExitsAtStart, ExitsZero, MigratesThenExits, CrashLoops, NeverReady, SlowToStart, HangsOnStop,
		DiesOnReload, HandoverDies, HandoverDiesLate, IgnoresReload, ReexecutesItself, Drains,
	}
}

// ParseVariant returns the variant of that name; an empty name is Sound.
func ParseVariant(name string) (Variant, error) {
	if name == "" {
		return Sound, nil
	}
	if v := Variant(name); slices.Contains(Variants(), v) {
		return v, nil
	}
	var names []string
	for _, v := range Variants() {
		names = append(names, string(v))
	}
	return "", fmt.Errorf("variant %q is not one of %s", name, strings.Join(names, ", "))
}
