package rollout

import "time"

// Effects of transitions and orders beside the change of the state.

// unknownCount is initial_count until the counts are complete.
const unknownCount = -1

// begin starts a trial and drops the counts of the trial before.
func (s *step) begin() {
	s.begun = true
	s.g.StartTime, s.g.DoneTime, s.g.WindowEnd = s.beginning(), time.Time{}, time.Time{}
	s.g.InitialCount = s.n.Present
	if s.e.uncounted {
		s.g.InitialCount = unknownCount
	}
	s.g.Halted, s.g.Canaries, s.g.CanaryCount, s.g.Plan, s.g.RollbackVersion = nil, nil, 0, nil, ""
	s.g.FailedCount, s.g.TimedOutCount, s.g.InFlightCount, s.g.SilentCount = 0, 0, 0, 0
	s.n.Canaries, s.n.Flight, s.n.Failed, s.n.TimedOut, s.n.Problems = nil, nil, 0, 0, nil
}

func (s *step) startCanaries() {
	picked := s.pick()
	s.begin()
	s.g.Canaries, s.g.CanaryCount = picked, len(picked)
}

func (s *step) startAll() {
	s.begin()
	s.goOn()
}

// goOn lets the whole group begin, by a plan if max_in_flight is set.
func (s *step) goOn() {
	if s.g.ConfigMaxInFlight == nil {
		return
	}
	var hosts []HostID
	if s.n.Eligible != nil {
		hosts = s.n.Eligible()
	}
	plan := newPlan(s.r, s.g, hosts, later(s.now, s.g.StartTime))
	s.g.Plan = &PlanReference{StartTime: plan.StartTime, HostCount: len(plan.Hosts), LastActiveHostIndex: -1}
	s.captured, s.n.Flight = true, nil
	s.e.out.Plans = append(s.e.out.Plans, plan)
}

func (s *step) open() {
	s.startAll()
	if w, inside := s.window(); inside && !s.r.Spec.AnyHour {
		s.g.WindowEnd = w.to
	}
}

func (s *step) finish() { s.g.DoneTime = s.now }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
