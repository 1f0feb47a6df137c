package installer

import "testing"

func TestACommandEndsWithWhatIsTrueAndWhatComesNext(t *testing.T) {
	installed := func(s State, c ...Condition) Report {
		v, pid := "17.2.1", 7
		r := Report{VersionInstalled: &v, State: s, Conditions: c}
		up := "active"
		if s == StateIdle || s == StatePinned || s == StateHeld || s == StateDisabled || len(c) > 0 && c[0].Type == UpdateWaits {
			r.Agent.PID, r.Agent.ActiveState = &pid, &up
		}
		if len(c) > 0 {
			r.Explanation = c[0].Message
		}
		return r
	}
	for _, tc := range []struct {
		r          Report
		configured bool
		want       string
	}{
		{Report{State: StateDisabled}, false, "No version of Teleport is installed by the updater. `teleport-update enable` installs the one that the cluster wants."},
		{installed(StateWaiting, Condition{Type: AgentNotStarted, Message: "x"}), false,
			"Teleport 17.2.1 is installed. The agent is not running: write /etc/teleport.yaml, then `systemctl enable --now teleport`."},
		{installed(StateWaiting, Condition{Type: AgentNotStarted, Message: "x"}), true,
			"Teleport 17.2.1 is installed. The agent is not running: `systemctl enable --now teleport` starts it."},
		{installed(StateIdle), true, "Teleport 17.2.1 is installed. The agent runs it. The timer follows the cluster, and looks every ten minutes."},
		{installed(StateIdle, Condition{Type: RestartPending, Message: "the agent differs"}), true,
			"Teleport 17.2.1 is installed. The agent runs it. The agent differs. The timer follows the cluster, and looks every ten minutes."},
		{installed(StatePinned, Condition{Type: Pinned, Message: "x"}), true, "Teleport 17.2.1 is installed. The agent runs it. The host stays on it until `teleport-update unpin`."},
		{installed(StateHeld, Condition{Type: Held, Message: "the host is held"}), true, "Teleport 17.2.1 is installed. The agent runs it. The host is held."},
		{installed(StateDisabled, Condition{Type: UpdatesDisabled, Message: "x"}), true, "Teleport 17.2.1 is installed. The agent runs it. Updates are off: `teleport-update enable` turns them on."},
		{installed(StateNeedsAttention, Condition{Type: AgentDown, Message: "the agent does not run"}), true, "Teleport 17.2.1 is installed. The agent does not run."},
		{installed(StateWaiting, Condition{Type: UpdateWaits, Message: "the cluster wants 17.3.0"}), true, "Teleport 17.2.1 is installed. The agent runs it. The cluster wants 17.3.0."},
		{installed(StateWaiting, Condition{Type: TargetUnknown, Message: "it is not known"}), true,
			"Teleport 17.2.1 is installed. It is not known. The next run of the timer asks, `teleport-update update` asks at once."},
		{installed(StateNeedsAttention, Condition{Type: TargetRefused, Message: "refused"}), true, "Teleport 17.2.1 is installed. Refused."},
		{installed(StateFailing, Condition{Type: RunsFail, Message: "runs fail"}, Condition{Type: Pinned, Message: "x"}), true, "Teleport 17.2.1 is installed. Runs fail."},
		{installed(StateIdle, Condition{Type: TimerOff, Message: "the timer is masked"}), true, "Teleport 17.2.1 is installed. The agent runs it. The timer is masked."},
		{installed(StateHeld, Condition{Type: Held, Message: "the host is held"}, Condition{Type: TimerOff, Message: "the timer is masked"}), true,
			"Teleport 17.2.1 is installed. The agent runs it. The host is held. The timer is masked."},
		{func() Report { r := installed(StateIdle); r.Agent = AgentReport{}; return r }(), true,
			"Teleport 17.2.1 is installed. The timer follows the cluster once systemd runs on this host."},
	} {
		if got := tc.r.Closing(tc.configured); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}
