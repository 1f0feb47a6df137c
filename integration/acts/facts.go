package acts

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// fact is one thing that is there, and what status may not say then.
type fact struct {
	name string
	// holds says what is there; empty: that it is not so, or could not be seen.
	holds func(r *trial, o observation) string
	// forbids are states in which the host is not.
	forbids []string
	// named are conditions of which one must be there in a state that is not grave.
	named []string
}

var (
	// well are states of a host with which nothing is wrong.
	well = []string{"idle", "pinned", "held", "disabled"}
	// harmless are states that nobody has to look after.
	harmless = []string{"idle", "pinned", "held", "disabled", "waiting", "backing_off"}
	// grave are states that have somebody look.
	grave = []string{"needs_attention", "failing", "unstable", "unknown", "updating"}
	// closed are all states of a host without an open transaction.
	closed = append([]string{"failing", "unstable"}, harmless...)
)

// keepFromStarting are acts under which an agent that runs would not start again, as can be seen. Settings of the agent's process are
// not among them: a canary finds them before a change, and status starts none.
var keepFromStarting = []string{
	"a condition does not hold", "a variable of systemd's is not there", "an assertion does not hold", "the programs are hidden",
	"the programs may not be executed", "a folder is no mount", "a unit that the agent requires is not there",
	"a unit that has to run does not", "a unit in etc that nobody has read", "a mask that nobody has read", "the agent's unit is wrong",
	"a condition does not hold that nobody has read", "a command before has gone", "the link folder is closed", "the programs are closed",
	"a folder above the data is closed", "teleport.yaml is closed", "the database is closed",
}

// facts are what an observer derives. A state that is not listed is allowed, so is unknown:
// who cannot look says so.
var facts = []fact{
	{"the agent does not run", func(_ *trial, o observation) string {
		return o.when(o.down(), "the agent's unit is "+o["agent.ActiveState"])
	}, []string{"idle"}, []string{"agent_down", "agent_not_started", "agent_starting", "agent_unstable"}},
	{"the agent should run and does not", func(_ *trial, o observation) string {
		should := o["agent.UnitFileState"] == "enabled" && o["agent.LoadState"] == "loaded"
		return o.when(o.down() && should, "the agent is enabled and its unit is "+o["agent.ActiveState"])
	}, harmless, nil},
	{"what the agent executes", func(r *trial, o observation) string {
		runs, linked := versionIn(o["program"]), versionIn(o["link.teleport"])
		known := !o.down() && runs != "" && linked != ""
		return o.when(known && runs != linked, fmt.Sprintf("the agent executes %s, and the link leads to %s", o["program"], o["link.teleport"]))
	}, harmless, nil},
	{"the program", func(_ *trial, o observation) string {
		is, dir := o["program.version"], versionIn(o["link.teleport"])
		return o.when(is != "" && dir != "" && is != dir, fmt.Sprintf("the program in the folder of version %s is version %s", dir, is))
	}, harmless, nil},
	{"the links", func(r *trial, o observation) string {
		for _, name := range []string{"teleport", "tsh", "tctl", "tbot"} {
			want := programs + "/" + o["active"] + "/bin/" + name
			if got := o["link."+name]; o["active"] != "" && got != want {
				return fmt.Sprintf("the link %s leads to %q, and version %s is active", name, got, o["active"])
			}
		}
		return o.when(o["unit"] == "differs", "the unit is not the one of the linked version")
	}, harmless, nil},
	{"what systemd has loaded", func(_ *trial, o observation) string {
		switch {
		case o["agent.LoadState"] == "masked":
			return ""
		case o["agent.LoadState"] != "" && o["agent.LoadState"] != "loaded":
			return "systemd has the agent's unit as " + o["agent.LoadState"]
		case o["agent.FragmentPath"] != "" && o["agent.FragmentPath"] != cmp.Or(o["unit_file"], unitFile):
			return "systemd has loaded the agent's unit from " + o["agent.FragmentPath"]
		}
		return o.when(o["agent.NeedDaemonReload"] == "yes", "systemd has an older text of the agent's unit")
	}, harmless, nil},
	{"the agent is masked", func(_ *trial, o observation) string {
		return o.when(o["agent.LoadState"] == "masked", "the agent's unit is masked")
	}, []string{"idle"}, nil},
	{"the agent at boot", func(_ *trial, o observation) string {
		return o.when(o["agent.UnitFileState"] == "disabled", "the agent is not enabled")
	}, nil, []string{"agent_not_enabled", "agent_not_started"}},
	{"the timer's last run", func(_ *trial, o observation) string {
		failed := o["run.Result"] != "" && o["run.Result"] != "success"
		return o.when(failed, "the last run of the timer's unit ended with "+o["run.Result"])
	}, append([]string{"waiting"}, well...), nil}, // backing_off says that the version failed, and so did the run that tried it
	{"the timer's last run did not end by itself", func(_ *trial, o observation) string {
		return o.when(o.cutOff(), "the last run of the timer's unit ended with "+o["run.Result"]+", "+o["run.ExecMainStatus"])
	}, harmless, nil},
	{"the timer", func(_ *trial, o observation) string {
		off := o["timer.LoadState"] != "" && o["timer.ActiveState"] != "active"
		return o.when(off, "the timer is "+o["timer.LoadState"]+", "+o["timer.ActiveState"]+" and "+o["timer.UnitFileState"])
	}, nil, []string{"timer_off", "timer_stopped", "updates_disabled"}},
	{"the run's unit", func(_ *trial, o observation) string {
		other := o["run.LoadState"] != "" && o["run.LoadState"] != "loaded"
		return o.when(other, "systemd has the unit of the timer's runs as "+o["run.LoadState"])
	}, []string{"idle", "pinned", "held"}, []string{"run_not_made", "updates_disabled"}},
	{"the recovery", func(_ *trial, o observation) string {
		if state := o["recovery.LoadState"]; state != "" && state != "loaded" {
			return "systemd has the recovery as " + state
		}
		if o["recovery.UnitFileState"] == "disabled" {
			return "the recovery is disabled"
		}
		return o.when(o["rescuer"] == "does not run", "the recovery's program does not run")
	}, harmless, nil},
	{"the journal", func(_ *trial, o observation) string {
		return o.when(o["journal"] != "", "a transaction is open")
	}, closed, nil},
	{"the schema", func(_ *trial, o observation) string {
		schema, err := strconv.Atoi(o["schema"])
		want, known := schemas[versionIn(o["link.teleport"])]
		// An agent that does not run has its database changed when it starts, and one that finds no table in it makes them at once,
		// unless it waits for another's lock.
		misfit := err == nil && known && (schema > want || schema < want && schema > 0 && !o.down())
		if o["database"] == "missing" && !o.down() {
			return "the database is not in its place"
		}
		return o.when(misfit, fmt.Sprintf("the database has schema %d, and %s is linked", schema, o["link.teleport"]))
	}, harmless, nil},
	{"dependents", func(_ *trial, o observation) string {
		for name, state := range o {
			if unit, ok := strings.CutPrefix(name, "dependent."); ok && state != "active" && !o.down() {
				return unit + ", which requires the agent, is " + state
			}
		}
		return ""
	}, []string{"idle"}, nil},
	{"the next start", func(r *trial, o observation) string {
		for _, part := range r.all() {
			if !r.isUndone && !o.down() && slices.Contains(keepFromStarting, part.plainName()) {
				return "the next start of the agent fails: " + part.plainName()
			}
		}
		return ""
	}, harmless, nil},
	{"the mount of the data", func(r *trial, o observation) string {
		return o.when(r.own && o["mounted"] == "", "the data are not mounted")
	}, well, nil},
}

// cutOff reports whether the last run of the timer was ended from outside, or its program never began: that says nothing
// about a version.
func (o observation) cutOff() bool {
	switch o["run.Result"] {
	case "", "success":
		return false
	case "exit-code":
		const systemds = 200 // exit statuses from there on are of systemd's own steps, as 203/EXEC
		status, err := strconv.Atoi(o["run.ExecMainStatus"])
		return err == nil && status >= systemds
	}
	return true
}

// down reports whether no agent runs, as far as systemd can be asked.
func (o observation) down() bool {
	return o["agent.ActiveState"] != "" && (o["agent.ActiveState"] != "active" || o["program"] == "")
}

func (o observation) when(so bool, what string) string {
	if so {
		return what
	}
	return ""
}

// versionIn is the version whose program a path names; empty if it is none.
func versionIn(path string) string {
	if found := programPath.FindStringSubmatch(path); found != nil {
		return found[1]
	}
	return ""
}
