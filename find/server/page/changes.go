package page

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
)

// plan is the list of a button's changes.
type plan struct {
	lines []string
	// key is the same for plans that people would not tell apart: new reports of hosts do not change it.
	key string
}

// planOf returns the changes of an order, with the numbers of hosts.
func planOf(now rollout.Overview, result adminapi.OrderResult) (changes plan) {
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
		at := slices.IndexFunc(now.Groups, func(g rollout.GroupOverview) bool { return g.Name == s.Group })
		if at >= 0 && !s.Halted {
			changes.lines = append(changes.lines, hostsMoved(now, now.Groups[at], s.To))
		}
	}
	if len(changes.lines) == 0 {
		changes.lines = append(changes.lines, "It changes no group.")
	}
	changes.key = hex.EncodeToString(key.Sum(nil))
	return changes
}

// hostsMoved says how many hosts of a group will update, and to which version, once the group is in a state.
func hostsMoved(now rollout.Overview, g rollout.GroupOverview, to rollout.State) string {
	left := g.Present - g.UpToDate
	switch to {
	case rollout.RolledBack:
		return fmt.Sprintf("%s of the group that are on %s, or on their way there, are told to go back to %s.", hostsWord(g.UpToDate+g.Updating),
			now.Target, now.Start)
	case rollout.Canarying:
		return fmt.Sprintf("A few of the %s that are not on %s yet are told to update to it first.", hostsWord(left), now.Target)
	case rollout.Unstarted:
		return "Its hosts are told to update when its turn comes."
	}
	words := fmt.Sprintf("%s of the group are told to update to %s%s", hostsWord(left), now.Target, runningNow(now, g))
	if to == rollout.Active && g.MaxInFlight != nil {
		words += fmt.Sprintf("; no more than %s at a time", g.MaxInFlight)
	}
	return words + "."
}

// runningNow names the versions on a group's other hosts, the most frequent first.
func runningNow(now rollout.Overview, g rollout.GroupOverview) string {
	var names []string
	versions := make([]rollout.Semver, 0, len(g.Versions))
	for one := range g.Versions {
		if one != now.Target {
			versions = append(versions, one)
		}
	}
	slices.SortFunc(versions, func(a, b rollout.Semver) int {
		return cmp.Or(cmp.Compare(g.Versions[b], g.Versions[a]), cmp.Compare(a, b))
	})
	for _, one := range versions[:min(3, len(versions))] {
		names = append(names, fmt.Sprintf("%s (%s)", cmp.Or(string(one), "no agent"), thousands(g.Versions[one])))
	}
	if len(names) == 0 {
		return ""
	}
	return ", from " + strings.Join(names, ", ")
}
