package transaction

import "errors"

// The systemd of the model: the agent's unit, its jobs and its processes, by itself. What the
// updater asks of it is in modelcalls_test.go.

// startLimit is how many starts in a row may fail: then systemd starts the unit no more, for
// nobody, until it is told to forget that it failed.
const startLimit = 5

var errStartLimit = errors.New("start-limit-hit")

func (m *model) atStartLimit() bool { return m.crashes >= startLimit }

// launch starts a process by the links.
func (m *model) launch() {
	m.invocation++
	m.failed, m.started = false, true
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

// startUnit is a start job, whoever asks for it. An agent that dies at once was started.
func (m *model) startUnit() error {
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
	m.ends()
	return m.startUnit()
}

// stopUnit is a stop job. A unit that was given up stays failed.
func (m *model) stopUnit() {
	m.ends()
	m.failed = m.failed && m.atStartLimit()
}

// resetFailed has systemd forget the crashes; a start that it waits to make it makes still.
func (m *model) resetFailed() {
	m.failed = m.failed && !m.atStartLimit()
	m.crashes = 0
}
