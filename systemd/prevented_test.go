package systemd

import (
	"errors"
	"testing"

	"github.com/godbus/dbus/v5"
)

// What systemd refuses says nothing about what was to be started; that a program failed does.
func TestWhatPreventsAStart(t *testing.T) {
	named := func(name string) error { return &JobError{Err: dbus.Error{Name: name}} }
	for _, tc := range []struct {
		err                error
		refused, prevented bool
	}{
		{named("org.freedesktop.systemd1.UnitMasked"), true, true}, {named("org.freedesktop.systemd1.NoSuchUnit"), true, true},
		{named("org.freedesktop.systemd1.BadUnitSetting"), true, true}, {named("org.freedesktop.DBus.Error.AccessDenied"), true, true},
		{&JobError{Verb: VerbRestart, Result: ResultFrozen}, true, true},
		{named("org.freedesktop.DBus.Error.NoReply"), false, false},
		{&JobError{Result: ResultDependency}, false, true}, {&JobError{Result: ResultWaiting, Err: &BlockedError{}}, false, true},
		{&JobError{Result: "failed"}, false, false}, {&JobError{Result: "timeout"}, false, false}, {errors.New("else"), false, false}, {nil, false, false},
	} {
		if got := IsRefused(tc.err); got != tc.refused {
			t.Errorf("%v: refused: %v", tc.err, got)
		}
		if got := IsPrevented(tc.err); got != tc.prevented {
			t.Errorf("%v: prevented: %v", tc.err, got)
		}
	}
}
