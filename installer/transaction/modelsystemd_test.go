package transaction

import "errors"

// The systemd of the model: the agent's unit, its jobs and its processes, by itself. What the
// updater asks of it is in modelcalls_test.go.
//
// What systemd was seen to do, on Debian 12 with systemd 252, and where the model has it:
//
//	it exits at once; the job is done       launch, failed; TestATransactionEndsWithAnAgentOnADatabaseOfItsOwn
//	it exits with 0, and stays down         not here: a failure like each other to the judge (health)
//	of type notify, it dies before it is    not here: the job fails, and so does the watch (health)
//	  ready
//	what the unit starts is not there       spawn finds no version, and the start is one that failed
//	a crash loop to the start limit         crashes, crashLoop; TestAVersionThatCrashedToTheStartLimitIsUndone,
//	                                        TestTheRecoveryBeforeTheAgentHasSystemdForgetItsCrashes
//	a reload, and the PID file names the    reloadUnit, draining; TestAnUpdateLeavesTheProcessBeforeToItsSessions,
//	  next process                          TestAnUndoingStopsWhatDrains
//	a reload, and the next process crashed  reloadUnit; TestAReloadOfTheModelThatBringsNothing,
//	                                        TestAnOldProcessThatServesOn
//	a reload of a stopped unit              reloadUnit; TestAReloadOfTheModelThatBringsNothing
//	a stop of what ignores it               cutShort tells of the process that a stop killed, which is the
//	                                        same to the machine; of the timeout: TestStateOf
//	a stop of a process of the PID file     foreign, cutShort; TestAnAgentThatWasReloadedIsGivenItsTimeToEnd
//	a daemon-reload with such a one dead    awaited, readUnits; TestAVersionThatFailedIsStoppedAtOnce,
//	                                        TestAVersionThatDiedAfterAReloadIsStoppedBeforeSystemdReadsItsFiles
//	a stop while the agent drains           ending; TestAStopThatGoesOnIsNobodysToTakeBack
//	the updater is killed after it asked    cut, with after; "the updater is killed after it" of outcomes
//	  for a restart: systemd ends it
//	an enablement that pins the link's      not here: the unit is a file (installer/host); enabled is only
//	  target, or is lost by a power cut     whether a boot starts the agent
//	a unit on a mount that comes late       unit is empty at the boot; started, in Look's InvocationID
//	none runs, or none answers              booted, reachable; TestAnImageBuildThatIsCutOff,
//	                                        TestASystemdThatDoesNotAnswer

// startLimit is how many starts in a row may fail: then systemd starts the unit no more, for
// nobody, until it is told to forget that it failed.
const startLimit = 5

var errStartLimit = errors.New("start-limit-hit")

func (m *model) atStartLimit() bool { return m.crashes >= startLimit }

// launch starts a process by the links.
func (m *model) launch() {
	m.invocation++
	m.failed, m.started, m.cutShort, m.awaited = false, true, false, false
	p := m.spawn()
	if p == nil {
		m.failed = true
		m.crashes++
		return
	}
	m.runsNow(p)
}

// crashLoop is systemd, which starts what crashed again, until it runs or is given up.
func (m *model) crashLoop() {
	for m.failed && !m.atStartLimit() {
		m.launch()
	}
}

// stopsNoMore is any other job of the agent, which takes the place of a stop that goes on.
func (m *model) stopsNoMore() {
	if m.ending && m.main != nil {
		m.wrong = append(m.wrong, "a job of the updater's took the place of somebody's stop, which went on")
	}
	m.ending = false
}

// startUnit is a start job, whoever asks for it. An agent that dies at once was started.
func (m *model) startUnit() error {
	m.stopsNoMore()
	switch {
	case m.main != nil:
		return nil
	case m.unit == "":
		return errors.New("Unit teleport.service not found.")
	case m.masked:
		return errors.New("Unit teleport.service is masked.")
	case m.ordered:
		return nil // it waits
	case m.atStartLimit():
		m.failed = true
		return errStartLimit
	}
	m.launch()
	return nil
}

// restartUnit is a restart job.
func (m *model) restartUnit() error {
	m.stopsNoMore()
	m.ends()
	m.awaited = false
	return m.startUnit()
}

// stopUnit is a stop job. A unit that was given up stays failed, and so does one whose main
// process is killed at once, as each is that systemd takes for no child of its own.
func (m *model) stopUnit() {
	if m.unit == "" && m.main == nil {
		m.wrong = append(m.wrong, "a unit was to be stopped that systemd does not know")
	}
	m.cutShort = m.cutShort || m.main != nil && m.main.foreign
	m.ends()
	for _, unit := range m.ties.Dependents {
		m.others[unit] = false
	}
	m.awaited, m.ending = false, false
	m.failed = m.failed && m.atStartLimit()
}

// reloadUnit is a reload job: the agent starts its next process by the links, which takes over
// by the PID file and leaves the one before to drain its sessions. One that dies before that
// leaves all as it was, and the job is done all the same.
func (m *model) reloadUnit() error {
	if m.main == nil {
		return errors.New("Job type reload is not applicable for unit teleport.service.")
	}
	m.stopsNoMore()
	next := m.spawn()
	if next == nil {
		return nil
	}
	next.parent, next.learned, next.foreign = m.main.pid, true, true
	m.draining = append(m.draining, m.main)
	m.runsNow(next)
	return nil
}

// drained is the end of the last session of the processes that were relieved: their child has
// the host's first process for its parent.
func (m *model) drained() {
	if len(m.draining) > 0 {
		m.draining, m.main.parent = nil, 1
	}
}

// dies is the end of the main process before systemd does anything about it.
func (m *model) dies() {
	if m.main != nil {
		m.awaited = m.main.learned
		m.ends()
		m.failed = true
	}
}

// readUnits is a daemon-reload: systemd looks again whose child the main process is, and where
// that is dead, and was learned of from the PID file, it waits for it in vain, with no agent. A
// version that is no good may die while systemd reads.
func (m *model) readUnits() {
	m.read()
	if m.main != nil && m.main.parent == 1 {
		m.main.foreign = false
	}
	mayDie := m.main != nil && m.main.learned && m.main.version == m.to.Version && m.versions[m.main.version].fate == neverReady
	if m.awaited || mayDie {
		m.wrong = append(m.wrong, "systemd was made to read its files while the main process was dead: it waits for it, and there is no agent")
	}
}

// resetFailed has systemd forget the crashes; a start that it waits to make it makes still.
func (m *model) resetFailed() {
	m.failed = m.failed && !m.atStartLimit()
	m.crashes, m.cutShort = 0, false
}
