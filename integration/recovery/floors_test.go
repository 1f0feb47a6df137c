//go:build hosts

package recovery

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/installer/decision"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
)

// The policy of the host's owner stops changes of the version that root did not ask for. The
// way back from a version that is not healthy is none of them: the agent comes first.

const policyFile = "/etc/teleport-update/policy.yaml"

// heardReports are what the host says of itself to its find server.
type heardReports struct {
	mu   sync.Mutex
	last find.Heartbeat
}

// take is for Cluster.Breaks: the find server of scenes keeps no hosts.
func (r *heardReports) take(w http.ResponseWriter, q *http.Request) bool {
	switch q.URL.Path {
	case find.HeartbeatPath:
		var b find.Heartbeat
		if err := json.NewDecoder(q.Body).Decode(&b); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return true
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.last = b
		return true
	case find.JoinPath:
		return true
	}
	return false
}

func (r *heardReports) said() find.Heartbeat {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// reporting is a host on 1.0.0 that reports, with a database that later versions migrate. Its agent is
// in a slice of its own.
func (s *scene) reporting(failing release.Spec) *heardReports {
	s.T.Helper()
	s.Sound("1.0.0")
	failing.Version, failing.Schema = "1.1.0", 2
	s.Release(failing)
	r := &heardReports{}
	s.Breaks(r.take)
	s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\nSlice=agents.slice\n")
	s.Write("/root/report-token", strings.Repeat("t", 32)+"\n")
	s.RunsOn("1.0.0", "--report-token-file", "/root/report-token")
	return r
}

// isSaid asserts that status, metrics and the last report know of a condition or know nothing of
// it.
func (s *scene) isSaid(condition decision.Type, want bool) {
	s.T.Helper()
	var said decision.Condition
	for _, c := range s.Status().Conditions {
		if c.Type == condition {
			said = c
		}
	}
	is := said.Type != ""
	if is != want {
		s.T.Errorf("status has %s: %v; want %v (%+v)", condition, is, want, s.Status().Conditions)
	}
	sample := `teleport_update_condition{type="` + string(condition) + `"} ` + map[bool]string{true: "1", false: "0"}[want]
	if metrics := s.Must(updater, "status", "--format", "openmetrics"); !strings.Contains(metrics, sample+"\n") {
		s.T.Errorf("the metrics have no %s:\n%s", sample, metrics)
	}
	if text := s.Must(updater, "status", "--format", "text"); want && !strings.Contains(text, said.What) {
		s.T.Errorf("a person is not shown %q:\n%s", said.What, text)
	}
	if !want {
		return
	}
	if text := s.Must(updater, "status", "--explain", string(condition)); !strings.Contains(text, said.Message) {
		s.T.Errorf("it is not explained by %q:\n%s", said.Message, text)
	}
}

// cutOff cuts the power in mid-watch. The recovery at boot puts the files back before the agent
// starts; the next run, which begins nothing of its own, closes the transaction.
func (s *scene) cutOff() {
	s.T.Helper()
	s.Check(s.Kill())
	s.Set(find.Answer{Version: "1.1.0", Edition: version.OSS})
	s.Check(s.Boot(s.T.Context()))
	s.LinkedFiles("1.0.0")
	s.Tick()
}

func TestTheWayBackLeadsBelowTheMinimum(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		failed bool // the version is tried, and is found not healthy
		undo   func(s *scene)
	}{
		{"the new version is not healthy", true, func(s *scene) { s.Fails(1, "was not healthy", updater, "update") }},
		{"the updater is killed and the next run undoes it", true, func(s *scene) {
			s.KilledInMidWatch("1.1.0")
			s.Tick()
		}},
		{"power is cut and the recovery at boot undoes it", false, func(s *scene) {
			s.MidWatch("1.1.0")
			s.cutOff()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t)
			reports := s.reporting(release.Spec{Variant: stamp.CrashLoops})
			rows := s.Live()
			s.Write(policyFile, "minimum: 1.0.5\n")
			s.isSaid(decision.BelowMinimum, true)
			s.Wants("1.1.0")
			tc.undo(s)
			s.Serves("1.0.0")
			s.Lost(rows, "1.0.0")
			s.isSaid(decision.BelowMinimum, true)
			if tc.failed {
				s.BacksOff("1.1.0", 1, time.Hour)
			}

			// The next run reports, and leaves the version that runs in peace.
			s.Set(find.Answer{Version: "1.1.0", Edition: version.OSS})
			if code := s.Tick(); code != 0 {
				t.Errorf("the next tick ends with %d", code)
			}
			if b := reports.said(); !b.BelowMinimum || b.Version != "1.0.0" || b.Unhealthy {
				t.Errorf("the host reports %+v; want that it is well on 1.0.0, which is below its minimum", b)
			}
			s.Serves("1.0.0")
			s.Tidy()

			// And it is left for a version that is allowed.
			s.Release(release.Spec{Version: "1.2.0", Schema: 2})
			s.Wants("1.2.0")
			if code := s.Tick(); code != 0 {
				t.Errorf("the tick to a version that is allowed ends with %d", code)
			}
			s.Serves("1.2.0")
			s.isSaid(decision.BelowMinimum, false)
			if b := reports.said(); b.BelowMinimum {
				t.Errorf("the host reports %+v", b)
			}
		})
	}
}

func TestAPolicyThatBreaksInMidTransactionHoldsUpNoTransaction(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, breaks, says string
		closes             func(s *scene)
		ends               string // the version that the host is on then
	}{
		{"it is nonsense, and the version is not healthy", "echo minimum: newest >" + policyFile, "newest",
			func(s *scene) { s.Tick() }, "1.0.0"},
		{"it is gone, and the version is healthy", "rm " + policyFile, "it is gone",
			func(s *scene) { s.Tick() }, "1.1.0"},
		{"everybody may write it, and power is cut", "chmod 666 " + policyFile, "may be written by",
			(*scene).cutOff, "1.0.0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t)
			bad := release.Spec{Variant: stamp.CrashLoops}
			if tc.ends == "1.1.0" {
				bad.Variant = stamp.Sound
			}
			reports := s.reporting(bad)
			rows := s.Live()
			s.Write(policyFile, "minimum: 1.0.0\n")
			s.Wants("1.1.0")
			s.KilledInMidWatch("1.1.0")
			s.Must("sh", "-ec", tc.breaks)
			tc.closes(s)
			s.Serves(tc.ends)
			if tc.ends == "1.0.0" {
				s.Lost(rows, "1.0.0")
			}
			s.isSaid(decision.PolicyBroken, true)

			// From then on the version is not changed, and the agent not touched.
			before := s.Seen()
			s.Release(release.Spec{Version: "1.2.0", Schema: 2})
			s.Wants("1.2.0")
			if code := s.Tick(); code != 1 {
				t.Errorf("the tick that is to change the version ends with %d; want 1", code)
			}
			s.Serves(tc.ends)
			if got := before.Became(s.Seen()); got != scenes.InPeace {
				t.Errorf("the agent was %s", got)
			}
			s.isSaid(decision.PolicyBroken, true)
			if b := reports.said(); b.Version != tc.ends || b.Unhealthy {
				t.Errorf("the host reports %+v", b)
			}
			if log := s.Log("teleport-update.service"); !strings.Contains(log, tc.says) {
				t.Errorf("the run does not say %q:\n%s", tc.says, log)
			}

			// Until it is repaired.
			s.Must("sh", "-ec", "chmod 644 "+policyFile+" || true; echo minimum: 1.0.0 >"+policyFile)
			if code := s.Tick(); code != 0 {
				t.Errorf("with the policy repaired the tick ends with %d", code)
			}
			s.Serves("1.2.0")
			s.isSaid(decision.PolicyBroken, false)
			s.Tidy()
		})
	}
}
