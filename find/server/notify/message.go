package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/internal/console"
)

// testKind is that of an event by which people try a webhook.
const testKind rollout.NoticeKind = "test"

// body is what a receiver gets. docs/notifications.md has its format: fields may be
// added, and none is removed.
type body struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"` // of the event, not of the attempt
	Text      string    `json:"text"`      // for people, in one line
	Data      data      `json:"data"`
}

// data is an event without what is in body already.
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

// message returns the same bytes whenever an event is posted.
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

// text says an event to people, in our words and those of people who configure groups. The words of hosts, which
// are in messages, are in the data alone: chats take the text as markup.
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
