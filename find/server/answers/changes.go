package answers

import (
	"fmt"
	"strings"

	"teleport-update/find/rollout"
)

// applied begins the words of an apply in the history.
const applied = "apply: "

// changed describes the change of a resource in a line, for the history: modes, versions and the schedule by
// their values, and anything else by its path. before is nil if there was none.
func changed(before, after rollout.Resource) string {
	var words []string
	value := func(name string, from, to any) {
		was, is := fmt.Sprint(from), fmt.Sprint(to)
		switch {
		case was == is:
		case was == "":
			words = append(words, fmt.Sprintf("%s %s", name, is))
		case is == "":
			words = append(words, fmt.Sprintf("%s %s → none", name, was))
		default:
			words = append(words, fmt.Sprintf("%s %s → %s", name, was, is))
		}
	}
	switch after := after.(type) {
	case *rollout.Config:
		old, ok := before.(*rollout.Config)
		if !ok {
			old = new(rollout.Config)
		}
		value("mode", old.Spec.Agents.Mode, after.Spec.Agents.Mode)
		words = append(words, rollout.Waiting(old, after)...)
	case *rollout.Notify:
		old, ok := before.(*rollout.Notify)
		if !ok {
			old = new(rollout.Notify)
		}
		// The path of a URL may be secret, against all advice.
		value("webhook "+after.Metadata.Name+" for", joined(old.Spec.Kinds), joined(after.Spec.Kinds))
		if old.Spec.URL != after.Spec.URL || old.Spec.URLFile != after.Spec.URLFile {
			words = append(words, "webhook "+after.Metadata.Name+" has another address")
		}
	case *rollout.Version:
		old, ok := before.(*rollout.Version)
		if !ok {
			old = new(rollout.Version)
		}
		value("start version", old.Spec.Agents.StartVersion, after.Spec.Agents.StartVersion)
		value("target", old.Spec.Agents.TargetVersion, after.Spec.Agents.TargetVersion)
		value("schedule", old.Spec.Agents.Schedule, after.Spec.Agents.Schedule)
		value("mode", old.Spec.Agents.Mode, after.Spec.Agents.Mode)
	}
	return strings.Join(words, ", ")
}

func joined(kinds []rollout.NoticeKind) string {
	var words []string
	for _, k := range kinds {
		words = append(words, string(k))
	}
	return strings.Join(words, "+")
}
