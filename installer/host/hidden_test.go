package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// The process that runs was started without the setting: it has its configuration, and its PID file.
func TestAnAgentDoesNotStartThatCannotSeeItsFiles(t *testing.T) {
	veil := func(setting, path string, of systemd.Access, lifted bool) systemd.Veil {
		return systemd.Veil{Path: path, Setting: setting, Of: of, Lifted: lifted}
	}
	strict := veil("ProtectSystem=strict", "/", systemd.Writing, false)
	for name, tc := range map[string]struct {
		veils   []systemd.Veil // ROOT is the folder of all
		command string         // after "teleport start"
		linked  bool           // the configuration is a link to one in ROOT/home
		says    string         // empty: nothing keeps it
	}{
		"nothing":                    {command: "--config=CONFIG --pid-file=ROOT/run/teleport.pid"},
		"its configuration":          {veils: []systemd.Veil{veil("InaccessiblePaths=-CONFIG", "CONFIG", systemd.Seeing, false)}, command: "--config=CONFIG", says: "InaccessiblePaths=-CONFIG hides its configuration CONFIG from it"},
		"one that no command names":  {veils: []systemd.Veil{veil("InaccessiblePaths=CONFIG", "CONFIG", systemd.Seeing, false)}, says: "hides its configuration"},
		"a folder above it":          {veils: []systemd.Veil{veil("TemporaryFileSystem=ROOT", "ROOT", systemd.Seeing, false)}, command: "-c CONFIG", says: "TemporaryFileSystem=ROOT hides its configuration"},
		"and the file is bound":      {veils: []systemd.Veil{veil("TemporaryFileSystem=ROOT", "ROOT", systemd.Seeing, false), veil("BindPaths=", "CONFIG", systemd.Seeing, true)}, command: "-c CONFIG"},
		"another one is bound":       {veils: []systemd.Veil{veil("BindReadOnlyPaths=/srv/x:CONFIG", "CONFIG", systemd.Seeing, false)}, command: "-c CONFIG"},
		"what a link leads to":       {veils: []systemd.Veil{veil("ProtectHome=yes", "ROOT/home", systemd.Seeing, false)}, linked: true, says: "ProtectHome=yes hides its configuration ROOT/home/teleport.yaml"},
		"what no link leads to":      {veils: []systemd.Veil{veil("ProtectHome=yes", "ROOT/home", systemd.Seeing, false)}},
		"it may be read only":        {veils: []systemd.Veil{veil("ReadOnlyPaths=CONFIG", "CONFIG", systemd.Writing, false)}, command: "--config=CONFIG"},
		"all is read-only":           {veils: []systemd.Veil{strict}, command: "--pid-file=ROOT/run/teleport.pid", says: "ProtectSystem=strict keeps it from making its PID file ROOT/run/teleport.pid: `systemctl cat teleport.service` shows where that is set; `ReadWritePaths=ROOT/run`"},
		"all but its folder":         {veils: []systemd.Veil{strict, veil("ReadWritePaths=-ROOT/run", "ROOT/run", systemd.Writing, true)}, command: "--pid-file ROOT/run/teleport.pid"},
		"other folders":              {veils: []systemd.Veil{veil("ProtectSystem=full", "/usr", systemd.Writing, false)}, command: "--pid-file=ROOT/run/teleport.pid"},
		"it has no PID file":         {veils: []systemd.Veil{strict}, command: "--config=CONFIG"},
		"one that a variable names":  {veils: []systemd.Veil{strict}, command: "--pid-file=ROOT/${RUN}/teleport.pid"},
		"one in a folder to be made": {veils: []systemd.Veil{strict}, command: "--pid-file=ROOT/made/teleport.pid"},
		"its folder is hidden":       {veils: []systemd.Veil{veil("InaccessiblePaths=ROOT/run", "ROOT/run", systemd.Seeing, false)}, command: "--pid-file=ROOT/run/teleport.pid", says: "InaccessiblePaths=ROOT/run keeps it from making its PID file"},
		"a folder of the unit's own": {veils: []systemd.Veil{veil("TemporaryFileSystem=ROOT/run", "ROOT/run", systemd.Seeing, false)}, command: "--pid-file=ROOT/run/teleport.pid"},
		"a folder by a link":         {veils: []systemd.Veil{veil("ReadOnlyPaths=ROOT/run", "ROOT/run", systemd.Writing, false)}, command: "--pid-file=ROOT/var/teleport.pid", says: "ReadOnlyPaths=ROOT/run keeps it from making its PID file ROOT/var/teleport.pid"},
	} {
		t.Run(name, func(t *testing.T) {
			h := testHost(t)
			config := h.Paths.AgentConfig
			root := filepath.Dir(config)
			names := strings.NewReplacer("CONFIG", config, "ROOT", root)
			writeFile(t, root+"/home/teleport.yaml", "teleport: {}")
			must(t, os.Mkdir(root+"/run", 0o755))
			must(t, os.Symlink("run", root+"/var"))
			if tc.linked {
				must(t, os.Symlink("home/teleport.yaml", config))
			} else {
				writeFile(t, config, "teleport: {}")
			}
			var veils []systemd.Veil
			for _, v := range append(tc.veils, veil("ReadWritePaths=", h.Paths.DataDir, systemd.Writing, true), veil("BindPaths=", h.Paths.DataDir, systemd.Seeing, true)) {
				v.Path, v.Setting = names.Replace(v.Path), names.Replace(v.Setting)
				veils = append(veils, v)
			}
			u := systemd.Unit{Name: "teleport.service", LoadState: "loaded", FragmentPath: h.Paths.Unit(), Ties: systemd.Ties{View: systemd.View{Veils: veils}},
				Command: strings.Fields(names.Replace("teleport start " + tc.command))}
			err := h.CheckNextStart(t.Context(), u, filepath.Join(h.Paths.DataDir, "proc/sqlite.db"))
			says := names.Replace(tc.says)
			if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("%v; want %q", err, says)
			}
			if err != nil && !failure.Is[*failure.RefusedError](err) {
				t.Errorf("%v speaks against the version", err)
			}
		})
	}
}
