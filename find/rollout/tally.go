package rollout

// HostResult is the result of a host's update, in one word: each host has one.
type HostResult int

// The results: the first that holds counts.
const (
	HostMissing  HostResult = iota // reported within a day, and cannot be counted now
	HostFailed                     // failed or was rolled back, or began and has not reported since
	HostTimedOut                   // said that it shall update, and its time is over
	HostDown                       // its agent is down
	HostUpToDate                   // runs the target
	HostUpdating                   // said that it shall update, or has begun
	HostNotYet                     // none of these
	hostResults
)

var hostResultWords = [hostResults]string{"missing", "failed", "timed_out", "unhealthy", "up_to_date", "updating", "not_yet"}

// String returns the word for programs, such as up_to_date.
func (r HostResult) String() string { return hostResultWords[r] }

// HostResults are all of them.
func HostResults() (all []HostResult) {
	for r := range hostResults {
		all = append(all, r)
	}
	return all
}

// Tally counts hosts by their version (see VersionClass) and by their HostResult. The
// versions that hosts report do not change its size.
type Tally [versionClasses][hostResults]int

// With is how many hosts have a result, whatever they run.
func (t *Tally) With(result HostResult) (hosts int) {
	for class := range t {
		hosts += t[class][result]
	}
	return hosts
}

// VersionClass is the class of a host's version in a rollout.
type VersionClass int

// The classes.
const (
	OnTarget VersionClass = iota
	OnStart
	OnOther // or on none
	versionClasses
)

// VersionClasses are all of them.
func VersionClasses() []VersionClass { return []VersionClass{OnTarget, OnStart, OnOther} }

func (r *Rollout) classOf(v Semver) VersionClass {
	switch v {
	case r.Spec.TargetVersion:
		return OnTarget
	case r.Spec.StartVersion:
		return OnStart
	}
	return OnOther
}

// resultOf judges a host that is present.
func (h *Host) resultOf(t trial) HostResult {
	if t.begun && h.Version != t.target {
		switch h.progress(t) {
		case failed, gone:
			return HostFailed
		case timedOut:
			return HostTimedOut
		}
	}
	switch {
	case h.Unhealthy:
		return HostDown
	case h.Version == t.target:
		return HostUpToDate
	case t.begun && h.progress(t) == underway:
		return HostUpdating
	}
	return HostNotYet
}
