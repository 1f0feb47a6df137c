package health

import (
	"testing"

	"teleport-update/systemd"
)

func oldUp(s *scene) {
	s.up("a", 10, oldExe)
	s.pidFile = 10
}

// handOver is what a sound agent does on SIGHUP.
func handOver(s *scene) {
	s.spawn(20, 10, newExe)
	s.pidFile = 20
}

func TestAfterAReload(t *testing.T) {
	for _, w := range []judgement{
		{name: "a new process that takes over holds, and the old one may stay",
			steps: []step{after(0, oldUp), after(1, handOver)}, kind: held, at: 31},
		{name: "a session that its user stops says nothing of the agent",
			steps: []step{after(0, oldUp), after(1, handOver), after(2, func(s *scene) { s.spawn(30, 20, newExe); s.group[len(s.group)-1].halted = true })},
			kind:  held, at: 31},
		{name: "the old one may go, too",
			steps: []step{after(0, oldUp), after(1, handOver), after(2, func(s *scene) { s.die(10) }), after(2.2, func(s *scene) { s.lead(20) })},
			kind:  held, at: 31},
		{name: "the window begins when the new process is first seen, not when it takes over",
			steps: []step{after(0, oldUp), after(1, func(s *scene) { s.spawn(20, 10, newExe) }), after(8, func(s *scene) { s.pidFile = 20 })},
			kind:  held, at: 31},
		{name: "without a PID file any process of the new version counts",
			steps: []step{after(0, oldUp), after(0, func(s *scene) { s.pidFile = 0 }), after(1, func(s *scene) { s.spawn(20, 10, newExe) })},
			kind:  held, at: 31},
		{name: "a stale PID file is no PID file",
			steps: []step{after(0, oldUp), after(0, func(s *scene) { s.pidFile = 999 }), after(1, func(s *scene) { s.spawn(20, 10, newExe) })},
			kind:  held, at: 31},
		{name: "a main process that becomes the new version in place holds",
			steps: []step{after(0, oldUp), after(1, func(s *scene) { s.die(10); s.spawn(10, 1, newExe) })}, kind: held, at: 31},
		{name: "also without a PID file",
			steps: []step{after(0, oldUp), after(1, func(s *scene) { s.pidFile = 0; s.die(10); s.spawn(10, 1, newExe) })}, kind: held, at: 31},
		{name: "a process that systemd names holds without a PID file",
			steps: []step{after(0, oldUp), after(1, func(s *scene) { s.pidFile = 0; s.spawn(20, 10, newExe); s.lead(20) })}, kind: held, at: 31},

		{name: "a new process that dies leaves the old one serving",
			steps: []step{after(0, oldUp), after(1, func(s *scene) { s.spawn(20, 10, newExe) }), after(1.5, func(s *scene) { s.die(20) })},
			kind:  unhealthy, at: 3.6, old: true, reason: "died"},
		{name: "one that was sighted only between two looks died, too",
			steps: []step{after(0, oldUp), after(1, func(s *scene) { s.sighted = []process{{identity: identity{20, 20}, inside: true}} })},
			kind:  unhealthy, at: 3.1, old: true, reason: "died"},
		{name: "one that dies after it took over does not: the old one may be leaving",
			steps: []step{after(0, oldUp), after(1, handOver), after(10, func(s *scene) { s.die(20) })},
			kind:  unhealthy, at: 10.1, reason: "after it had taken over"},
		{name: "nor does one whose PID file is gone with it",
			steps: []step{after(0, oldUp), after(1, handOver), after(10, func(s *scene) { s.die(20); s.pidFile = 0 })},
			kind:  unhealthy, at: 10.1, reason: "after it had taken over"},
		{name: "one that goes over to another program is gone",
			steps: []step{after(0, oldUp), after(1, handOver), after(10, func(s *scene) { s.die(20); s.spawn(20, 10, oldExe) })},
			kind:  unhealthy, at: 10.1},
		{name: "one whose PID another process has by now is gone",
			steps: []step{after(0, oldUp), after(1, func(s *scene) { s.spawn(20, 10, newExe) }),
				after(2, func(s *scene) { s.die(20); s.spawn(20, 1, newExe); s.group[len(s.group)-1].start = 99 })},
			kind: unhealthy, at: 4.1, old: true},
		{name: "another child of the old process does not replace one that took over",
			steps: []step{after(0, oldUp), after(1, handOver), after(2, func(s *scene) { s.spawn(30, 10, newExe) }), after(5, func(s *scene) { s.die(20) })},
			kind:  unhealthy, at: 5.1},
		{name: "one that took over and died between two looks at the PID file",
			steps: []step{after(0, oldUp), after(1, func(s *scene) { s.spawn(20, 10, newExe) }), after(1.5, func(s *scene) { s.pidFile = 20; s.die(20) })},
			kind:  unhealthy, at: 1.6},
		{name: "one that dies with the old one gone takes the unit with it",
			steps: []step{after(0, oldUp), after(1, handOver), after(2, func(s *scene) { s.die(10); s.lead(20) }),
				after(10, func(s *scene) { s.die(20) }), after(10.3, func(s *scene) { s.down("activating", "auto-restart", "exit-code", systemd.Exited, 2) })},
			kind: unhealthy, at: 10.3, reason: "exited with status 2"},
		{name: "a stepping stone is not the agent",
			steps: []step{after(0, oldUp), after(1, func(s *scene) { s.spawn(20, 10, newExe) }),
				after(2, func(s *scene) { s.spawn(21, 20, newExe); s.pidFile = 21; s.die(20) })},
			kind: held, at: 32},
		{name: "each of several stepping stones has its time",
			steps: []step{after(0, oldUp), after(1, func(s *scene) { s.spawn(20, 10, newExe) }), after(2, func(s *scene) { s.die(20) }),
				after(3.5, func(s *scene) { s.spawn(21, 10, newExe) }), after(3.8, func(s *scene) { s.die(21) }),
				after(5, func(s *scene) { s.spawn(22, 10, newExe); s.pidFile = 22 })},
			kind: held, at: 35},
		{name: "a session of the new agent that ends is no death",
			steps: []step{after(0, oldUp), after(1, handOver), after(2, func(s *scene) { s.spawn(30, 20, newExe) }), after(5, func(s *scene) { s.die(30) })},
			kind:  held, at: 31},
		{name: "a session that outlives the new agent is not the agent",
			steps: []step{after(0, oldUp), after(1, handOver), after(2, func(s *scene) { s.spawn(30, 20, newExe) }), after(5, func(s *scene) { s.die(20) })},
			kind:  unhealthy, at: 5.1},
		{name: "a command of the reload is not the agent",
			steps: []step{after(0, oldUp), after(0, func(s *scene) { s.reload = reloadPending; s.spawn(15, 1, newExe) }),
				after(1, func(s *scene) { s.die(15); s.reload = reloadDone }), after(2, handOver)},
			kind: held, at: 32},

		{name: "if only the old version serves, a restart is needed at the limit",
			steps: []step{after(0, oldUp)}, kind: needsRestart, at: 15, reason: "no process of the new version"},
		{name: "the limit runs from the end of the reload job",
			steps: []step{after(0, oldUp), after(0, func(s *scene) { s.reload = reloadPending }), after(40, func(s *scene) { s.reload = reloadDone })},
			kind:  needsRestart, at: 54.9},
		{name: "a reload that fails needs a restart at once",
			steps: []step{after(0, oldUp), after(0, func(s *scene) { s.reload = reloadPending }), after(1, func(s *scene) { s.reload = reloadFailed })},
			kind:  needsRestart, at: 1, reason: "could not be reloaded"},
		{name: "a new process of the old version needs a restart",
			steps: []step{after(0, oldUp), after(1, func(s *scene) { s.spawn(20, 10, oldExe); s.pidFile = 20; s.die(10); s.lead(20) })},
			kind:  needsRestart, at: 15},
		{name: "a new process that never takes over needs a restart",
			steps: []step{after(0, oldUp), after(1, func(s *scene) { s.spawn(20, 10, newExe) })},
			kind:  needsRestart, at: 15, reason: "did not take over"},
		{name: "a program of the new version that the agent did not start is none",
			steps: []step{after(0, oldUp), after(1, func(s *scene) { s.pidFile = 0; s.spawn(20, 1, newExe) })}, kind: needsRestart, at: 15},

		{name: "a unit that goes down is unhealthy",
			steps: []step{after(0, oldUp), after(1, handOver), after(9, func(s *scene) { s.down("inactive", "dead", "success", systemd.Exited, 0) })},
			kind:  unhealthy, at: 9},
		{name: "a crash before the new version was tried needs a restart although systemd has started it",
			steps: []step{after(0, oldUp), after(9, func(s *scene) { s.up("b", 30, newExe); s.unit.NRestarts = 1 })},
			kind:  needsRestart, at: 9, reason: "restarted by systemd"},
		{name: "an old version that dies on the reload says nothing about the new one",
			steps: []step{after(0, oldUp), after(2, func(s *scene) { s.down("failed", "failed", "signal", systemd.Killed, 1) })},
			kind:  needsRestart, at: 2, reason: "SIGHUP"},
		{name: "nor does one that dies while the new one is starting, and takes it along",
			steps: []step{after(0, oldUp), after(1, func(s *scene) { s.spawn(20, 10, newExe) }),
				after(2, func(s *scene) {
					s.down("activating", "auto-restart", "exit-code", systemd.Exited, 1)
					s.unit.ExitPID = 10
				})},
			kind: needsRestart, at: 2, reason: "exited with status 1"},
		{name: "also when systemd has started the unit again by the next look",
			steps: []step{after(0, oldUp), after(1, func(s *scene) { s.spawn(20, 10, newExe) }),
				after(2, func(s *scene) { s.up("b", 30, newExe); s.unit.NRestarts = 1 })},
			kind: needsRestart, at: 2, reason: "restarted by systemd"},
		{name: "but a new one that dies as the main process does, although nobody saw it take over",
			steps: []step{after(0, oldUp), after(1, func(s *scene) { s.spawn(20, 10, newExe) }),
				after(2, func(s *scene) {
					s.down("activating", "auto-restart", "exit-code", systemd.Exited, 1)
					s.unit.ExitPID = 20
				})},
			kind: unhealthy, at: 2},
		{name: "an old version that dies once it was relieved does not excuse the new one",
			steps: []step{after(0, oldUp), after(1, handOver),
				after(2, func(s *scene) {
					s.down("activating", "auto-restart", "exit-code", systemd.Exited, 1)
					s.unit.ExitPID = 10
				})},
			kind: unhealthy, at: 2},
		{name: "a stop by somebody else is no reason to restart",
			steps: []step{after(0, oldUp), after(2, func(s *scene) { s.down("inactive", "dead", "success", systemd.Exited, 0); s.otherJobs = 1 })},
			kind:  unhealthy, at: 2, stopped: true},
		{name: "restarts before the reload are not the new version's", baseline: 3,
			steps: []step{after(0, oldUp), after(1, handOver)}, kind: held, at: 31},
		{name: "restarts after it are", baseline: 3,
			steps: []step{after(0, oldUp), after(1, handOver), after(2, func(s *scene) { s.up("b", 30, newExe); s.unit.NRestarts = 4 })},
			kind:  unhealthy, at: 2},
		{name: "a restart by somebody else is judged as a restart", baseline: 3,
			steps: []step{after(0, oldUp), after(5, func(s *scene) { s.up("b", 30, newExe) })}, kind: held, at: 35},
		{name: "a crash after that is seen although the count is lower than before", baseline: 3,
			steps: []step{after(0, oldUp), after(5, func(s *scene) { s.up("b", 30, newExe); s.unit.NRestarts = 1 })}, kind: unhealthy, at: 5},
		{name: "another reload by somebody else begins the window anew",
			steps: []step{after(0, oldUp), after(1, handOver),
				after(10, func(s *scene) { s.die(10); s.lead(20) }),
				after(11, func(s *scene) { s.spawn(30, 20, newExe); s.pidFile = 30 })},
			kind: held, at: 41},
		{name: "a shutdown of the host says nothing",
			steps: []step{after(0, oldUp), after(1, handOver), after(3, func(s *scene) { s.die(20); s.stopping = true })},
			kind:  hostStopping, at: 3},
		{name: "not ready at the end is unhealthy", ready: "http://localhost/readyz",
			steps: []step{after(0, oldUp), after(1, handOver)}, kind: unhealthy, at: 36, reason: "not ready"},
	} {
		t.Run(w.name, func(t *testing.T) {
			w.check(t, func(before sample) *judge {
				before.unit.NRestarts = w.baseline
				return reloadJudge(rules{}, before)
			})
		})
	}
}
