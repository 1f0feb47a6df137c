package installer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/version"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// wellHost is a host that is idle; each test changes one thing about it.
type wellHost struct {
	*Installer
	config   state.Config
	answer   state.LastAnswer
	ticks    state.Ticks
	unit     systemd.Unit // the agent's
	executes string       // the version
	own      map[string]func(*systemd.Unit)
}

func newWellHost(t *testing.T) *wellHost {
	t.Helper()
	i := testInstaller(t)
	i.Machine.Now, i.Version, i.Machine.BootID = func() time.Time { return noon }, "1.2.3", func() string { return "boot" }
	ownProc(t, i)
	release := version.Release{Version: "1.1.0", Edition: version.Enterprise}
	whole(t, i, release)
	h := &wellHost{Installer: i, config: state.EmptyConfig(), executes: "1.1.0", own: map[string]func(*systemd.Unit){}}
	h.config.Spec = state.Spec{Proxy: "http://127.0.0.1:1", Enabled: true, ActiveVersion: "1.1.0"}
	last := &state.LastUpdate{Time: noon, Target: "1.1.0", TargetEdition: version.Enterprise, Result: state.Succeeded}
	h.config.Status = state.Status{ActiveEdition: version.Enterprise, LastUpdate: last}
	h.answer = state.LastAnswer{Time: noon, Proxy: h.config.Spec.Proxy, Release: release, AutoUpdate: true}
	h.unit = systemd.Unit{
		Name: "teleport.service", LoadState: "loaded", ActiveState: "active", SubState: "running", UnitFileState: "enabled",
		Since: noon.Add(-24 * time.Hour), FragmentPath: i.Machine.Host.Paths.Unit(), ExecStart: filepath.Join(i.Machine.Host.Paths.LinkDir, "teleport"),
	}
	i.Machine.Host.Paths.RunDir = filepath.Join(filepath.Dir(i.Machine.Host.Paths.DataDir), "run")
	return h
}

// state is what status says of the host now.
func (h *wellHost) state(t *testing.T) (decision.State, []decision.Type) {
	t.Helper()
	must(t, h.config.Save(h.Machine.Host.Paths.Config()))
	must(t, h.answer.Save(h.Machine.Host.Paths.LastAnswer()))
	h.ticks.DataDir, h.ticks.BootID = h.Machine.Host.Paths.DataDir, "boot"
	must(t, h.ticks.Save(h.Machine.Host.Paths.Ticks()))
	look := sightOf(h.Installer, func(u *systemd.Unit, executes *string) { *u, *executes = h.unit, h.executes })
	h.Machine.Connect = func(ctx context.Context) (transaction.Agent, error) {
		a, err := look(ctx)
		shown := a.(seen)
		shown.units = func(name string, u *systemd.Unit) {
			if name == "masked.service" {
				u.LoadState = "masked"
			}
			if change := h.own[name]; change != nil {
				change(u)
			}
		}
		return shown, err
	}
	r, err := h.Status(t.Context(), StatusOptions{})
	must(t, err)
	var types []decision.Type
	for _, c := range r.Conditions {
		types = append(types, c.Type)
	}
	return r.State, types
}

// idleMeans has for each word of the promise what breaks it: "the agent runs what is linked, wanted and
// proven, on its database, by the unit that systemd has loaded, which it will find again at
// boot, with an updater whose last run ended well".
var idleMeans = []struct {
	word, how string
	breaks    func(t *testing.T, h *wellHost)
	state     decision.State
	by        decision.Type
}{
	{"the agent runs", "it failed", func(_ *testing.T, h *wellHost) {
		h.unit.ActiveState, h.unit.SubState, h.executes = "failed", "failed", ""
	}, decision.NeedsAttention, decision.AgentDown},
	{"the agent runs", "it crashes again and again, updates are off", func(_ *testing.T, h *wellHost) {
		h.unit.NRestarts, h.unit.Since, h.config.Spec.Enabled = 3, noon.Add(-20*time.Second), false
	}, decision.NeedsAttention, decision.AgentDown},
	{"the agent runs", "it crashes again and again, the timer is disabled", func(_ *testing.T, h *wellHost) {
		h.unit.NRestarts, h.unit.Since = 3, noon.Add(-20*time.Second)
		h.own["teleport-update.timer"] = func(u *systemd.Unit) { u.ActiveState, u.UnitFileState = "inactive", "disabled" }
	}, decision.NeedsAttention, decision.AgentDown},
	{"the agent runs", "it was stopped", func(_ *testing.T, h *wellHost) {
		h.unit.ActiveState, h.unit.SubState, h.executes = "inactive", "dead", ""
	}, decision.NeedsAttention, decision.AgentDown},
	{"the agent runs", "a person stopped and disabled it", func(_ *testing.T, h *wellHost) {
		h.unit.ActiveState, h.unit.SubState, h.unit.UnitFileState, h.executes = "inactive", "dead", "disabled", ""
	}, decision.Waiting, decision.AgentNotStarted},
	{"the agent runs", "a person stopped and disabled it, and a command after that failed", func(_ *testing.T, h *wellHost) {
		h.unit.ActiveState, h.unit.SubState, h.unit.UnitFileState, h.executes = "failed", "failed", "disabled", ""
		h.unit.Result, h.unit.Restart, h.unit.Exit.Code = "exit-code", "always", systemd.Exited
	}, decision.Waiting, decision.AgentNotStarted},
	{"the agent runs", "its process ended, and its unit stays active", func(_ *testing.T, h *wellHost) {
		h.unit.SubState, h.executes = "exited", ""
	}, decision.NeedsAttention, decision.AgentDown},
	{"the agent runs", "somebody froze it", func(_ *testing.T, h *wellHost) {
		h.unit.Frozen = true
	}, decision.NeedsAttention, decision.AgentDown},
	{"the agent runs", "nobody knows its process", func(_ *testing.T, h *wellHost) {
		h.executes = ""
	}, decision.Unknown, decision.NotLookedAt},
	{"the agent runs", "its start waits for another unit", func(_ *testing.T, h *wellHost) {
		h.unit.ActiveState, h.unit.SubState, h.unit.JobPending, h.unit.InState, h.executes = "inactive", "dead", true, time.Minute, ""
	}, decision.Waiting, decision.AgentStarting},
	{"the agent runs", "its start waits for another unit, for long", func(_ *testing.T, h *wellHost) {
		h.unit.ActiveState, h.unit.SubState, h.unit.JobPending, h.unit.InState, h.executes = "inactive", "dead", true, 6*time.Minute, ""
	}, decision.NeedsAttention, decision.AgentDown},
	{"the agent runs", "its start waits since the units were started again", func(_ *testing.T, h *wellHost) {
		h.unit.ActiveState, h.unit.SubState, h.unit.JobPending, h.unit.InState, h.executes = "inactive", "dead", true, 24*time.Hour, ""
		h.own[systemd.StartOfUnits] = func(u *systemd.Unit) { u.ActiveState, u.InState = "active", time.Minute }
	}, decision.Waiting, decision.AgentStarting},
	{"the agent runs", "a command before it hangs", func(_ *testing.T, h *wellHost) {
		h.unit.ActiveState, h.unit.SubState, h.unit.InState, h.executes = "activating", "start-pre", 6*time.Minute, ""
	}, decision.NeedsAttention, decision.AgentDown},
	{"the agent runs", "its stop hangs", func(_ *testing.T, h *wellHost) {
		h.unit.ActiveState, h.unit.SubState, h.unit.JobPending, h.unit.InState = "deactivating", "stop-sigterm", true, 6*time.Minute
	}, decision.NeedsAttention, decision.AgentDown},
	{"what is linked", "another version", func(_ *testing.T, h *wellHost) {
		h.executes = "1.0.0"
	}, decision.NeedsAttention, decision.AgentOtherVersion},
	{"what is linked", "a link is missing", func(t *testing.T, h *wellHost) {
		must(t, os.Remove(filepath.Join(h.Machine.Host.Paths.LinkDir, "tsh")))
	}, decision.NeedsAttention, decision.LinksBroken},
	{"what is linked", "a folder is in the place of a link", func(t *testing.T, h *wellHost) {
		link := filepath.Join(h.Machine.Host.Paths.LinkDir, "tsh")
		must(t, errors.Join(os.Remove(link), os.Mkdir(link, 0o755)))
	}, decision.NeedsAttention, decision.LinksBroken},
	{"what is linked", "the version is gone", func(t *testing.T, h *wellHost) {
		must(t, os.RemoveAll(filepath.Join(h.Machine.Host.Paths.Versions(), "1.1.0")))
	}, decision.NeedsAttention, decision.VersionBroken},
	{"what is linked", "the program may not be executed", func(t *testing.T, h *wellHost) {
		must(t, os.Chmod(filepath.Join(h.Machine.Host.Paths.Versions(), "1.1.0", "bin", "teleport"), 0o644))
	}, decision.NeedsAttention, decision.VersionBroken},
	{"what is linked", "the program was emptied", func(t *testing.T, h *wellHost) {
		must(t, os.Truncate(filepath.Join(h.Machine.Host.Paths.Versions(), "1.1.0", "bin", "teleport"), 0))
	}, decision.NeedsAttention, decision.VersionBroken},
	{"what is linked", "a program that the agent does not need was taken away", func(t *testing.T, h *wellHost) {
		must(t, os.Remove(filepath.Join(h.Machine.Host.Paths.Versions(), "1.1.0", "bin", "tsh")))
	}, decision.NeedsAttention, decision.VersionBroken},
	{"wanted", "the cluster wants another", func(_ *testing.T, h *wellHost) {
		h.answer.Release.Version = "1.2.0"
	}, decision.Waiting, decision.UpdateWaits},
	{"wanted", "another edition", func(_ *testing.T, h *wellHost) {
		h.answer.Release.Edition = version.FIPS
	}, decision.Waiting, decision.UpdateWaits},
	{"wanted", "nobody knows", func(_ *testing.T, h *wellHost) {
		h.answer.Proxy = "http://127.0.0.1:2"
	}, decision.Waiting, decision.TargetUnknown},
	{"proven", "nobody watched it", func(_ *testing.T, h *wellHost) {
		h.config.Status.Unproven = true
	}, decision.Waiting, decision.Unproven},
	{"proven", "it crashes since", func(_ *testing.T, h *wellHost) {
		h.ticks.Unstable = &state.Unstable{Release: h.config.Active(), Count: 2, Since: noon.Add(-time.Hour), Last: noon, Restarts: 3}
	}, decision.Unstable, decision.AgentUnstable},
	{"on its database", "it had one, which is not there", func(_ *testing.T, h *wellHost) {
		h.config.Status.ActiveSchema = "1-2345"
	}, decision.NeedsAttention, decision.UnitOverruled},
	{"by the unit", "with other arguments", func(t *testing.T, h *wellHost) {
		h.unit.Command = []string{"teleport", "start", "--fips"}
		proc := filepath.Join(h.Processes.Proc, "4711")
		writeFile(t, filepath.Join(proc, "cmdline"), "teleport\x00start\x00")
		writeFile(t, filepath.Join(proc, "environ"), "")
		h.unit.User = fmt.Sprint(os.Getuid())
	}, decision.NeedsAttention, decision.RestartPending},
	{"that systemd has loaded", "an administrator's", func(_ *testing.T, h *wellHost) {
		h.unit.FragmentPath = "/etc/systemd/system/teleport.service"
	}, decision.NeedsAttention, decision.UnitOverruled},
	{"that systemd has loaded", "an older text", func(_ *testing.T, h *wellHost) {
		h.unit.NeedDaemonReload = true
	}, decision.NeedsAttention, decision.UnitOverruled},
	{"which it will find again at boot", "another unit ranks above it, which was not read", func(t *testing.T, h *wellHost) {
		writeFile(t, filepath.Join(h.Machine.Host.Paths.UnitDir+".control", "teleport.service"), "[Service]\nExecStart=/usr/bin/teleport start\n")
	}, decision.NeedsAttention, decision.UnitOverruled},
	{"which it will find again at boot", "a mask of it was not read", func(t *testing.T, h *wellHost) {
		dir := h.Machine.Host.Paths.UnitDir + ".control"
		must(t, errors.Join(os.MkdirAll(dir, 0o755), os.Symlink(os.DevNull, filepath.Join(dir, "teleport.service"))))
	}, decision.NeedsAttention, decision.UnitOverruled},
	{"that systemd has loaded", "the file is gone", func(t *testing.T, h *wellHost) {
		must(t, os.Remove(h.Machine.Host.Paths.Unit()))
	}, decision.NeedsAttention, decision.LinksBroken},
	{"that systemd has loaded", "a folder is in the place of the file", func(t *testing.T, h *wellHost) {
		unit := h.Machine.Host.Paths.Unit()
		must(t, errors.Join(os.Remove(unit), os.Mkdir(unit, 0o755)))
	}, decision.NeedsAttention, decision.LinksBroken},
	{"which it will find again at boot", "the folder is a mount", func(t *testing.T, h *wellHost) {
		mountUnits(t, h.Installer)
	}, decision.NeedsAttention, decision.UnitsLate},
	{"which it will find again at boot", "a drop-in is on a mount of its own", func(t *testing.T, h *wellHost) {
		h.unit.DropIns = []string{"/opt/units/teleport.service.d/a.conf", "/run/systemd/system/teleport.service.d/b.conf"}
		writeFile(t, filepath.Join(h.Processes.Proc, "self", "mountinfo"), "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /opt rw - ext4 /dev/sda2 rw\n")
	}, decision.NeedsAttention, decision.UnitsLate},
	{"which it will find again at boot", "a drop-in is a link to a file on a mount of its own", func(t *testing.T, h *wellHost) {
		srv, link := filepath.Join(filepath.Dir(h.Machine.Host.Paths.DataDir), "srv"), h.Machine.Host.Paths.Unit()+".d/a.conf"
		writeFile(t, filepath.Join(srv, "a.conf"), "[Service]\nNice=5\n")
		must(t, errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(filepath.Join(srv, "a.conf"), link)))
		h.unit.DropIns = []string{link}
		writeFile(t, filepath.Join(h.Processes.Proc, "self", "mountinfo"), "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / "+srv+" rw - ext4 /dev/sda2 rw\n")
	}, decision.NeedsAttention, decision.UnitsLate},
	{"which it will find again at boot", "the folder of a drop-in is a link to a mount of its own", func(t *testing.T, h *wellHost) {
		srv, link := filepath.Join(filepath.Dir(h.Machine.Host.Paths.DataDir), "srv"), h.Machine.Host.Paths.Unit()+".d"
		writeFile(t, filepath.Join(srv, "a.conf"), "[Service]\nNice=5\n")
		must(t, os.Symlink(srv, link))
		h.unit.DropIns = []string{filepath.Join(link, "a.conf")}
		writeFile(t, filepath.Join(h.Processes.Proc, "self", "mountinfo"), "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / "+srv+" rw - ext4 /dev/sda2 rw\n")
	}, decision.NeedsAttention, decision.UnitsLate},
	{"which it will find again at boot", "a condition does not hold", func(_ *testing.T, h *wellHost) {
		h.unit.Ties.Conditions = []systemd.Condition{{Type: "ConditionPathExists", Parameter: "/nonexistent"}}
	}, decision.NeedsAttention, decision.UnitOverruled},
	{"which it will find again at boot", "a drop-in hides the program", func(_ *testing.T, h *wellHost) {
		h.unit.Ties.View.Veils = []systemd.Veil{{Path: h.Machine.Host.Paths.LinkDir, Setting: "InaccessiblePaths=" + h.Machine.Host.Paths.LinkDir}}
	}, decision.NeedsAttention, decision.UnitOverruled},
	{"which it will find again at boot", "a unit that it needs is masked", func(_ *testing.T, h *wellHost) {
		h.unit.Ties.Needs = []systemd.Need{{Setting: "Requires", Unit: "vpn.service"}}
		h.own["vpn.service"] = func(u *systemd.Unit) { u.LoadState = "masked" }
	}, decision.NeedsAttention, decision.UnitOverruled},
	{"which it will find again at boot", "its program is closed to its user", func(t *testing.T, h *wellHost) {
		if os.Geteuid() != 0 {
			t.Skip("only root asks for another user")
		}
		must(t, os.Chmod(h.Machine.Host.Paths.LinkDir, 0o700))
		h.unit.User = "nobody"
	}, decision.NeedsAttention, decision.UnitOverruled},
	{"which it will find again at boot", "its configuration is a link to nothing", func(t *testing.T, h *wellHost) {
		config := h.Machine.Host.Paths.AgentConfig
		must(t, os.Symlink("/nonexistent/teleport.yaml", config))
		h.unit.Command = []string{"teleport", "start", "--config=" + config}
	}, decision.NeedsAttention, decision.UnitOverruled},
	{"on its database", "a drop-in makes its folder read-only", func(t *testing.T, h *wellHost) {
		writeFile(t, h.Machine.Host.Paths.AgentConfig, "teleport: {}\n")
		writeFile(t, h.Machine.Host.Paths.DataDir+"/proc/sqlite.db", "x")
		h.unit.Command = []string{"teleport", "start", "--config=" + h.Machine.Host.Paths.AgentConfig}
		h.unit.Ties.View.Veils = []systemd.Veil{{Path: "/", Setting: "ProtectSystem=strict", Of: systemd.Writing}}
	}, decision.NeedsAttention, decision.UnitOverruled},
	{"that systemd has loaded", "without its first drop-in", func(t *testing.T, h *wellHost) {
		writeFile(t, filepath.Join(h.Machine.Host.Paths.UnitDir, "teleport.service.d", "a.conf"), "")
	}, decision.NeedsAttention, decision.UnitOverruled},
	{"with an updater", "a drop-in of the recovery was not read", func(t *testing.T, h *wellHost) {
		writeFile(t, filepath.Join(h.Machine.Host.Paths.UnitDir, "teleport-update-recover.service.d", "a.conf"), "")
	}, decision.NeedsAttention, decision.RecoveryBroken},
	{"with an updater", "the recovery needs a unit that is gone", ownUnit("teleport-update-recover.service", func(u *systemd.Unit) {
		u.LoadState, u.Ties.Needs = "loaded", []systemd.Need{{Setting: "Requires", Unit: "masked.service"}}
	}), decision.NeedsAttention, decision.RecoveryBroken},
	{"with an updater", "a command comes before the recovery", ownUnit("teleport-update-recover.service", func(u *systemd.Unit) {
		u.Ties.Startup.Before = []string{"ExecStartPre=/bin/false"}
	}), decision.NeedsAttention, decision.RecoveryBroken},
	{"with an updater", "a unit of its own is gone", func(t *testing.T, h *wellHost) {
		must(t, os.Remove(filepath.Join(h.Machine.Host.Paths.UnitDir, "teleport-update.service")))
	}, decision.NeedsAttention, decision.UpdaterBroken},
	{"with an updater", "the timer is stopped", ownUnit("teleport-update.timer", func(u *systemd.Unit) {
		u.ActiveState = "inactive"
	}), decision.NeedsAttention, decision.TimerStopped},
	{"with an updater", "the timer failed", ownUnit("teleport-update.timer", func(u *systemd.Unit) {
		u.ActiveState, u.Result = "failed", "resources"
	}), decision.NeedsAttention, decision.TimerStopped},
	{"with an updater", "the recovery is masked", ownUnit("teleport-update-recover.service", func(u *systemd.Unit) {
		u.LoadState = "masked"
	}), decision.NeedsAttention, decision.RecoveryBroken},
	{"with an updater", "a drop-in keeps the recovery from its folders", ownUnit("teleport-update-recover.service", func(u *systemd.Unit) {
		u.Ties.View.Root = "RootDirectory=/srv"
	}), decision.NeedsAttention, decision.RecoveryBroken},
	{"with an updater", "the recovery has another command", ownUnit("teleport-update-recover.service", func(u *systemd.Unit) {
		u.Command = []string{"/bin/true"}
	}), decision.NeedsAttention, decision.RecoveryBroken},
	{"with an updater", "the recovery has a program around it that fails", ownUnit("teleport-update-recover.service", func(u *systemd.Unit) {
		u.LoadState, u.ExecStart, u.Command = "loaded", "/bin/false", []string{"/bin/false", "teleport-update", "recover", "--boot"}
	}), decision.NeedsAttention, decision.RecoveryBroken},
	{"with an updater", "the runs need a unit that is gone", ownUnit("teleport-update.service", func(u *systemd.Unit) {
		u.Ties.Needs = []systemd.Need{{Setting: "Requires", Unit: "masked.service"}}
	}), decision.NeedsAttention, decision.UpdaterBroken},
	{"with an updater", "the runs have another command", ownUnit("teleport-update.service", func(u *systemd.Unit) {
		u.Command = []string{"/bin/true"}
	}), decision.NeedsAttention, decision.UpdaterBroken},
	{"with an updater", "the timer starts another unit", ownUnit("teleport-update.timer", func(u *systemd.Unit) {
		u.Triggers = []string{"other.service"}
	}), decision.NeedsAttention, decision.TimerStopped},
	{"whose last run ended well", "what comes before it failed", func(_ *testing.T, h *wellHost) {
		h.ticks.Ended, h.ticks.Good = noon, noon
		h.own["teleport-update.service"] = func(u *systemd.Unit) {
			u.ActiveState, u.Result, u.Since = "failed", "exit-code", noon.Add(time.Second)
		}
	}, decision.Failing, decision.RunNotMade},
	{"whose last run ended well", "what comes after it failed", func(_ *testing.T, h *wellHost) {
		h.ticks.Ended, h.ticks.Good = noon, noon
		h.own["teleport-update.service"] = func(u *systemd.Unit) {
			u.ActiveState, u.Result, u.StartedAt, u.ExitedAt = "failed", "exit-code", noon, noon.Add(time.Millisecond)
			u.Exit = systemd.ExitStatus{Code: systemd.Exited}
		}
	}, decision.Failing, decision.RunNotMade},
	{"whose last run ended well", "the timer started one that did not begin", ownUnit("teleport-update.timer", func(u *systemd.Unit) {
		u.LastTrigger, u.Triggered, u.NextTrigger = noon.Add(-time.Hour), noon.Add(-time.Hour), noon.Add(time.Minute)
	}), decision.Failing, decision.NoRuns},
	{"whose last run ended well", "of those that the timer starts every ten minutes none begins", func(_ *testing.T, h *wellHost) {
		h.ticks.Ended, h.ticks.Good = noon.Add(-time.Hour), noon.Add(-time.Hour)
		h.own["teleport-update.timer"] = func(u *systemd.Unit) {
			u.LastTrigger, u.Triggered, u.NextTrigger = noon.Add(-2*time.Minute), noon.Add(-2*time.Minute), noon.Add(8*time.Minute)
		}
	}, decision.Failing, decision.NoRuns},
	{"whose last run ended well", "its unit stays active, so that the timer starts no more", neverEnds("active", "exited", time.Second),
		decision.Failing, decision.NoRuns},
	{"whose last run ended well", "it hangs", neverEnds("activating", "start", 3*time.Hour+16*time.Minute), decision.Failing, decision.NoRuns},
	{"whose last run ended well", "a command before it hangs", neverEnds("activating", "start-pre", 16*time.Minute),
		decision.Failing, decision.NoRuns},
	{"whose last run ended well", "a command after it hangs", neverEnds("deactivating", "stop-post", 16*time.Minute),
		decision.Failing, decision.NoRuns},
	{"whose last run ended well", "with an error", func(_ *testing.T, h *wellHost) {
		h.ticks.Ended, h.ticks.Error = noon, "input/output error"
	}, decision.Failing, decision.RunFailed},
	{"whose last run ended well", "and did nothing", func(_ *testing.T, h *wellHost) {
		h.ticks.Ended, h.ticks.Good = noon.Add(-10*time.Minute), noon.Add(-10*time.Minute)
		h.own["teleport-update.service"] = endedWell(noon.Add(-time.Minute))
	}, decision.Failing, decision.RunNotMade},
	{"whose last run ended well", "and did nothing, as each one of this boot", ownUnit("teleport-update.service",
		endedWell(noon.Add(-time.Minute))), decision.Failing, decision.RunNotMade},
	{"whose last run ended well", "by a signal", ownUnit("teleport-update.service", func(u *systemd.Unit) {
		u.ActiveState, u.Result, u.ExitedAt = "failed", "signal", noon
	}), decision.Failing, decision.RunNotMade},
	{"whose last run ended well", "by a signal, after runs of a clock nine hours ahead", func(_ *testing.T, h *wellHost) {
		h.ticks.Ended, h.ticks.Good = noon.Add(9*time.Hour), noon.Add(9*time.Hour)
		h.own["teleport-update.service"] = func(u *systemd.Unit) { u.ActiveState, u.Result, u.ExitedAt = "failed", "signal", noon }
	}, decision.Failing, decision.RunNotMade},
	{"whose last run ended well", "one did not begin, after runs of a clock nine hours ahead", func(_ *testing.T, h *wellHost) {
		h.ticks.Ended, h.ticks.Good = noon.Add(9*time.Hour), noon.Add(9*time.Hour)
		h.own["teleport-update.timer"] = func(u *systemd.Unit) {
			u.LastTrigger, u.Triggered, u.NextTrigger = noon.Add(-time.Hour), noon.Add(-time.Hour), noon.Add(time.Minute)
		}
	}, decision.Failing, decision.NoRuns},
	{"whose last run ended well", "it never began", ownUnit("teleport-update.timer", func(u *systemd.Unit) {
		u.LastTrigger, u.NextTrigger = noon.Add(-5*time.Hour), noon.Add(-3*time.Hour)
	}), decision.Failing, decision.NoRuns},
}

// Whatever keeps runs from their work, no condition beside it promises that a run switches to the version that is wanted.
func TestNoRunIsPromisedWhereRunsDoNotWork(t *testing.T) {
	tried := 0
	for _, tc := range idleMeans {
		if !slices.Contains([]decision.Type{decision.TimerStopped, decision.RunNotMade, decision.NoRuns}, tc.by) {
			continue
		}
		tried++
		t.Run(tc.word+", "+tc.how, func(t *testing.T) {
			h := newWellHost(t)
			h.answer.Release.Version = "1.2.0"
			tc.breaks(t, h)
			h.state(t)
			r, err := h.Status(t.Context(), StatusOptions{})
			must(t, err)
			waits := slices.IndexFunc(r.Conditions, func(c decision.Condition) bool { return c.Type == decision.UpdateWaits })
			if waits < 0 || strings.Contains(r.Conditions[waits].Message, "a run of the timer switches to it") {
				t.Errorf("status says %+v", r.Conditions)
			}
		})
	}
	if tried < 15 {
		t.Errorf("only %d faults of runs were tried", tried)
	}
}

func ownUnit(name string, change func(*systemd.Unit)) func(*testing.T, *wellHost) {
	return func(_ *testing.T, h *wellHost) { h.own[name] = change }
}

// endedWell is a run of the timer that took a second.
func endedWell(at time.Time) func(*systemd.Unit) {
	return func(u *systemd.Unit) {
		u.ActiveState, u.SubState, u.Result, u.Exit = "inactive", "dead", "success", systemd.ExitStatus{Code: systemd.Exited}
		u.StartedAt, u.ExitedAt = at.Add(-time.Second), at
	}
}

// A run that leaves its trace did something, whatever the clocks say, and a run that is just over may leave it yet. Who does not know
// the boot, or writes nothing into /run, knows of no trace.
func TestARunThatMayHaveDoneSomethingIsNoFault(t *testing.T) {
	run := func(at time.Time) func(*wellHost) {
		return func(h *wellHost) { h.own["teleport-update.service"] = endedWell(at) }
	}
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	for how, change := range map[string]func(*wellHost){
		"it looked for an update":         func(h *wellHost) { h.ticks.Ended = ago(time.Minute); run(ago(time.Minute))(h) },
		"its trace is in whole seconds":   func(h *wellHost) { h.ticks.Ended = ago(time.Minute); run(ago(time.Minute - 1900*time.Millisecond))(h) },
		"another updater was at work":     func(h *wellHost) { h.ticks.Over = ago(time.Minute); run(ago(time.Minute))(h) },
		"it counts as a person's command": func(h *wellHost) { h.ticks.Good = ago(time.Minute); run(ago(time.Minute))(h) },
		"it is just over":                 run(ago(time.Second)),
		"its clock was set back": func(h *wellHost) {
			// The run ended by a clock an hour ahead. Then the host slept, so that systemd cannot tell that the clock was set.
			h.ticks.Booted, h.ticks.Ended = ago(0), ago(2*time.Minute)
			h.Up = func() time.Duration { return time.Hour }
			run(ago(2 * time.Minute))(h)
		},
		"its clock was set while it ran": func(h *wellHost) {
			h.own["teleport-update.service"] = func(u *systemd.Unit) { endedWell(ago(time.Hour))(u); u.StartedAt = ago(time.Minute) }
			h.ticks.Ended = ago(time.Hour)
		},
		"its trace lies ahead, and nobody knows when the host booted": func(h *wellHost) {
			h.Up, h.ticks.Ended = nil, noon.Add(time.Hour)
			run(ago(time.Minute))(h)
		},
		"a drop-in has a check after it": func(h *wellHost) {
			h.ticks.Ended = ago(10 * time.Minute)
			h.own["teleport-update.service"] = func(u *systemd.Unit) {
				endedWell(ago(time.Minute))(u)
				u.Command, u.Later = []string{"teleport-update", "update"}, [][]string{{"sleep", "500"}, {"check"}}
			}
			h.own["teleport-update.timer"] = func(u *systemd.Unit) {
				u.LastTrigger, u.Triggered = ago(10*time.Minute+time.Second), ago(10*time.Minute+time.Second)
			}
		},
		"a boot that is not known": func(h *wellHost) { h.Machine.BootID = func() string { return "" }; run(ago(time.Minute))(h) },
		"a host without traces":    func(h *wellHost) { h.Machine.Host.Paths.RunDir = ""; run(ago(time.Minute))(h) },
	} {
		h := newWellHost(t)
		change(h)
		if is, types := h.state(t); slices.Contains(types, decision.RunNotMade) {
			t.Errorf("%s: the host is %s, by %v", how, is, types)
		}
	}
}

// neverEnds is a run of the timer that began long ago; the timer waits for its end.
func neverEnds(active, sub string, inState time.Duration) func(*testing.T, *wellHost) {
	return func(_ *testing.T, h *wellHost) {
		h.own["teleport-update.service"] = func(u *systemd.Unit) {
			u.ActiveState, u.SubState, u.Result, u.StartTimeout, u.InState = active, sub, "success", systemd.Forever, inState
			u.StartedAt = noon.Add(-inState)
		}
		h.own["teleport-update.timer"] = func(u *systemd.Unit) {
			u.SubState, u.LastTrigger, u.Triggered, u.NextTrigger = "running", noon.Add(-inState), noon.Add(-inState), time.Time{}
		}
	}
}

// Restarts of another month are no loop: the runs of the timer count those that are, and without them an agent that runs for
// long is none.
func TestAnAgentThatWasRestartedOnceIsNoFault(t *testing.T) {
	for how, change := range map[string]func(*wellHost){
		"the timer counts": func(h *wellHost) { h.unit.NRestarts, h.unit.Since = 5, noon.Add(-20*time.Second) },
		"updates are off, twice": func(h *wellHost) {
			h.unit.NRestarts, h.unit.Since, h.config.Spec.Enabled = 2, noon.Add(-20*time.Second), false
		},
		"updates are off, a year": func(h *wellHost) { h.unit.NRestarts, h.config.Spec.Enabled = 5, false },
		"the timer counts, until a boot": func(h *wellHost) {
			h.unit.NRestarts, h.unit.Since = 5, noon.Add(-20*time.Second)
			h.own["teleport-update.timer"] = func(u *systemd.Unit) { u.UnitFileState = "disabled" }
		},
	} {
		h := newWellHost(t)
		change(h)
		if is, types := h.state(t); slices.Contains(types, decision.AgentDown) {
			t.Errorf("%s: the host is %s, by %v", how, is, types)
		}
	}
}

// A run of the timer that takes its time is none that hangs.
func TestARunThatTakesItsTimeIsNoFault(t *testing.T) {
	for how, run := range map[string]func(*testing.T, *wellHost){
		"its release comes slowly": neverEnds("activating", "start", 3*time.Hour),
		"a command before it":      neverEnds("activating", "start-pre", 14*time.Minute),
		"its stop":                 neverEnds("deactivating", "stop-sigterm", 5*time.Minute),
		"a person gave it more time": func(t *testing.T, h *wellHost) {
			neverEnds("activating", "start", 5*time.Hour)(t, h)
			longer := h.own["teleport-update.service"]
			h.own["teleport-update.service"] = func(u *systemd.Unit) { longer(u); u.StartTimeout = 6 * time.Hour }
		},
	} {
		h := newWellHost(t)
		run(t, h)
		if is, types := h.state(t); is != decision.Idle || len(types) != 0 {
			t.Errorf("%s: the host is %s, by %v", how, is, types)
		}
	}
}

func TestIdlePromisesEachWord(t *testing.T) {
	if is, types := newWellHost(t).state(t); is != decision.Idle || len(types) != 0 {
		t.Fatalf("a host that is well is %s: %v", is, types)
	}
	for _, tc := range idleMeans {
		h := newWellHost(t)
		tc.breaks(t, h)
		if is, types := h.state(t); is != tc.state || !slices.Contains(types, tc.by) {
			t.Errorf("%s (%s): the host is %s, by %v; want %s, by %s", tc.word, tc.how, is, types, tc.state, tc.by)
		}
	}
}

// No command changes anything in a folder of another user's, and none replaces a folder with a link or a unit: a person has to help.
func TestWhatNoCommandPutsRightIsAFaultWithWhatHelps(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives a folder to others")
	}
	folder := func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) }
	paths := newWellHost(t).Machine.Host.Paths
	for _, tc := range []struct {
		path   string
		breaks func(path string) error
		by     decision.Type
		says   string
	}{
		{paths.Versions(), func(path string) error { return os.Lchown(path, 12345, 12345) }, decision.RecordsBroken,
			"belongs to another user: check its content, then make it writable by root only"},
		{filepath.Join(paths.LinkDir, "tsh"), folder, decision.LinksBroken, "is a folder, and a link must go there: move it away, then `teleport-update update` puts back what belongs there"},
		{paths.Unit(), folder, decision.LinksBroken, "is neither a file nor a link, and the agent's unit must go there: move it away, then `teleport-update update` puts back what belongs there"},
	} {
		h := newWellHost(t)
		inside, err := filepath.Rel(filepath.Dir(paths.DataDir), tc.path)
		must(t, err)
		h.state(t)
		must(t, tc.breaks(filepath.Join(filepath.Dir(h.Machine.Host.Paths.DataDir), inside)))
		r, err := h.Status(t.Context(), StatusOptions{})
		must(t, err)
		if len(r.Conditions) == 0 || r.Conditions[0].Type != tc.by || !strings.HasSuffix(r.Conditions[0].Message, tc.says) {
			t.Errorf("%s: %+v; want %s: …%s", inside, r.Conditions, tc.by, tc.says)
		}
	}
}

// The process that runs goes on from the file that it was started from.
func TestARestartIsNotAdvisedIntoAProgramThatWasEmptied(t *testing.T) {
	h := newWellHost(t)
	h.config.Spec.Enabled = false
	h.unit.Command, h.unit.User = []string{"teleport", "start", "--fips"}, fmt.Sprint(os.Getuid())
	proc := filepath.Join(h.Processes.Proc, "4711")
	writeFile(t, filepath.Join(proc, "cmdline"), "teleport\x00start\x00")
	writeFile(t, filepath.Join(proc, "environ"), "")
	must(t, os.Truncate(filepath.Join(h.Machine.Host.Paths.Versions(), "1.1.0", "bin", "teleport"), 0))
	h.state(t)
	r, err := h.Status(t.Context(), StatusOptions{})
	must(t, err)
	says := map[decision.Type]string{}
	for _, c := range r.Conditions {
		says[c.Type] = c.Message
	}
	for condition, want := range map[decision.Type]string{
		decision.VersionBroken:  "bin/teleport: is empty: updates are disabled; `teleport-update enable` turns them on and fetches it again",
		decision.RestartPending: "do not restart it before this is put right: version folder",
	} {
		if !strings.Contains(says[condition], want) {
			t.Errorf("%s: %q; want %q", condition, says[condition], want)
		}
	}
}

// What a person has set takes the place of idle and of what waits, and of no fault.
func TestASettingHidesNoFault(t *testing.T) {
	settings := map[string]func(*wellHost){
		"disabled": func(h *wellHost) { h.config.Spec.Enabled = false },
		"pinned":   func(h *wellHost) { h.config.Spec.Pinned = true },
		"held": func(h *wellHost) {
			h.config.Status.Held = &state.Held{Version: "1.2.0", Edition: version.Enterprise, Since: noon}
		},
	}
	// A host that does not follow the cluster has no run that could fail.
	follows := []decision.Type{decision.UpdaterBroken, decision.TimerStopped, decision.NoRuns, decision.RunNotMade, decision.RunFailed}
	for name, set := range settings {
		for _, tc := range idleMeans {
			if tc.state == decision.Waiting || name == "disabled" && slices.Contains(follows, tc.by) {
				continue
			}
			if tc.by == decision.RunFailed {
				continue // it comes after settings: the run of a host that is held has nothing to do
			}
			h := newWellHost(t)
			set(h)
			tc.breaks(t, h)
			if is, types := h.state(t); is != tc.state {
				t.Errorf("%s, %s (%s): the host is %s, by %v; want %s", name, tc.word, tc.how, is, types, tc.state)
			}
		}
	}
}

// A timer that a person disabled or masked is a setting with a line of its own, and no other. A command that
// repairs the updater's units leaves it so.
func TestATimerThatIsOffIsASetting(t *testing.T) {
	for how, change := range map[string]func(*systemd.Unit){
		"masked":               func(u *systemd.Unit) { u.LoadState, u.ActiveState = "masked", "inactive" },
		"disabled and stopped": func(u *systemd.Unit) { u.UnitFileState, u.ActiveState = "disabled", "inactive" },
		"disabled":             func(u *systemd.Unit) { u.UnitFileState = "disabled" },
	} {
		h := newWellHost(t)
		h.own["teleport-update.timer"] = change
		link := filepath.Join(h.Machine.Host.Paths.UnitDir, "timers.target.wants/teleport-update.timer")
		if how != "masked" {
			must(t, os.Remove(link))
		}
		if is, types := h.state(t); is != decision.Idle || !slices.Equal(types, []decision.Type{decision.TimerOff}) {
			t.Errorf("%s: the host is %s, by %v", how, is, types)
		}
		before := host.Exists(link)
		must(t, h.repairUnits(t.Context(), versions.Tree{Release: h.config.Active()}))
		if host.Exists(link) != before {
			t.Errorf("%s: a repair has changed that", how)
		}
	}
}

// An agent that runs and that the next boot does not start is told of, also one that is enabled until then.
func TestAnAgentThatTheNextBootDoesNotStartIsNamed(t *testing.T) {
	for unitFile, want := range map[string]bool{
		"enabled": false, "static": true, "disabled": true, "enabled-runtime": true, "linked": true, "linked-runtime": true,
		"indirect": true, "generated": true, "static, wanted by multi-user.target": false, "generated, wanted by multi-user.target": false,
	} {
		h := newWellHost(t)
		var by string
		h.unit.UnitFileState, by, _ = strings.Cut(unitFile, ", wanted by ")
		h.unit.Ties.WantedBy = strings.Fields(by)
		if is, types := h.state(t); is != decision.Idle || slices.Contains(types, decision.AgentNotEnabled) != want {
			t.Errorf("%s: the host is %s, by %v; want %s: %v", unitFile, is, types, decision.AgentNotEnabled, want)
		}
	}
}

// Runs of the timer do without what takes long, and their metrics have no sample of that: 0 is what was looked at and is
// not so. The same holds of what could not be looked at.
func TestMetricsHaveNoSampleOfWhatWasNotLookedAt(t *testing.T) {
	const programs, recovery, loaded = "programs_closed", "recovery_broken", "unit_overruled"
	for name, tc := range map[string]struct {
		deep    bool
		breaks  func(h *wellHost)
		has     map[string]int // samples
		without []string
	}{
		"a person asks":      {deep: true, has: map[string]int{programs: 0, recovery: 0, loaded: 0, "runs_fail": 0}},
		"a run of the timer": {has: map[string]int{"runs_fail": 0, "agent_down": 0}, without: []string{programs, recovery, loaded, "companions_old", "units_late"}},
		"a run of the timer finds it": {breaks: func(h *wellHost) {
			h.own["teleport-update-recover.service"] = func(u *systemd.Unit) { u.LoadState = "masked" }
		}, has: map[string]int{recovery: 1}, without: []string{programs, loaded}},
		"updates are off": {deep: true, breaks: func(h *wellHost) { h.config.Spec.Enabled = false },
			has: map[string]int{"runs_fail": 0, "updates_disabled": 1}},
	} {
		h := newWellHost(t)
		if tc.breaks != nil {
			tc.breaks(h)
		}
		h.state(t)
		s := h.survey()
		r, err := h.report(t.Context(), s, StatusOptions{Offline: true}, tc.deep)
		s.Close()
		must(t, err)
		var text strings.Builder
		must(t, r.OpenMetrics(&text))
		for condition, want := range tc.has {
			if line := fmt.Sprintf("teleport_update_condition{type=%q} %d\n", condition, want); !strings.Contains(text.String(), line) {
				t.Errorf("%s: want %s in\n%s", name, line, text.String())
			}
		}
		for _, condition := range tc.without {
			if strings.Contains(text.String(), fmt.Sprintf("{type=%q}", condition)) {
				t.Errorf("%s: there is a sample of %s", name, condition)
			}
		}
	}
}

// An agent that fails may do so for a file that is closed to its user: status and verify name it beside the crashes.
func TestStatusNamesAFileThatIsClosedToAnAgentThatFails(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root asks for another user")
	}
	h := newWellHost(t)
	must(t, os.Chmod(h.Machine.Host.Paths.LinkDir, 0o700))
	h.unit.User, h.unit.ActiveState, h.unit.SubState, h.executes = "nobody", "activating", "auto-restart", ""
	if is, why := h.state(t); is != decision.NeedsAttention || !slices.Contains(why, decision.UnitOverruled) {
		t.Errorf("it is %s, for %q", is, why)
	}
}

// A unit that the next boot takes in the place of the agent's is named, with what is there now.
func TestAUnitThatTheNextBootTakesIsNamed(t *testing.T) {
	for name, tc := range map[string]struct{ text, says string }{
		"a unit": {"[Service]\nExecStart=/usr/bin/teleport start\n", "from the next boot on, systemd takes %s instead of %s"},
		"a mask": {"", "from the next boot on, teleport.service is masked by %s, and not started"},
	} {
		h := newWellHost(t)
		above := filepath.Join(h.Machine.Host.Paths.UnitDir+".control", "teleport.service")
		writeFile(t, above, tc.text)
		h.state(t)
		says := tc.says
		for _, path := range []string{above, h.Machine.Host.Paths.Unit()} {
			says = strings.Replace(says, "%s", path, 1)
		}
		for _, deep := range []bool{true, false} { // a run of the timer looks at less
			now := h.survey()
			r, err := h.report(t.Context(), now, StatusOptions{Offline: true}, deep)
			now.Close()
			must(t, err)
			if !slices.ContainsFunc(r.Conditions, func(c decision.Condition) bool { return strings.HasPrefix(c.Message, says) }) {
				t.Errorf("%s, deep %v: it is %+v, and not %q", name, deep, r.Conditions, says)
			}
		}
	}
}
