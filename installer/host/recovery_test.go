package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/systemd"
)

// Whatever a drop-in adds that keeps the recovery from its work is said before it is counted on, with the
// files to look at; what its own unit says is none of that.
func TestWhatKeepsTheRecoveryFromItsWork(t *testing.T) {
	h := testHost(t)
	program := filepath.Join(h.Paths.DataDir, "updater", "teleport-update")
	for _, dir := range []string{h.Paths.LinkDir, h.Paths.UnitDir, h.Paths.Versions(), filepath.Dir(program)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	veil := func(path string, of systemd.Access) func(*systemd.Unit) {
		return func(u *systemd.Unit) {
			u.Ties.View.Veils = []systemd.Veil{{Path: path, Setting: "Some=" + path, Of: of}}
		}
	}
	condition := func(kind, path string) func(*systemd.Unit) {
		return func(u *systemd.Unit) {
			u.Ties.Conditions = append(u.Ties.Conditions, systemd.Condition{Type: kind, Parameter: path})
		}
	}
	for name, tc := range map[string]struct {
		drop func(*systemd.Unit)
		says string
	}{
		"nothing":                       {func(*systemd.Unit) {}, ""},
		"no systemd":                    {func(u *systemd.Unit) { *u = systemd.Unit{} }, ""},
		"root, by number":               {func(u *systemd.Unit) { u.User = "0" }, ""},
		"a mask":                        {func(u *systemd.Unit) { u.LoadState = "masked" }, "as masked"},
		"a setting that is wrong":       {func(u *systemd.Unit) { u.LoadState = "bad-setting" }, "as bad-setting"},
		"another user":                  {func(u *systemd.Unit) { u.User = "daemon" }, "as user daemon"},
		"another command":               {func(u *systemd.Unit) { u.Command = []string{"/bin/true"} }, "starts /bin/true, which is not"},
		"a command before":              {func(u *systemd.Unit) { u.Later, u.Command = [][]string{u.Command}, []string{"/bin/true"} }, ""},
		"a program around it":           {func(u *systemd.Unit) { u.Command = append([]string{"/bin/nice"}, u.Command...) }, ""},
		"a condition":                   {condition("ConditionPathExists", "/nonexistent"), "ConditionPathExists=/nonexistent"},
		"a condition that holds":        {condition("ConditionPathExists", "/"), ""},
		"an assertion":                  {condition("AssertPathExists", "/nonexistent"), "AssertPathExists=/nonexistent"},
		"no execution":                  {veil(filepath.Dir(program), systemd.Executing), "Some="},
		"no data":                       {veil(h.Paths.DataDir, systemd.Seeing), "Some="},
		"read-only links":               {veil(h.Paths.LinkDir, systemd.Writing), "Some="},
		"read-only units":               {veil(h.Paths.UnitDir, systemd.Writing), "Some="},
		"a read-only host":              {veil("/", systemd.Writing), "Some="},
		"another folder is read-only":   {veil("/nonexistent", systemd.Writing), ""},
		"links that cannot be executed": {veil(h.Paths.LinkDir, systemd.Executing), ""},
		"a command that skips it":       {func(u *systemd.Unit) { u.Ties.Startup.Before = []string{"ExecCondition=/bin/false"} }, "ExecCondition=/bin/false"},
		"a time that is too short": {func(u *systemd.Unit) {
			u.DropIns = []string{"/lib/zzzz-teleport-update.conf", "/etc/zzzzz.conf"}
			u.Limits = map[string]uint64{"TimeoutStartUSec": 1000, "TimeoutStopUSec": 10_800_000_000}
		}, "TimeoutStartSec=1ms in /etc/zzzzz.conf"},
		"another root": {func(u *systemd.Unit) { u.Ties.View.Root = "RootDirectory=/srv" }, "RootDirectory=/srv"},
	} {
		u := systemd.Unit{Name: "teleport-update-recover.service", LoadState: "loaded", ExecStart: program, DropIns: []string{"/etc/a.conf"},
			Command: []string{program, "recover", "--boot"}}
		condition("ConditionPathExists", h.Paths.Journal())(&u)
		tc.drop(&u)
		why := h.CheckRecovery(t.Context(), u)
		if (why == nil) != (tc.says == "") || why != nil && (!strings.Contains(why.Error(), tc.says) || why.Fix == "") {
			t.Errorf("%s: %v; want %q", name, why, tc.says)
		}
	}
}
