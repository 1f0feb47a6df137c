package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Scene is one thing that the updater does on a host, and is disturbed at.
type Scene struct {
	Name string
	// Prepare makes the host that the scene begins with, an empty one before.
	Prepare func(ctx context.Context, w *World) error
	Wanted  string                  // what find names from then on
	Args    func(w *World) []string // the command that is disturbed
	// Again is what brings the host there after all, from the state that a
	// recovery left it in; nil: Args.
	Again func(s *Stage, got State) []string
	// Remembers is what the command remembers of the policy of the host's owner, before it
	// changes the version.
	Remembers Memory
	From      string // the version that the host is on before, "" for none
	To        string // and after; "" for none
	Removes   bool   // the agent goes, too
	// Usual has the updater see the host's folders where an ordinary host has them,
	// which takes root: another updater is looked for nowhere else.
	Usual bool
}

// Scenes are all scenes that need no watch of a running agent.
func Scenes() []Scene {
	update := func(*World) []string { return []string{"update"} }
	enable := (*World).Enable
	forget := func(*World) []string { return []string{"policy", "--forget"} }
	return []Scene{
		{
			Name: "enable", Prepare: nothing, Wanted: V1, Args: enable, To: V1,
		},
		{
			Name: "enable over existing binaries", Prepare: existing, Wanted: V1, Args: enable, To: V1,
		},
		{
			Name: "update", Prepare: onto(V1), Wanted: V2, Args: update, From: V1, To: V2,
		},
		{
			Name: "downgrade", Prepare: onto(V1, V2), Wanted: V1, Args: update, From: V2, To: V1,
		},
		{
			Name: "roll-forward", Prepare: onto(V1, V2, V1), Wanted: V2, Args: update, From: V1, To: V2,
		},
		{
			Name: "rollback", Prepare: onto(V1, V2), Wanted: V2,
			Args: func(*World) []string { return []string{"rollback"} }, From: V2, To: V1,
			Again: func(s *Stage, got State) []string {
				if got == s.After {
					return []string{"update"} // held back
				}
				return s.Args(s.World)
			},
		},
		{
			// A policy that came after the last run is remembered before anything is done by it.
			Name: "update by a policy", Prepare: ruled, Wanted: V2, Args: update, From: V1, To: V2, Remembers: Memory{File: true},
		},
		{
			// So are keys, and the version keeps the signature that it came with.
			Name: "update by a key", Prepare: keyed, Wanted: V2, Args: update, From: V1, To: V2, Remembers: Memory{Keys: true},
		},
		{
			// The policy is written, then remembered, then asked.
			Name: "enable with a policy", Prepare: signedBy, Wanted: V2,
			Args: func(w *World) []string { return append(w.Enable(), "--minimum", V1, "--release-key", w.key()) },
			From: V1, To: V2, Remembers: Memory{File: true, Keys: true},
		},
		{
			// Once it is gone for good, root has it forgotten.
			Name: "policy --forget", Prepare: unruled, Wanted: V1,
			Args: forget, Again: func(s *Stage, _ State) []string { return s.afterForgetting() }, From: V1, To: V1,
		},
		{
			Name: "retention", Prepare: onto(V1, V2), Wanted: V3, Args: update, From: V2, To: V3,
		},
		{
			Name: "repair", Prepare: damaged, Wanted: V2,
			Args: func(*World) []string { return []string{"update", "--now"} }, From: V2, To: V2,
		},
		{
			Name: "uninstall", Prepare: enabledOverExisting, Wanted: V1,
			Args: func(*World) []string { return []string{"uninstall"} }, From: V1,
		},
		{
			Name: "uninstall, with the agent", Prepare: enabledOverExisting, Wanted: V1,
			Args: func(*World) []string { return []string{"uninstall", "--with-agent"} }, From: V1, Removes: true,
		},
	}
}

// SceneNamed returns one of Scenes.
func SceneNamed(name string) (Scene, error) {
	for _, s := range Scenes() {
		if s.Name == name {
			return s, nil
		}
	}
	return Scene{}, fmt.Errorf("there is no scene %q", name)
}

func nothing(context.Context, *World) error { return nil }

// existing is a host with an agent that was put there by hand.
func existing(_ context.Context, w *World) error {
	for path, content := range map[string]string{
		filepath.Join(w.Links, "teleport"): "#!/bin/sh\necho 'Teleport v0.9.0 git:'\n",
		filepath.Join(w.Links, "tsh"):      "#!/bin/sh\necho 'an old tsh'\n",
		filepath.Join(w.Links, "other"):    "not the updater's business\n",
		w.UnitFile():                       "[Service]\nExecStart=" + w.Links + "/teleport start\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("/opt/old/tctl", filepath.Join(w.Links, "tctl")); err != nil {
		return err
	}
	return w.Migrate("0.9.0", 1)
}

func enabledOverExisting(ctx context.Context, w *World) error {
	if err := existing(ctx, w); err != nil {
		return err
	}
	return w.climb(ctx, V1)
}

// onto is a host that was brought onto one version after the other, each of
// which ran there and migrated the database.
func onto(versions ...string) func(context.Context, *World) error {
	return func(ctx context.Context, w *World) error { return w.climb(ctx, versions...) }
}

// climb brings the host onto one version after the other. Going back restores
// the database, so nothing is migrated then.
func (w *World) climb(ctx context.Context, versions ...string) error {
	highest := ""
	for i, v := range versions {
		w.Wants(v)
		args := []string{"update"}
		if i == 0 {
			args = w.Enable()
		}
		if err := w.Must(ctx, args...); err != nil {
			return err
		}
		if v > highest {
			highest = v
			if err := w.Migrate(v, schemaOf[v]); err != nil {
				return err
			}
		}
	}
	return nil
}

// schemaOf is the schema that the agent of each version makes of the database.
var schemaOf = map[string]int{V1: 11, V2: 12, V3: 13}

// damaged is a host whose active version lost a file and has another changed.
func damaged(ctx context.Context, w *World) error {
	if err := w.climb(ctx, V1, V2, V1, V2); err != nil {
		return err
	}
	bin := filepath.Join(w.Programs, V2, "bin")
	if err := os.WriteFile(filepath.Join(bin, "tsh"), []byte("rotten"), 0o755); err != nil {
		return err
	}
	return os.Remove(filepath.Join(bin, "tctl"))
}
