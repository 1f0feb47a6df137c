package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/internal/console"
)

// testKind is the kind of test events.
const testKind rollout.NoticeKind = "test"

// body is the message to a receiver. docs/notifications.md has its format: fields may
// be added, and none is ever removed.
type body struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"` // of the event, not of the attempt
	Text      string    `json:"text"`      // for people, in one line
	Data      data      `json:"data"`
}

// data is the rest of an event, beside the fields of body.
type data struct {
	Start         rollout.Semver        `json:"start_version,omitempty"`
	Target        rollout.Semver        `json:"target_version,omitempty"`
	State         rollout.State         `json:"rollout_state,omitempty"`
	By            string                `json:"by,omitempty"`
	Why           string                `json:"reason,omitempty"`
	Server        string                `json:"server,omitempty"`
	Blocked       []string              `json:"blocked,omitempty"`
	Groups        []rollout.NoticeGroup `json:"groups,omitempty"`
	OmittedGroups int                   `json:"omitted_groups,omitempty"`
}

// message returns the same bytes at each post of an event.
func message(n rollout.Notice) ([]byte, error) {
	kind := "rollout." + string(n.Kind)
	if n.Kind == testKind {
		kind = string(testKind)
	}
	return json.Marshal(body{
		Type: kind, Timestamp: n.Time.UTC(), Text: text(n),
		Data: data{n.Start, n.Target, n.State, n.By, n.Why, n.Server, n.Blocked, n.Groups, n.OmittedGroups},
	})
}

// text describes an event for people, in the words of this program and of the operators who configure groups.
// Messages quote hosts, so they are only in the data: chats take the text as markup.
func text(n rollout.Notice) string {
	switch n.Kind {
	case testKind:
		return fmt.Sprintf("a test of this webhook by %s", console.Line(n.Server))
	case rollout.NoticeBlocked:
		return console.Line(fmt.Sprintf("the find server %s cannot move the rollout: %s", n.Server, strings.Join(n.Blocked, "; ")))
	}
	var groups []string
	for _, g := range n.Groups {
		words := "group " + g.Name
		if g.Name == "" {
			words = "the rollout"
		}
		groups = append(groups, words+fmt.Sprintf(" (%s)", g.Reason))
	}
	if n.OmittedGroups > 0 {
		groups = append(groups, fmt.Sprintf("and %d more groups", n.OmittedGroups))
	}
	return console.Line(fmt.Sprintf("rollout of %s %s: %s", n.Target, n.Kind, strings.Join(groups, "; ")))
}
