package health

import (
	"fmt"
	"time"
)

// observeReload watches for the process that takes over, and then that process.
func (j *judge) observeReload(s sample) verdict {
	lead, takesOver := j.lead(s)
	if lead == nil && j.subject == (identity{}) && len(s.sighted) > 0 {
		j.subject = s.sighted[0].identity // it came and went
	}
	alive := member(s.group, j.subject.pid)
	if alive != nil && (alive.identity != j.subject || !alive.inside) {
		alive = nil
	}
	switch {
	case j.subject == (identity{}) && lead == nil:
		if s.reload == reloadFailed {
			return verdict{kind: needsRestart, reason: "could not be reloaded", oldServes: s.oldServes()}
		}
		return j.observeLimit(s, "started no process of the new version")

	case lead != nil && lead.identity != j.subject && (alive == nil || takesOver):
		if j.tookOver && !takesOver {
			return j.observeDeath(s)
		}
		if j.tookOver {
			// It handed over too: somebody else reloaded the agent.
			if v := j.restartWatch(s); v.kind != pending {
				return v
			}
		}
		j.subject, j.tookOver, j.since = lead.identity, false, time.Time{}

	case alive == nil:
		return j.observeDeath(s)
	}
	j.gone = time.Time{}
	if takesOver && lead.identity == j.subject {
		j.tookOver = true
	}
	v := j.observeWindow(s)
	if !j.tookOver {
		// If the PID file names the old process, the new one has to take over first.
		if old := member(s.group, s.pidFile); old != nil && !old.inside {
			return j.observeLimit(s, "started a process of the new version, which did not take over from the old one")
		}
	}
	return v
}

// lead returns the process of the new version that matters most, or nil, and
// whether the PID file or systemd names it.
func (j *judge) lead(s sample) (_ *process, takesOver bool) {
	if p := member(s.group, s.pidFile); p != nil && p.inside {
		return p, true
	}
	if s.main != nil && s.main.inside {
		return s.main, true
	}
	// The oldest process that the old one has started. Others are not the agent: a command of the unit's ExecReload, or a session that the new
	// agent started.
	var oldest *process
	for i := range s.group {
		p := &s.group[i]
		if p.inside && startedBy(s.group, *p, j.old) && (oldest == nil || p.start < oldest.start) {
			oldest = p
		}
	}
	return oldest, false
}

func (j *judge) observeLimit(s sample, reason string) verdict {
	if s.now.Sub(j.begun) < j.reloadLimit {
		return verdict{}
	}
	return verdict{kind: needsRestart, reason: reason + fmt.Sprintf(" within %v", j.reloadLimit), oldServes: s.oldServes()}
}

// observeDeath decides on a subject that is gone. The old process serves on only if it never was relieved. A relieved one may be draining
// its last sessions and leave, and then nothing is left; and the PID file that it needs for its next reload names a dead process.
func (j *judge) observeDeath(s sample) verdict {
	if j.gone.IsZero() {
		j.gone = s.now
	}
	limit := burialLimit
	relieved := j.tookOver || s.pidFile == j.subject.pid
	if s.main == nil {
		limit = settleLimit // systemd will say how the unit ended
	} else if relieved {
		limit = 0
	}
	// Two looks, because the parts of a sample are not of the same instant.
	if s.now.Sub(j.gone) <= limit {
		return verdict{}
	}
	v := failed("was reloaded, and the process of the new version died")
	v.oldServes = s.oldServes() && !relieved
	if s.oldServes() && relieved {
		v.reason += " after it had taken over"
	}
	return v
}
