package systemd

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What the mode of a file closes to a unit's user is closed only if no setting opens it, or may open it before each start.
func TestWhatAUnitOpensWhateverItsModeSays(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "data", "file"), filepath.Join(dir, "link")
	for _, err := range []error{os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o600), os.Symlink("data", link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	above := dir[1:] // as systemd names folders below a root of its own
	bind := func(from, to string) [][]any { return [][]any{{from, to, false, uint64(0)}} }
	before := map[string]any{"Requires": []string{escapePath(dir) + ".mount"}, "After": []string{escapePath(dir) + ".mount"}}
	for name, tc := range map[string]struct {
		unit    map[string]any // beside its user
		files   string         // what its file says in [Service]
		owned   bool
		forbids bool
	}{
		"nothing else":                  {forbids: true},
		"root":                          {unit: map[string]any{"User": "root"}},
		"root, by number":               {unit: map[string]any{"User": "0"}},
		"nobody named":                  {unit: map[string]any{"User": ""}},
		"a user that is made":           {unit: map[string]any{"DynamicUser": true}},
		"all rights over files":         {unit: map[string]any{"AmbientCapabilities": uint64(1 << unix.CAP_DAC_OVERRIDE)}},
		"rights to read all":            {unit: map[string]any{"AmbientCapabilities": uint64(1 << unix.CAP_DAC_READ_SEARCH)}},
		"another right":                 {unit: map[string]any{"AmbientCapabilities": uint64(1 << unix.CAP_NET_BIND_SERVICE)}, forbids: true},
		"groups of a login":             {unit: map[string]any{"PAMName": "login"}},
		"a root of its own":             {unit: map[string]any{"RootDirectory": "/srv/root"}},
		"one with the folder in it":     {unit: map[string]any{"RootDirectory": "/srv/root", "BindPaths": bind(dir, dir)}},
		"an image":                      {unit: map[string]any{"RootImage": "/srv/root.img"}},
		"another folder in its place":   {unit: map[string]any{"BindPaths": bind("/srv/other", dir)}},
		"the folder itself bound":       {unit: map[string]any{"BindPaths": bind(dir, dir)}, forbids: true},
		"a file system of its own":      {unit: map[string]any{"TemporaryFileSystem": [][]any{{dir, ""}}}},
		"a folder that is hidden":       {unit: map[string]any{"InaccessiblePaths": []string{dir}}},
		"a mount that comes first":      {unit: before},
		"a folder that it is given":     {unit: map[string]any{"StateDirectory": []string{"../../" + above}}},
		"one by a link":                 {unit: map[string]any{"LogsDirectory": []string{"../../" + above + "/link"}}},
		"one below":                     {unit: map[string]any{"StateDirectory": []string{"../../" + above + "/data/below"}}, forbids: true},
		"one of a like name":            {unit: map[string]any{"StateDirectory": []string{"../../" + above + "/dat"}}, forbids: true},
		"one that it is not given":      {unit: map[string]any{"ConfigurationDirectory": []string{"../" + above}}, forbids: true},
		"a command of root's":           {files: "ExecStartPre=+/bin/chown -R agent /srv"},
		"one that may fail":             {files: "ExecStartPre=-!/bin/chown -R agent /srv"},
		"a condition of root's":         {files: "ExecCondition=+/bin/chmod 755 /srv"},
		"a command that was taken back": {files: "ExecStartPre=", forbids: true},
		"a command of its user's":       {files: "ExecStartPre=/bin/true", forbids: true},
		"one about its own file":        {files: "ExecStartPre=/bin/chmod 755 /srv", owned: true},
		"its own file":                  {owned: true, forbids: true},
		"one as ever, with two marks":   {files: "ExecStartPre=!!/bin/true", forbids: true},
		"all commands before of root's": {files: "PermissionsStartOnly=yes\nExecStartPre=/bin/true"},
		"none of them":                  {files: "PermissionsStartOnly=no\nExecStartPre=/bin/true", forbids: true},
		"an agent of root's":            {files: "ExecStart=+/usr/local/bin/teleport start"},
		"an agent of its user's":        {files: "ExecStart=@/usr/local/bin/teleport teleport start", forbids: true},
		"what comes after":              {files: "ExecStartPost=+/bin/true", forbids: true},
	} {
		t.Run(name, func(t *testing.T) {
			all := map[string]any{"User": "agent"}
			maps.Copy(all, tc.unit)
			u := parseUnit("teleport.service", variants(all))
			u.FragmentPath = filepath.Join(t.TempDir(), "teleport.service")
			u.DropIns = []string{u.FragmentPath + ".conf"}
			if err := os.WriteFile(u.FragmentPath, []byte("[Service]\nUser=agent\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(u.DropIns[0], []byte("[Service]\n"+tc.files+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if got := u.Forbids(file, tc.owned); got != tc.forbids {
				t.Errorf("it forbids the file: %v, want %v", got, tc.forbids)
			}
		})
	}
}
