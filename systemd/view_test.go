package systemd

import "testing"

// Each setting that may keep a program from a unit's processes, over it, above it, beside it, and
// with what brings it back.
func TestWhatAUnitDoesNotSee(t *testing.T) {
	const program = "/opt/teleport-update/1.0.0/bin/teleport"
	strs := func(paths ...string) []string { return paths }
	bind := func(from, to string) [][]any { return [][]any{{from, to, false, uint64(0)}} }
	tmpfs := func(path string) [][]any { return [][]any{{path, "ro"}} }
	for name, tc := range map[string]struct {
		properties map[string]any
		hidden     string // the setting; empty: the program is seen
	}{
		"nothing":                       {nil, ""},
		"the root is the root":          {map[string]any{"RootDirectory": "/"}, ""},
		"another root":                  {map[string]any{"RootDirectory": "/srv/x"}, "RootDirectory=/srv/x"},
		"an image":                      {map[string]any{"RootImage": "/srv/x.raw"}, "RootImage=/srv/x.raw"},
		"another root with the folder":  {map[string]any{"RootDirectory": "/srv/x", "BindReadOnlyPaths": bind("/opt", "/opt")}, ""},
		"another root, another folder":  {map[string]any{"RootDirectory": "/srv/x", "BindPaths": bind("/usr", "/usr")}, "RootDirectory=/srv/x"},
		"inaccessible above":            {map[string]any{"InaccessiblePaths": strs("/opt")}, "InaccessiblePaths=/opt"},
		"inaccessible, if it is there":  {map[string]any{"InaccessiblePaths": strs("-/opt/teleport-update")}, "InaccessiblePaths=-/opt/teleport-update"},
		"inaccessible beside":           {map[string]any{"InaccessiblePaths": strs("/opt/teleport", "/opt/teleport-update/1.0.0/bin/tsh")}, ""},
		"a tmpfs above":                 {map[string]any{"TemporaryFileSystem": tmpfs("/opt")}, "TemporaryFileSystem=/opt"},
		"a tmpfs over all":              {map[string]any{"TemporaryFileSystem": tmpfs("/")}, "TemporaryFileSystem=/"},
		"a tmpfs, and the folder in it": {map[string]any{"TemporaryFileSystem": tmpfs("/opt"), "BindReadOnlyPaths": bind("/opt/teleport-update", "/opt/teleport-update")}, ""},
		"a tmpfs in the folder":         {map[string]any{"TemporaryFileSystem": tmpfs("/opt/teleport-update/1.0.0"), "BindPaths": bind("/opt", "/opt")}, "TemporaryFileSystem=/opt/teleport-update/1.0.0"},
		"another folder in its place":   {map[string]any{"BindPaths": bind("/srv/opt", "/opt")}, "BindPaths=/srv/opt:/opt"},
		"no execution":                  {map[string]any{"NoExecPaths": strs("/")}, "NoExecPaths=/"},
		"no execution but there":        {map[string]any{"NoExecPaths": strs("/"), "ExecPaths": strs("/usr", "/opt/teleport-update")}, ""},
		"no execution but elsewhere":    {map[string]any{"NoExecPaths": strs("/"), "ExecPaths": strs("/usr")}, "NoExecPaths=/"},
		"homes":                         {map[string]any{"ProtectHome": "yes"}, ""},
		"read-only":                     {map[string]any{"ProtectSystem": "strict", "ReadOnlyPaths": strs("/opt")}, ""},
	} {
		if got := parseTies(variants(tc.properties)).View.Denies(program, Executing); got != tc.hidden {
			t.Errorf("%s: %q; want %q", name, got, tc.hidden)
		}
	}
	home := parseTies(variants(map[string]any{"ProtectHome": "tmpfs"})).View
	if got := home.Denies("/home/agent/data", Seeing); got != "ProtectHome=tmpfs" {
		t.Errorf("a folder of homes: %q", got)
	}
	for path, denied := range map[string]string{"/run": "ProtectSystem=strict", "/dev/shm": "", "/tmp": "", "/var/tmp/x": "", "/root": ""} {
		strict := parseTies(variants(map[string]any{"ProtectSystem": "strict", "PrivateTmp": true})).View
		if got := strict.Denies(path, Writing); got != denied {
			t.Errorf("%s of a protected system: %q; want %q", path, got, denied)
		}
	}
	const data = "/var/lib/teleport/proc"
	for name, tc := range map[string]struct {
		properties map[string]any
		denied     string
	}{
		"nothing":                   {nil, ""},
		"programs are not executed": {map[string]any{"NoExecPaths": strs("/var")}, ""},
		"the system is read-only":   {map[string]any{"ProtectSystem": "full"}, ""},
		"all is read-only":          {map[string]any{"ProtectSystem": "strict"}, "ProtectSystem=strict"},
		"all but the data":          {map[string]any{"ProtectSystem": "strict", "ReadWritePaths": strs("/var/lib/teleport")}, ""},
		"all but the state":         {map[string]any{"ProtectSystem": "strict", "StateDirectory": strs("teleport")}, ""},
		"the data":                  {map[string]any{"ReadOnlyPaths": strs("/var/lib/teleport/proc")}, "ReadOnlyPaths=/var/lib/teleport/proc"},
		"bound, read-only":          {map[string]any{"BindReadOnlyPaths": bind("/var/lib", "/var/lib")}, "BindReadOnlyPaths=/var/lib:/var/lib"},
		"hidden":                    {map[string]any{"InaccessiblePaths": strs("/var/lib/teleport"), "ReadWritePaths": strs("/var/lib/teleport/proc")}, "InaccessiblePaths=/var/lib/teleport"},
	} {
		if got := parseTies(variants(tc.properties)).View.Denies(data, Writing); got != tc.denied {
			t.Errorf("%s: %q; want %q", name, got, tc.denied)
		}
	}
}

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
		"a tmpfs over a root of its own":      {map[string]any{"RootDirectory": "/srv", "TemporaryFileSystem": tmpfs("/var")}, database, false, "TemporaryFileSystem=/var"},
		"and the unit's own folder of state":  {map[string]any{"TemporaryFileSystem": tmpfs("/var"), "StateDirectory": []string{"teleport"}}, database, false, ""},
	} {
		if got := parseTies(variants(tc.properties)).View.Denies(tc.path, map[bool]Access{true: Executing}[tc.program]); got != tc.hides {
			t.Errorf("%s: %s is hidden by %q; want %q", name, tc.path, got, tc.hides)
		}
	}
}
