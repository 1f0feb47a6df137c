package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxNotify is how many webhooks a store may have.
const MaxNotify = 20

// Notify is the resource autoupdate_notify. There may be several, each with a name of its own.
//
//	kind: autoupdate_notify
//	metadata: {name: pager}
//	spec:
//	  url: https://pager.example.com/hooks/teleport   # or url_file
//	  secret_file: /etc/teleport-find/pager.secret
//	  kinds: [halted, stalled, blocked]
//
// A resource holds no secret: output of "get" and backups can be shown. A URL with a
// secret in its user info, query or path belongs in a file of its own.
type Notify struct {
	Kind     string     `json:"kind" yaml:"kind"`
	Version  string     `json:"version,omitempty" yaml:"version,omitempty"`
	Metadata Metadata   `json:"metadata" yaml:"metadata"`
	Spec     NotifySpec `json:"spec" yaml:"spec"`
}

// NotifySpec says where events go. All paths are on the server that sends: each server
// of a store needs the files.
type NotifySpec struct {
	// URL is https, or http on a loopback address, without user info, query and fragment.
	URL string `json:"url,omitempty" yaml:"url,omitempty"`
	// URLFile is an absolute path of a file with the URL, of any form. One of the two is given.
	URLFile string `json:"url_file,omitempty" yaml:"url_file,omitempty"`
	// SecretFile is an absolute path of a file with the keys of the signature, one in a line.
	SecretFile string `json:"secret_file" yaml:"secret_file"`
	// CAFile is an absolute path of a PEM file with further authorities to trust.
	CAFile string `json:"ca_file,omitempty" yaml:"ca_file,omitempty"`
	// Kinds are the kinds of events that are sent.
	Kinds []NoticeKind `json:"kinds" yaml:"kinds,flow"`
}

// NotifyKey returns the key of the webhook with a name.
func NotifyKey(name string) string { return KindNotify + "/" + name }

// GetKind implements Resource.
func (n *Notify) GetKind() string { return KindNotify }

// GetMetadata implements Resource.
func (n *Notify) GetMetadata() *Metadata { return &n.Metadata }

// maxURL is more than any receiver of webhooks asks for.
const maxURL = 2000

var notifyName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Check implements Resource.
func (n *Notify) Check() error {
	if err := checkHead(n.Kind, KindNotify, n.Version, n.Metadata, ""); err != nil {
		return err
	}
	s := n.Spec
	switch {
	case !notifyName.MatchString(n.Metadata.Name):
		return fmt.Errorf("metadata.name: %s is not up to 63 of a to z, 0 to 9 and - between them", excerpt(n.Metadata.Name))
	case (s.URL == "") == (s.URLFile == ""):
		return errors.New("spec: want either url or url_file")
	case s.SecretFile == "":
		return errors.New("spec.secret_file: it is missing")
	case len(s.Kinds) == 0:
		return fmt.Errorf("spec.kinds: name at least one of %s", noticeWords())
	}
	for _, file := range []struct{ field, path string }{{"url_file", s.URLFile}, {"secret_file", s.SecretFile}, {"ca_file", s.CAFile}} {
		if file.path != "" && !filepath.IsAbs(file.path) {
			return fmt.Errorf("spec.%s: %s is not an absolute path", file.field, excerpt(file.path))
		}
	}
	for i, k := range s.Kinds {
		if slices.Contains(s.Kinds[:i], k) {
			return fmt.Errorf("spec.kinds[%d]: %s is there already", i, k)
		}
	}
	if s.URL == "" {
		return nil
	}
	return checkNotifyURL(s.URL)
}

// checkNotifyURL does not quote the URL, which may hold a secret.
func checkNotifyURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || len(text) > maxURL:
		return errors.New("spec.url: it is no URL such as https://pager.example.com/hook")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return errors.New("spec.url: a URL with a password or a query may be secret, and resources are not: put it into a file, " +
			"and name that as spec.url_file")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http":
		if ip, err := netip.ParseAddr(u.Hostname()); u.Hostname() == "localhost" || err == nil && ip.IsLoopback() {
			return nil
		}
	}
	return errors.New("spec.url: events are sent over https, or over http to a loopback address")
}

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
