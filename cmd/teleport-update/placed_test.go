package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/urfave/cli/v2"

	"teleport-update/installer/state"
	"teleport-update/internal/layout"
	"teleport-update/systemd"
)

// What enable was given holds for later commands, and what a command names holds over it.
func TestACommandHasThePlacesThatEnableWasGiven(t *testing.T) {
	given := state.DefaultPaths()
	given.DataDir = t.TempDir()
	given.UnitDir, given.LinkDir, given.AgentConfig = "/etc/systemd/system", "/srv/bin", "/etc/node.yaml"
	config := state.EmptyConfig()
	config.Spec = given.Given(config.Spec)
	if err := os.Mkdir(given.Versions(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := config.Save(given.Config()); err != nil {
		t.Fatal(err)
	}
	usual := state.DefaultPaths()
	for name, tc := range map[string]struct {
		args []string
		want func(*state.Paths)
	}{
		"nothing named":             {nil, func(*state.Paths) {}},
		"the usual folder of units": {[]string{"--unit-dir", usual.UnitDir}, func(p *state.Paths) { p.UnitDir = usual.UnitDir }},
		"the usual links":           {[]string{"--link-dir", usual.LinkDir}, func(p *state.Paths) { p.LinkDir = usual.LinkDir }},
		"the usual configuration":   {[]string{"--agent-config", usual.AgentConfig}, func(p *state.Paths) { p.AgentConfig = usual.AgentConfig }},
		"another configuration":     {[]string{"--agent-config", "/x.yaml"}, func(p *state.Paths) { p.AgentConfig = "/x.yaml" }},
	} {
		t.Run(name, func(t *testing.T) {
			var got state.Paths
			app := (&app{}).commands()
			app.Before = nil
			app.Command("status").Action = func(c *cli.Context) error {
				named := usual
				named.DataDir = given.DataDir
				named.UnitDir, named.LinkDir, named.AgentConfig = c.String("unit-dir"), c.String("link-dir"), c.String("agent-config")
				got = placed(c, named)
				return nil
			}
			if err := app.Run(append(append([]string{"x", "--data-dir", given.DataDir}, tc.args...), "status")); err != nil {
				t.Fatal(err)
			}
			want := given
			if tc.want(&want); got != want {
				t.Errorf("it has %+v; want %+v", got, want)
			}
		})
	}
}

// A command that names no data folder is about the one that enable was given: the timer's unit names it. An updater in the usual
// folder comes first, and a unit that is left over leads nowhere.
func TestACommandFindsTheDataFolderThatEnableWasGiven(t *testing.T) {
	enabled := func(is bool) string {
		dir := filepath.Join(t.TempDir(), "a folder")
		paths := state.Paths{DataDir: dir}
		if err := os.MkdirAll(paths.Versions(), 0o700); err != nil {
			t.Fatal(err)
		}
		if is {
			if err := state.EmptyConfig().Save(paths.Config()); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	given := enabled(true)
	for name, tc := range map[string]struct{ usual, unit, want string }{
		"the unit names another":        {enabled(false), given, given},
		"the usual one is in use":       {enabled(true), given, ""},
		"the unit names none":           {enabled(false), layout.DataDir, ""},
		"the unit is of a host no more": {enabled(false), enabled(false), ""},
		"there is no unit":              {enabled(false), "", ""},
	} {
		units := t.TempDir()
		if tc.unit != "" {
			rendered, err := systemd.Units{Binary: "/usr/local/bin/teleport-update", DataDir: tc.unit, LinkDir: layout.LinkDir, UnitDir: units}.Files()
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range rendered {
				path := filepath.Join(units, u.Name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, u.Content, 0o644)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := enabledIn(tc.usual, []string{units}); got != tc.want {
			t.Errorf("%s: %q; want %q", name, got, tc.want)
		}
	}
}
