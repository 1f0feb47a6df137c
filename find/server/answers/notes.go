package answers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"teleport-update/find/rollout"
)

// explain adds notes and warnings about one resource.
func (s *Stored) explain(a *Applied, r, before rollout.Resource, n *snapshot) {
	if _, hook := r.(*rollout.Notify); hook {
		return
	}
	config, ok := r.(*rollout.Config)
	if !ok {
		a.Notes = append(a.Notes, startWords(n)...)
		return
	}
	a.Warnings = append(a.Warnings, config.Warnings()...)
	old, _ := before.(*rollout.Config)
	paths := rollout.Waiting(old, config)
	if n.Version != nil && n.Rollout != nil && n.Rollout.Of(n.Version) && len(paths) > 0 {
		a.Notes = append(a.Notes, "these wait for the next rollout, which another version or a reset begins: "+strings.Join(paths, ", "))
	}
	if n.Version == nil && config.Spec.Agents.Mode == rollout.Enabled {
		note := "no version is set, and there was no release when the server started"
		if a.Answer.Version != "" {
			note = "no version is set: hosts are told the newest release that there was when the server started"
		}
		a.Notes = append(a.Notes, note)
	}
}

// startWords name the start version of a rollout that goes from group to group.
func startWords(n *snapshot) []string {
	if n.find == nil || len(n.find.Rollout().Status.Groups) == 0 {
		return nil
	}
	spec := n.find.Rollout().Spec
	if spec.StartVersion == spec.TargetVersion {
		return nil // there is a warning for that
	}
	return []string{fmt.Sprintf("the start version is %s: new hosts install it before the turn of their group, and a rollback "+
		"goes back to it", spec.StartVersion)}
}

// conclude notes the consequences of all resources.
func (s *Stored) conclude(a *Applied, n *snapshot, now time.Time) {
	if len(a.Resources) > 0 && !slices.ContainsFunc(a.Resources, steers) {
		return
	}
	a.Scene = rollout.Scene{Config: n.Config, Version: n.Version, Rollout: n.Rollout, Now: now}
	mode := rollout.EffectiveMode(n.Config, n.Version)
	switch {
	case n.Version != nil && mode != rollout.Enabled && n.Version.Spec.Agents.Schedule == rollout.Immediate:
		a.Notes = append(a.Notes, fmt.Sprintf("updates are %s%s: new hosts install the version, and no host updates by itself", mode, modeOf(n)))
	case n.Version != nil && mode != rollout.Enabled:
		a.Notes = append(a.Notes, fmt.Sprintf("updates are %s%s: no host updates by itself, and no group goes on", mode, modeOf(n)))
	}
	if n.unclear != nil {
		a.Warnings = append(a.Warnings, fmt.Sprintf("hosts are told %s as before; %v", a.Answer.Edition, n.unclear))
	}
	if n.find == nil {
		if s.lacks(a.Answer.Version, a.Answer.Edition) {
			a.Warnings = append(a.Warnings, fmt.Sprintf("%s: %s %s", noTarball, a.Answer.Version, a.Answer.Edition))
		}
		return
	}
	spec := n.find.Rollout().Spec
	for _, start := range rollout.Preview(n.Config, n.Version, n.Rollout, now) {
		a.Groups = append(a.Groups, GroupAnswer{start, n.answer(rollout.Query{Group: start.Group}, now, true)})
	}
	if len(a.Groups) == 0 && spec.Schedule != rollout.Immediate {
		a.Warnings = append(a.Warnings, fmt.Sprintf("the schedule %s has no groups, and no host is told to update: apply an %s "+
			"with groups, or set the version with --schedule immediate", spec.Schedule, rollout.KindConfig))
	}
	if len(a.Groups) > 0 && spec.StartVersion == spec.TargetVersion {
		a.Warnings = append(a.Warnings, fmt.Sprintf("there is no start version other than %s: new hosts install it before the "+
			"turn of their group, and a rollback has nowhere to go back to (--start, or spec.agents.start_version)", spec.TargetVersion))
	}
	for _, v := range slices.Compact([]rollout.Semver{spec.TargetVersion, spec.StartVersion}) {
		if s.lacks(string(v), n.editions[v]) {
			a.Warnings = append(a.Warnings, fmt.Sprintf("%s: %s %s", noTarball, v, n.editions[v]))
		}
	}
}

// steers reports whether answers depend on a resource.
func steers(r AppliedResource) bool {
	return r.Resource == nil || r.Resource.GetKind() != rollout.KindNotify
}

// modeOf says which resource sets the mode.
func modeOf(n *snapshot) string {
	mode := rollout.EffectiveMode(n.Config, n.Version)
	switch {
	case n.Version.Spec.Agents.Mode == mode:
		return " by " + rollout.KindVersion
	case n.Config != nil && n.Config.Spec.Agents.Mode == mode:
		return " by " + rollout.KindConfig
	}
	return `, because no mode is set ("teleport-find mode enabled" does)`
}
