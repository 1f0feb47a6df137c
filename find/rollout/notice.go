package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// NoticeKind is a kind of event that people can subscribe to.
type NoticeKind string

// The kinds of events.
const (
	NoticeHalted  NoticeKind = "halted"  // a group takes no step by itself any more
	NoticeStalled NoticeKind = "stalled" // a condition of a group, or of the rollout, has begun
	NoticeFailed  NoticeKind = "failed"  // the first hosts of a group failed, and it goes on
	NoticeBlocked NoticeKind = "blocked" // a server cannot move the rollout
	NoticeDone    NoticeKind = "done"    // the version has come to a group
	NoticeRetried NoticeKind = "retried" // somebody had a group try again
)

// NoticeKinds are all of them.
var NoticeKinds = []NoticeKind{NoticeHalted, NoticeStalled, NoticeFailed, NoticeBlocked, NoticeDone, NoticeRetried}

// UnmarshalText takes their words.
func (k *NoticeKind) UnmarshalText(text []byte) error { return word(k, text, NoticeKinds...) }

func noticeWords() string {
	var words []string
	for _, k := range NoticeKinds {
		words = append(words, string(k))
	}
	return strings.Join(words, ", ")
}

// NoticeLife is for how long an event is posted, and kept in the store.
const NoticeLife = 10 * time.Minute

// NoticePrefix begins the keys of events. The change that causes an event also writes
// it: neither is stored without the other.
const NoticePrefix = "notify_event/"

// Notice holds all that one change of the rollout has brought of one kind.
type Notice struct {
	ID     string     `json:"-"` // under which it is stored and posted
	Kind   NoticeKind `json:"kind"`
	Time   time.Time  `json:"time"`
	Start  Semver     `json:"start_version,omitempty"`
	Target Semver     `json:"target_version,omitempty"`
	State  State      `json:"rollout_state,omitempty"` // after the change
	By     string     `json:"by,omitempty"`            // who made the change: the engine, or a person
	Why    string     `json:"reason,omitempty"`        // as given by a person
	// Server and Blocked are of the kind blocked: which server, and by what.
	Server  string        `json:"server,omitempty"`
	Blocked []string      `json:"blocked,omitempty"`
	Groups  []NoticeGroup `json:"groups,omitempty"`
	// OmittedGroups is how many more groups there are.
	OmittedGroups int `json:"omitted_groups,omitempty"`
}

// NoticeGroup is what has happened to a group or, without a name, to the whole rollout.
type NoticeGroup struct {
	Name    string    `json:"name"`
	State   State     `json:"state,omitempty"`
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason"` // a Reason, or a ConditionType
	Message string    `json:"message,omitempty"`
}

const (
	maxNoticeGroups = 50
	maxNoticeText   = 500 // bytes of a message
)

// Notices returns the events of a change of the rollout, at most one of each kind. They
// follow from the two states alone, so a restart of an engine loses none and repeats
// none. before may be nil, or another rollout.
func Notices(before, after *Rollout) (events []Notice) {
	if after == nil {
		return nil
	}
	old := make(map[string]*GroupStatus)
	var pointedOut []Condition
	if before != nil && before.Status.StartTime.Equal(after.Status.StartTime) && before.Spec.TargetVersion == after.Spec.TargetVersion {
		pointedOut = before.Status.Conditions
		for i := range before.Status.Groups {
			old[before.Status.Groups[i].Name] = &before.Status.Groups[i]
		}
	}
	happened := make(map[NoticeKind][]NoticeGroup)
	for _, c := range begun(pointedOut, after.Status.Conditions) {
		happened[NoticeStalled] = append(happened[NoticeStalled], NoticeGroup{Since: c.Since, Reason: string(c.Type), Message: c.Message})
	}
	for i := range after.Status.Groups {
		g := &after.Status.Groups[i]
		was := cmp.Or(old[g.Name], &GroupStatus{})
		for kind, what := range g.events(was, after.Status.CountsTime) {
			happened[kind] = append(happened[kind], what...)
		}
	}
	for _, kind := range NoticeKinds {
		groups := happened[kind]
		if len(groups) == 0 {
			continue
		}
		e := Notice{Kind: kind, Start: after.Spec.StartVersion, Target: after.Spec.TargetVersion, State: after.Status.State}
		for _, g := range groups[:min(len(groups), maxNoticeGroups)] {
			g.Message = cut(g.Message)
			e.Groups = append(e.Groups, g)
		}
		e.OmittedGroups = len(groups) - len(e.Groups)
		events = append(events, e)
	}
	return events
}

// events returns the events of one group, whose hosts were counted at a moment.
func (g *GroupStatus) events(was *GroupStatus, counted time.Time) map[NoticeKind][]NoticeGroup {
	happened := make(map[NoticeKind][]NoticeGroup)
	add := func(kind NoticeKind, since time.Time, reason, message string) {
		happened[kind] = append(happened[kind], NoticeGroup{g.Name, g.State, since, reason, message})
	}
	if h := g.Halted; h != nil && (was.Halted == nil || !was.Halted.Since.Equal(h.Since) || was.Halted.Reason != h.Reason) {
		add(NoticeHalted, h.Since, string(h.Reason), h.Message)
	}
	if g.Halted == nil && g.FailedCount > 0 && was.FailedCount == 0 {
		add(NoticeFailed, counted, string(HostsFailed), failures([]*GroupStatus{g}))
	}
	if g.State == Done && was.State != Done {
		add(NoticeDone, g.DoneTime, string(g.LastUpdateReason), "")
	}
	if g.LastUpdateReason == ManualRetry && !(was.LastUpdateReason == ManualRetry && was.LastUpdateTime.Equal(g.LastUpdateTime)) {
		add(NoticeRetried, g.LastUpdateTime, string(ManualRetry), "")
	}
	for _, c := range begun(was.Conditions, g.Conditions) {
		add(NoticeStalled, c.Since, string(c.Type), c.Message)
	}
	return happened
}

// begun are the conditions that did not hold before.
func begun(was, now []Condition) (list []Condition) {
	for _, c := range now {
		if !slices.ContainsFunc(was, func(o Condition) bool { return o.Type == c.Type && o.Since.Equal(c.Since) }) {
			list = append(list, c)
		}
	}
	return list
}

// cut bounds a text that quotes what hosts say.
func cut(text string) string {
	if len(text) <= maxNoticeText {
		return text
	}
	end := maxNoticeText
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
