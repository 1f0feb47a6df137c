package transaction

import "teleport-update/installer/state"

// FreshConfig reads updates.yaml again. A survey of the run is older than that: the file may have been written
// since, by the updater that held the update lock before this one, or by a transaction of this run. So whoever
// has just taken the lock has the configuration from here, and so has whoever goes on after a transaction in the same
// lock. All others have it from the survey of the run or from their caller.
//
// A person may edit the file at any time. What a transaction needs of it is in its journal.
func (m *Machine) FreshConfig() (state.Config, error) { return m.Host.Paths.LoadConfig() }
