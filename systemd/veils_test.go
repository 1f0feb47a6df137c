package systemd

import "testing"

// The paths of a service, as D-Bus brings them.
func TestWhatAUnitHides(t *testing.T) {
	const program, database = "/opt/teleport-update/1.0.0/bin/teleport", "/var/lib/teleport/proc"
	tmpfs := func(paths ...string) (all [][]any) {
		for _, p := range paths {
			all = append(all, []any{p, ""})
		}
		return all
	}
	bind := func(from, to string) [][]any { return [][]any{{from, to, false, uint64(0)}} }
	for name, tc := range map[string]struct {
		properties map[string]any
		path       string
		program    bool
		hides      string
	}{
		"nothing":                             {nil, program, true, ""},
		"a tmpfs over a folder above":         {map[string]any{"TemporaryFileSystem": tmpfs("/srv", "/opt")}, program, true, "TemporaryFileSystem=/opt"},
		"a tmpfs over a folder beside":        {map[string]any{"TemporaryFileSystem": tmpfs("/opt/teleport")}, program, true, ""},
		"a tmpfs over the root":               {map[string]any{"TemporaryFileSystem": tmpfs("/")}, program, true, "TemporaryFileSystem=/"},
		"and what is bound there again":       {map[string]any{"TemporaryFileSystem": tmpfs("/opt"), "BindReadOnlyPaths": bind("/opt/teleport-update", "/opt/teleport-update")}, program, true, ""},
		"and what is bound below":             {map[string]any{"TemporaryFileSystem": tmpfs("/opt"), "BindPaths": bind("/x", "/opt/teleport-update/2.0.0")}, program, true, "TemporaryFileSystem=/opt"},
		"what is bound above does not count":  {map[string]any{"TemporaryFileSystem": tmpfs("/opt/teleport-update"), "BindPaths": bind("/opt", "/opt")}, program, true, "TemporaryFileSystem=/opt/teleport-update"},
		"a folder that nobody may enter":      {map[string]any{"InaccessiblePaths": []string{"-/opt"}}, program, true, "InaccessiblePaths=-/opt"},
		"a folder without execution":          {map[string]any{"NoExecPaths": []string{"/"}}, program, true, "NoExecPaths=/"},
		"and what may be executed":            {map[string]any{"NoExecPaths": []string{"/"}, "ExecPaths": []string{"/usr", "/opt/teleport-update"}}, program, true, ""},
		"a folder without execution for data": {map[string]any{"NoExecPaths": []string{"/"}}, database, false, ""},
		"a tmpfs over the data":               {map[string]any{"TemporaryFileSystem": tmpfs("/var")}, database, false, "TemporaryFileSystem=/var"},
		"and the unit's own folder of state":  {map[string]any{"TemporaryFileSystem": tmpfs("/var"), "StateDirectory": []string{"teleport"}}, database, false, ""},
	} {
		if got := parseTies(tc.properties).Veils.Hide(tc.path, tc.program); got != tc.hides {
			t.Errorf("%s: %s is hidden by %q; want %q", name, tc.path, got, tc.hides)
		}
	}
}
