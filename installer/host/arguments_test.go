package host

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/internal/version"
	"teleport-update/versions"
)

const releaseCommand = "teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid"

// release is a version on disk, as far as its units go.
func (h *Host) release(t *testing.T, v string, e version.Edition, fips bool) versions.Tree {
	t.Helper()
	tree := versions.Tree{Dir: filepath.Join(h.Paths.Versions(), v), Release: version.Release{Version: v, Edition: e}}
	writeFile(t, filepath.Join(tree.Dir, "etc/systemd/teleport.service"), "# "+v+"\n[Service]\nExecStart=/usr/local/bin/"+releaseCommand+"\n")
	writeFile(t, filepath.Join(tree.Dir, "bin/teleport"), "")
	if fips {
		writeFile(t, filepath.Join(tree.Dir, "etc/systemd/teleport-fips.service"), "# "+v+"\n[Service]\nExecStart=/usr/local/bin/"+releaseCommand+" --fips\n")
	}
	return tree
}

func TestFIPSIsNotLost(t *testing.T) {
	for name, tc := range map[string]struct {
		before  string // the command of before
		dropIn  string
		edition version.Edition
		unit    bool   // the release has a unit for FIPS
		want    string // of the command
		fails   string
		logs    string
	}{
		"the edition's own unit":                   {edition: version.FIPS, unit: true, want: releaseCommand + " --fips"},
		"the edition's own unit on a host of FIPS": {before: "teleport start --fips --pid-file=/run/teleport.pid", edition: version.FIPS, unit: true, want: releaseCommand + " --fips"},
		"another edition's unit":                   {edition: version.Enterprise, unit: true, want: releaseCommand},
		"a release without such a unit":            {before: "teleport start --fips", edition: version.FIPS, want: releaseCommand + " --fips"},
		"a FIPS build that nothing starts so":      {edition: version.FIPS, fails: "FIPS build, and the unit that it brings starts the agent without --fips"},
		"a FIPS build that a drop-in starts so": {edition: version.FIPS, want: releaseCommand,
			dropIn: "[Service]\nExecStart=\nExecStart=/usr/local/bin/teleport start --fips\n"},
		"no FIPS build that a drop-in starts so": {edition: version.Enterprise, fails: "no FIPS build",
			dropIn: "[Service]\nExecStart=\nExecStart=/usr/local/bin/teleport start --fips\n"},
		"a FIPS build that a drop-in starts otherwise": {edition: version.FIPS, want: releaseCommand, logs: "without --fips",
			dropIn: "[Service]\nExecStart=\nExecStart=/usr/local/bin/teleport start -c /etc/x.yaml\n"},
		"other arguments": {before: "teleport start --roles=node -d", edition: version.OSS, want: releaseCommand + " --roles=node -d"},
		"no FIPS build":   {before: "teleport start --fips", edition: version.Enterprise, unit: true, fails: "no FIPS build"},
		"a contradiction": {before: "teleport start --config=/etc/other.yaml", edition: version.OSS, fails: "started with --config=/etc/other.yaml"},
		"a contradiction that a drop-in settles": {before: "teleport start --config=/etc/other.yaml", edition: version.OSS, want: releaseCommand,
			dropIn: "[Service]\nExecStart=\nExecStart=/usr/local/bin/teleport start --config=/etc/other.yaml\n"},
	} {
		t.Run(name, func(t *testing.T) {
			h := testHost(t)
			if tc.before != "" {
				writeFile(t, h.Paths.Unit(), "[Service]\nExecStart=/usr/bin/"+tc.before+"\n")
			}
			if tc.dropIn != "" {
				writeFile(t, filepath.Join(h.configDir(), h.Paths.AgentUnit()+".d", "command.conf"), tc.dropIn)
			}
			var logs bytes.Buffer
			h.Log = slog.New(slog.NewTextHandler(&logs, nil))
			tree := h.release(t, "1.0.0", tc.edition, tc.unit)
			err := h.CheckArguments(tree)
			if !strings.Contains(logs.String(), tc.logs) || tc.logs == "" && strings.Contains(logs.String(), "FIPS") {
				t.Errorf("the log is %s; want %q in it", logs.String(), tc.logs)
			}
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) || !strings.Contains(err.Error(), "nothing was changed") {
					t.Errorf("got %v; want %q", err, tc.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			starts := func(tree versions.Tree) {
				t.Helper()
				if err := h.PlaceUnit(tree); err != nil {
					t.Fatal(err)
				}
				want := "# " + tree.Release.Version + "\n[Service]\nExecStart=/usr/local/bin/" + tc.want + "\n"
				if got, err := os.ReadFile(h.Paths.Unit()); string(got) != want || err != nil {
					t.Errorf("the unit is\n%s(%v); want\n%s", got, err, want)
				}
			}
			// Before the version is proven, when that is begun again, when it is proven, and
			// with the next one.
			starts(tree)
			starts(tree)
			if err := h.Keep(nil, tree, true); err != nil {
				t.Fatal(err)
			}
			starts(tree)
			starts(h.release(t, "1.1.0", tc.edition, tc.unit))
		})
	}
}

// A unit that names no configuration leaves that to a variable, which the unit of a version would have no use for.
func TestAUnitThatWouldLeadTheAgentElsewhereIsRefused(t *testing.T) {
	const elsewhere = "leads it to --config /etc/node.yaml, and with the unit of version 1.0.0 that would be --config /etc/teleport.yaml"
	for name, tc := range map[string]struct{ unit, dropIn, says string }{
		"nothing that leads it":     {unit: "ExecStart=/usr/bin/teleport start"},
		"the usual configuration":   {unit: "Environment=TELEPORT_CONFIG_FILE=/etc/teleport.yaml\nExecStart=/usr/bin/teleport start"},
		"a variable":                {unit: "Environment=TELEPORT_CONFIG_FILE=/etc/node.yaml\nExecStart=/usr/bin/teleport start", says: elsewhere},
		"a variable of a drop-in":   {unit: "ExecStart=/usr/bin/teleport start", dropIn: "Environment=TELEPORT_CONFIG_FILE=/etc/node.yaml", says: elsewhere},
		"a variable without use":    {unit: "Environment=TELEPORT_CONFIG_FILE=/etc/node.yaml\nExecStart=/usr/bin/teleport start -c /etc/teleport.yaml"},
		"a folder, which is kept":   {unit: "ExecStart=/usr/bin/teleport start \\\n --data-dir=/srv/a"},
		"a command of a drop-in":    {unit: "ExecStart=/usr/bin/teleport start -c /etc/node.yaml", dropIn: "ExecStart=\nExecStart=/usr/bin/teleport start \\\n --config=/etc/node.yaml"},
		"a value that needs quotes": {unit: `ExecStart=/usr/bin/teleport start --labels "a=b c"`, says: `started with "--labels a=b c", which cannot be written into the unit of version 1.0.0`},
	} {
		t.Run(name, func(t *testing.T) {
			h := testHost(t)
			tree := h.release(t, "1.0.0", version.OSS, false)
			writeFile(t, h.Paths.Unit(), "[Service]\n"+tc.unit+"\n")
			if tc.dropIn != "" {
				writeFile(t, filepath.Join(h.configDir(), h.Paths.AgentUnit()+".d", "command.conf"), "[Service]\n"+tc.dropIn+"\n")
			}
			err := h.CheckArguments(tree)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v; want %q", err, tc.says)
			}
		})
	}
}

// What a shell, a script or a container starts has arguments that stand elsewhere, or other ones of the same look.
func TestACommandThatIsNotTheAgentsIsRefused(t *testing.T) {
	linked := filepath.Join(t.TempDir(), "teleport-ent")
	writeFile(t, filepath.Join(filepath.Dir(linked), "opt/teleport"), "")
	if err := os.Symlink("opt/teleport", linked); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ command, runs, keeps string }{
		"a shell":                  {command: "/bin/sh -c 'exec /usr/local/bin/teleport start --roles=node --token=/etc/t'", runs: "/bin/sh"},
		"a shell, with the word":   {command: "/bin/sh -c teleport start", runs: "/bin/sh"},
		"a script":                 {command: "/usr/local/sbin/run-teleport", runs: "/usr/local/sbin/run-teleport"},
		"a script, with the word":  {command: "/usr/local/sbin/run-teleport start --roles=node", runs: "/usr/local/sbin/run-teleport"},
		"another environment":      {command: "/usr/bin/env HTTPS_PROXY=http://u:secret@p:1 /usr/local/bin/teleport start", runs: "/usr/bin/env"},
		"a container":              {command: "/usr/bin/docker start -a teleport", runs: "/usr/bin/docker"},
		"another command of its":   {command: "/usr/bin/teleport run start", runs: "/usr/bin/teleport"},
		"no arguments":             {command: "/usr/bin/teleport start"},
		"prefixes":                 {command: "-@/usr/bin/teleport agent start -r node", keeps: " -r node"},
		"without a folder":         {command: "teleport start --roles=node", keeps: " --roles=node"},
		"another name of the same": {command: linked + " start --roles=node", keeps: " --roles=node"},
		"Teleport's own":           {command: "/opt/teleport/system/bin/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid"},
	} {
		t.Run(name, func(t *testing.T) {
			h := testHost(t)
			tree := h.release(t, "1.0.0", version.OSS, false)
			writeFile(t, h.Paths.Unit(), "[Service]\nExecStart="+tc.command+"\n")
			err := h.CheckArguments(tree)
			want := "unit runs " + tc.runs + ", and not `teleport start …` itself"
			if (err != nil) != (tc.runs != "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
				t.Errorf("%v; runs %q", err, tc.runs)
			}
			if tc.runs != "" { // as the message advises
				writeFile(t, filepath.Join(h.configDir(), h.Paths.AgentUnit()+".d", "override.conf"), "[Service]\nExecStart=\nExecStart=/usr/local/bin/teleport start\n")
				if err := h.CheckArguments(tree); err != nil {
					t.Errorf("with the whole command in a drop-in: %v", err)
				}
			}
			unit, err := h.unitOf(tree)
			if want := "# 1.0.0\n[Service]\nExecStart=/usr/local/bin/" + releaseCommand + tc.keeps + "\n"; err != nil || string(unit) != want {
				t.Errorf("the unit is\n%s(%v); want\n%s", unit, err, want)
			}
		})
	}
}

// As systemd, which follows links by the folder that they are in, and however many.
func TestArgumentsOfALinkedUnitAreKept(t *testing.T) {
	for name, links := range map[string][]string{ // each leads to the next one
		"a link": {"/own/teleport.service"}, "a relative link": {"../own/teleport.service"},
		"a link to a link": {"../own/link.service", "teleport.service"}, "one that leads nowhere": {"../own/gone.service"},
		"one that leads in a circle": {"../own/link.service", "link.service"},
	} {
		t.Run(name, func(t *testing.T) {
			h := testHost(t)
			tree := h.release(t, "1.0.0", version.OSS, false)
			top := filepath.Dir(h.Paths.UnitDir)
			writeFile(t, filepath.Join(top, "own/teleport.service"), "[Service]\nExecStart=/usr/bin/"+releaseCommand+" --roles=node\n")
			at := h.Paths.Unit()
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, to := range links {
				if filepath.IsAbs(to) {
					to = filepath.Join(top, to)
				}
				if err := os.Symlink(to, at); err != nil {
					t.Fatal(err)
				}
				at = filepath.Join(top, "own/link.service")
			}
			circle, dangling := strings.Contains(name, "circle"), strings.Contains(name, "nowhere")
			if err := h.CheckArguments(tree); (err != nil) != circle {
				t.Error(err)
			}
			unit, err := h.unitOf(tree)
			if keeps := strings.Contains(string(unit), " --roles=node\n"); err != nil || keeps == (circle || dangling) {
				t.Errorf("the unit is\n%s(%v)", unit, err)
			}
		})
	}
}
