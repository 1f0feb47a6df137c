package installer

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/installer/view"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// A stopped agent, as systemd has it.
func stopped(u *systemd.Unit, executes *string) {
	u.ActiveState, u.SubState, u.UnitFileState, *executes = "inactive", "dead", "disabled", ""
}

func maskedAgent(u *systemd.Unit, executes *string) {
	stopped(u, executes)
	u.LoadState, u.UnitFileState, u.FragmentPath, u.ExecStart = "masked", "masked", "/dev/null", ""
}

// advices are the conditions that advise to start or restart the agent, on a host with nothing else to say.
var advices = map[string]struct {
	condition    decision.Type
	command      string
	agent        func(u *systemd.Unit, executes *string)
	unconfigured bool
	config       func(*state.Config)
	runs         string // the words with which the agent was started
}{
	"enabled, and down": {condition: decision.AgentDown, command: "`systemctl start teleport`", agent: func(u *systemd.Unit, executes *string) {
		stopped(u, executes)
		u.UnitFileState = "enabled"
	}},
	"masked":         {condition: decision.AgentNotStarted, command: "then `systemctl enable --now teleport`", agent: maskedAgent},
	"not configured": {condition: decision.AgentNotStarted, command: "then `systemctl enable --now teleport`", agent: stopped, unconfigured: true},
	"not proven": {condition: decision.AgentNotStarted, command: "`systemctl enable --now teleport`", agent: stopped,
		config: func(c *state.Config) { c.Status.Unproven = true }},
	"stopped by a person": {condition: decision.AgentNotStarted, command: "`systemctl enable --now teleport`", agent: stopped},
	"of another version": {condition: decision.AgentOtherVersion, command: "`systemctl restart teleport`",
		agent: func(_ *systemd.Unit, executes *string) { *executes = "1.0.0" }},
	"with other settings": {condition: decision.RestartPending, command: "`teleport-update update --restart`", runs: "teleport start --fips",
		agent: func(u *systemd.Unit, _ *string) { u.Command, u.User = []string{"teleport", "start"}, "0" }},
	"with other settings, and of another version": {condition: decision.RestartPending, command: "`systemctl restart teleport`", runs: "teleport start --fips",
		agent: func(u *systemd.Unit, executes *string) {
			u.Command, u.User, *executes = []string{"teleport", "start"}, "0", "1.0.0"
		}},
	"with other settings, and updates are off": {condition: decision.RestartPending, command: "`systemctl restart teleport`",
		config: func(c *state.Config) { c.Spec.Enabled = false }, runs: "teleport start --fips",
		agent: func(u *systemd.Unit, _ *string) { u.Command, u.User = []string{"teleport", "start"}, "0" }},
}

// isRestart reports whether an advice is for an agent that runs.
func isRestart(advice string) bool {
	return strings.HasPrefix(advice, "of ") || strings.HasPrefix(advice, "with ")
}

// An advice to start the agent is given if a start helps, and not if it would fail or start something else: also if it is the
// second step of two.
func TestAStartIsAdvisedOnlyIfItHelps(t *testing.T) {
	active := version.Release{Version: "1.1.0", Edition: version.OSS}
	program := func(i *Installer) string {
		return filepath.Join(i.Machine.Host.Paths.Versions(), active.Version, "bin", "teleport")
	}
	for trouble, tc := range map[string]struct {
		breaks       func(*Installer)
		agent        func(*systemd.Unit)
		unconfigured bool
		applies      func(advice string) bool
		says         string
		noted        string // the tables that the active version was proven with
	}{
		"none":                           {},
		"the version is gone":            {breaks: func(i *Installer) { must(t, os.RemoveAll(filepath.Dir(filepath.Dir(program(i))))) }},
		"its program cannot be executed": {breaks: func(i *Installer) { must(t, os.Chmod(program(i), 0o644)) }},
		"another file is the unit": {agent: func(u *systemd.Unit) { u.FragmentPath = "/etc/systemd/system/teleport.service" },
			applies: func(advice string) bool { return advice != "masked" }},
		"the unit is gone, which nobody sees behind a mask": {breaks: func(i *Installer) { must(t, os.Remove(i.Machine.Host.Paths.Unit())) },
			applies: func(advice string) bool { return advice == "masked" }},
		"there is no configuration, which nobody sees behind a mask": {unconfigured: true,
			applies: func(advice string) bool { return advice == "masked" }},
		"a transaction lost its journal": {breaks: func(i *Installer) {
			loseJournal(t, i, filepath.Join(i.Machine.Host.Paths.DataDir, "proc", "sqlite.db"), i.Machine.Now())
		}},
		"its database has other tables than the version was proven with": {noted: "0-0123456789abcdef", says: "`teleport-update pin VERSION`",
			breaks: func(i *Installer) { makeDatabase(t, filepath.Join(i.Machine.Host.Paths.DataDir, "proc", "sqlite.db")) },
			applies: func(advice string) bool {
				return advice == "enabled, and down" || advice == "masked" || advice == "not configured" || advice == "stopped by a person"
			}},
		"a person masked the unit of an agent that runs": {agent: func(u *systemd.Unit) { u.LoadState, u.FragmentPath = "masked", "/dev/null" }, says: "is masked",
			applies: isRestart},
		"a condition of the unit does not hold": {agent: func(u *systemd.Unit) {
			u.Ties.Conditions = []systemd.Condition{{Type: "ConditionPathExists", Parameter: "/nonexistent"}}
		}, says: "ConditionPathExists=/nonexistent", applies: func(advice string) bool { return advice != "masked" && advice != "not configured" }},
		"systemd refuses to start it": {agent: func(u *systemd.Unit) { u.Ties.RefusesStart = true },
			applies: func(advice string) bool { return advice != "masked" }},
		"systemd ends the host once it is down": {agent: func(u *systemd.Unit) { u.Ties.EndsHost = "SuccessAction=poweroff" },
			says: "SuccessAction=poweroff", applies: isRestart},
		"systemd refuses to stop it": {agent: func(u *systemd.Unit) { u.Ties.RefusesStop = true }, says: "RefuseManualStop=", applies: isRestart},
	} {
		i := testInstaller(t)
		ownProc(t, i)
		whole(t, i, active, version.Release{Version: "1.0.0", Edition: version.OSS})
		base := configOf(t, i)
		base.Spec.Proxy, base.Spec.Enabled, base.Spec.ActiveVersion = "http://127.0.0.1:1", true, active.Version
		base.Status = state.Status{ActiveEdition: active.Edition}
		must(t, base.Save(i.Machine.Host.Paths.Config()))
		if tc.breaks != nil {
			tc.breaks(i)
		}
		for name, advice := range advices {
			if tc.applies != nil && !tc.applies(name) {
				continue
			}
			c := base
			c.Status.ActiveSchema = tc.noted
			if advice.config != nil {
				advice.config(&c)
			}
			must(t, c.Save(i.Machine.Host.Paths.Config()))
			writeFile(t, i.Machine.Host.Paths.AgentConfig, "")
			if advice.unconfigured || tc.unconfigured {
				must(t, os.Remove(i.Machine.Host.Paths.AgentConfig))
			}
			started := cmp.Or(advice.runs, "teleport start")
			writeFile(t, filepath.Join(i.Processes.Proc, "4711", "cmdline"), strings.ReplaceAll(started, " ", "\x00")+"\x00")
			writeFile(t, filepath.Join(i.Processes.Proc, "4711", "environ"), "")
			i.Machine.Connect = sightOf(i, func(u *systemd.Unit, executes *string) {
				u.Name = "teleport.service"
				advice.agent(u, executes)
				if tc.agent != nil {
					tc.agent(u)
				}
			})
			r, err := i.Status(t.Context(), StatusOptions{Offline: true})
			must(t, err)
			said := ""
			for _, c := range r.Conditions {
				if c.Type == advice.condition {
					said = c.Message
				}
			}
			helps := trouble == "none"
			if !strings.Contains(said, tc.says) {
				t.Errorf("%s, of an agent that is %s: status says %q, want %q", trouble, name, said, tc.says)
			}
			if said == "" || strings.Contains(said, advice.command) != helps || strings.Contains(said, "before this is put right: ") == helps {
				t.Errorf("%s, of an agent that is %s: status says %q of %s; want the advice %s: %v", trouble, name, said, advice.condition, advice.command, helps)
			}
		}
	}
}

// A service beside the agent is to be restarted only if it would start again.
func TestAServiceIsToBeRestartedOnlyIfItStartsAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		unit func(*systemd.Unit)
		want string
	}{
		"it would": {func(*systemd.Unit) {}, "`systemctl restart tbot.service`"},
		"its program is missing": {func(u *systemd.Unit) { u.ExecStart = "/nonexistent/tbot" },
			"do not restart tbot.service before this is put right: /nonexistent/tbot is missing"},
		"it has files of its own": {func(u *systemd.Unit) { u.ExecStart, u.Ties.View.Root = "/nonexistent/tbot", "/srv/image" }, "`systemctl restart tbot.service`"},
		"its unit is masked":      {func(u *systemd.Unit) { u.LoadState = "masked" }, "systemd has no unit tbot.service that it can start (masked)"},
		"systemd refuses":         {func(u *systemd.Unit) { u.Ties.RefusesStop = true }, "systemd refuses to restart tbot.service"},
		"a condition does not hold": {func(u *systemd.Unit) {
			u.Ties.Conditions = []systemd.Condition{{Type: "ConditionPathExists", Parameter: "/nonexistent"}}
		}, "does not hold now"},
	} {
		_, status := verifyOf(t, func(i *Installer) {
			proc := filepath.Join(i.Processes.Proc, "4712")
			writeFile(t, filepath.Join(proc, "cgroup"), "0::/system.slice/tbot.service\n")
			must(t, os.Symlink(filepath.Join(i.Machine.Host.Paths.Versions(), "1.0.0", "bin", "tbot"), filepath.Join(proc, "exe")))
			look := i.Machine.Connect
			i.Machine.Connect = func(ctx context.Context) (transaction.Agent, error) {
				a, err := look(ctx)
				shown := a.(seen)
				shown.units = only("tbot.service", tc.unit)
				return shown, err
			}
		})
		said := ""
		for _, c := range status.Conditions {
			if c.Type == decision.CompanionsOld {
				said = c.Message
			}
		}
		if !strings.Contains(said, tc.want) || strings.Contains(said, "`systemctl restart") != strings.Contains(tc.want, "`systemctl restart") {
			t.Errorf("%s: status says %q, want %q", name, said, tc.want)
		}
	}
}

// statusSays is the status of a host, by what was seen already, and what it says of a condition; empty if it does not name it.
func statusSays(t *testing.T, i *Installer, by decision.Type) (r view.Status, said string) {
	t.Helper()
	r, err := i.Status(t.Context(), StatusOptions{Offline: true})
	must(t, err)
	for _, c := range r.Conditions {
		if c.Type == by {
			said = c.Message
		}
	}
	return r, said
}
