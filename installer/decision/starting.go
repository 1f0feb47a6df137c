package decision

import (
	"fmt"
	"time"

	"teleport-update/installer/survey"
	"teleport-update/systemd"
)

const AgentStarting Type = "agent_starting"

// startPatience is how long systemd may take for a start or a stop of the agent before that is a fault: a host that boots has much to do.
const startPatience = 5 * time.Minute

// agentStarting is about an agent that does not serve, and may do so soon.
func agentStarting(h *facts, f *finder) error { return h.stepOf(f, false) }

// stepOf reports an agent that counts as running, by its unit, and does not serve: it takes too long, or does not serve yet.
func (h *facts) stepOf(f *finder, tooLong bool) error {
	a, step := h.agent, h.agent.Step()
	if h.blind != nil || h.crashing() || step == survey.Serving {
		return nil
	}
	delay, err := h.Delay(h)
	if err != nil {
		return err
	}
	if tooLong != (!step.Ends() || delay.For > startPatience) {
		return nil
	}
	unit, shows := h.Paths().AgentUnit(), "`systemctl status teleport` shows what runs"
	switch step {
	case survey.Exited:
		f.found(nonZero(a.Since), fmt.Sprintf("the agent has no process, and systemd starts it no more: its unit stays %s (%s), because of "+
			"RemainAfterExit=: ", a.ActiveState, a.SubState), h.advise("`systemctl restart teleport` starts it"))
	case survey.Frozen:
		f.found(nil, fmt.Sprintf("somebody keeps the agent's processes from running (systemctl freeze): `%s` has them go on", a.Thaw()), "")
	case survey.Halted:
		f.found(nil, fmt.Sprintf("a signal has stopped the agent's process (SIGSTOP): `kill -CONT %d` has it go on", a.Process.PID), "")
	case survey.Queued:
		why := (&systemd.BlockedError{Unit: unit, By: delay.By}).Error()
		f.found(nonZero(a.Since), "the agent does not run: "+why, "")
	case survey.Starting:
		f.found(nonZero(a.Since), fmt.Sprintf("the agent does not run: systemd has not come to the end of its start (%s, %s); %s",
			a.ActiveState, a.SubState, shows), "")
	case survey.Stopping:
		f.found(nonZero(a.Since), fmt.Sprintf("the agent is being stopped: systemd has not come to the end of that (%s, %s); %s", a.ActiveState,
			a.SubState, shows), "")
	}
	return nil
}
