package page

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
)

// plan is the list of an order's changes.
type plan struct {
	lines []string
	// key is the same for plans that people would not tell apart: new reports of hosts do not change it.
	key string
	// host is the name of the host that the order is to; empty for an order to a group.
	host string
}

// planOf returns the changes of an order, with its consequence.
func planOf(now rollout.Overview, a action, result adminapi.OrderResult) (changes plan) {
	key := sha256.New()
	fmt.Fprintf(key, "%q %q", now.Start, now.Target)
	for _, s := range result.Steps {
		line := fmt.Sprintf("Group %s goes from %s to %s.", s.Group, cmp.Or(string(s.From), "nothing"), s.To)
		if s.Halted {
			line = fmt.Sprintf("Group %s is halted.", s.Group)
		}
		if s.Message != "" {
			line = fmt.Sprintf("%s: %s.", strings.TrimSuffix(line, "."), s.Message)
		}
		changes.lines = append(changes.lines, line)
		fmt.Fprintf(key, " %q %q %q %t", s.Group, s.From, s.To, s.Halted)
	}
	if does := doesOf(now, a); does != "" {
		changes.lines = append(changes.lines, "It "+does+".")
	}
	if len(changes.lines) == 0 {
		changes.lines = append(changes.lines, "It changes no group.")
	}
	changes.key = hex.EncodeToString(key.Sum(nil))
	return changes
}
