package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// someone is a user and a group of a host that nobody else has.
const someone = 54321

// ownedHost is a host whose agent has a user of its own, and all that this user needs. Names are those of the folders in root.
type ownedHost struct {
	*Host
	t    *testing.T
	root string
	unit systemd.Unit
}

func newOwnedHost(t *testing.T) *ownedHost {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	h := &ownedHost{Host: testHost(t), t: t}
	h.root = filepath.Dir(h.Paths.AgentConfig)
	must(t, os.Chmod(filepath.Dir(h.root), 0o755))
	must(t, os.Chmod(h.root, 0o755))
	// The host's name service knows the user.
	bin := t.TempDir()
	writeFile(t, filepath.Join(bin, "getent"), "#!/bin/sh\necho $2:x:54321:54321::/:/bin/sh\n")
	writeFile(t, filepath.Join(bin, "id"), "#!/bin/sh\necho 54321\n")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	writeFile(t, filepath.Join(h.root, "opt/1.0.0/bin/teleport"), "program")
	must(t, os.MkdirAll(h.Paths.LinkDir, 0o755))
	must(t, os.Symlink(filepath.Join(h.root, "opt/1.0.0/bin/teleport"), filepath.Join(h.Paths.LinkDir, "teleport")))
	writeFile(t, h.Paths.AgentConfig, "teleport:\n  data_dir: "+h.root+"/srv/agent\n")
	for _, name := range []string{"sqlite.db", "sqlite.db-wal", "sqlite.db-shm"} {
		writeFile(t, h.root+"/srv/agent/proc/"+name, "")
	}
	h.gives("srv/agent", "srv/agent/proc", "srv/agent/proc/sqlite.db", "srv/agent/proc/sqlite.db-wal", "srv/agent/proc/sqlite.db-shm", "teleport.yaml")
	h.unit = systemd.Unit{Name: "teleport.service", LoadState: "loaded", User: "someone", ExecStart: filepath.Join(h.Paths.LinkDir, "teleport")}
	return h
}

// gives gives files to the agent's user, for nobody else.
func (h *ownedHost) gives(names ...string) {
	h.t.Helper()
	for _, name := range names {
		mode := os.FileMode(0o600)
		if info, err := os.Stat(h.root + "/" + name); err == nil && info.IsDir() {
			mode = 0o700
		}
		must(h.t, os.Chown(h.root+"/"+name, someone, someone))
		must(h.t, os.Chmod(h.root+"/"+name, mode))
	}
}

// closes has root take a file back, with a mode.
func (h *ownedHost) closes(name string, mode os.FileMode) {
	h.t.Helper()
	must(h.t, os.Chown(h.root+"/"+name, 0, 0))
	must(h.t, os.Chmod(h.root+"/"+name, mode))
}

func noUnit(context.Context, string) (systemd.Unit, error) {
	return systemd.Unit{}, errors.New("nobody asks")
}

func TestWhatIsClosedToTheAgentsUser(t *testing.T) {
	for name, tc := range map[string]struct {
		closes string
		mode   os.FileMode
		says   string // ROOT is the folder of all; empty: nothing is closed
	}{
		"nothing":                       {"opt", 0o711, ""},
		"the link folder":               {"bin", 0o700, "may not execute ROOT/bin/teleport: ROOT/bin has mode drwx------ and belongs to root; `chmod o+x ROOT/bin` opens it"},
		"a folder above the programs":   {"opt", 0o750, "may not execute ROOT/bin/teleport: ROOT/opt has mode drwxr-x--- and belongs to root; `chmod o+x ROOT/opt` opens it"},
		"a folder of the programs":      {"opt/1.0.0/bin", 0o700, "`chmod o+x ROOT/opt/1.0.0/bin` opens it, and `namei -l ROOT/bin/teleport` shows the way"},
		"the program":                   {"opt/1.0.0/bin/teleport", 0o744, "`chmod o+x ROOT/opt/1.0.0/bin/teleport`"},
		"a program that none can read":  {"opt/1.0.0/bin/teleport", 0o711, ""},
		"the configuration":             {"teleport.yaml", 0o600, "may not read ROOT/teleport.yaml: ROOT/teleport.yaml has mode -rw------- and belongs to root; `chown -h someone ROOT/teleport.yaml`"},
		"a configuration to be read":    {"teleport.yaml", 0o644, ""},
		"a folder above the data":       {"srv", 0o700, "may not write in ROOT/srv/agent/proc: ROOT/srv has mode drwx------ and belongs to root; `chmod o+x ROOT/srv`"},
		"the data":                      {"srv/agent", 0o700, "may not write in ROOT/srv/agent/proc: ROOT/srv/agent has mode drwx------ and belongs to root; `chown -h someone ROOT/srv/agent`"},
		"the database's folder":         {"srv/agent/proc", 0o755, "may not write in ROOT/srv/agent/proc: ROOT/srv/agent/proc has mode drwxr-xr-x and belongs to root; `chown -h someone ROOT/srv/agent/proc`"},
		"the database":                  {"srv/agent/proc/sqlite.db", 0o600, "may not write ROOT/srv/agent/proc/sqlite.db: "},
		"a database to be read":         {"srv/agent/proc/sqlite.db", 0o644, "`chown -h someone ROOT/srv/agent/proc/sqlite.db`"},
		"a database for everybody":      {"srv/agent/proc/sqlite.db", 0o666, ""},
		"its write-ahead log":           {"srv/agent/proc/sqlite.db-wal", 0o644, "may not write ROOT/srv/agent/proc/sqlite.db-wal: "},
		"the log's index":               {"srv/agent/proc/sqlite.db-shm", 0o644, "may not write ROOT/srv/agent/proc/sqlite.db-shm: "},
		"a file that the agent ignores": {"srv/agent/host_uuid", 0o600, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newOwnedHost(t)
			writeFile(t, h.root+"/srv/agent/host_uuid", "")
			h.closes(tc.closes, tc.mode)
			why, err := CheckReach(t.Context(), h.Host, h.unit, noUnit)
			must(t, err)
			says := strings.ReplaceAll(tc.says, "ROOT", h.root)
			if (why == nil) != (says == "") || why != nil && !strings.Contains(why.Error(), says) {
				t.Errorf("%v; want %q", why, says)
			}
			if why != nil && (!failure.Is[*failure.RefusedError](why) || !strings.HasPrefix(why.Error(), "teleport.service would not start again, for its user someone ")) {
				t.Errorf("it is no refusal that names the unit and its user: %v", why)
			}
		})
	}
}

// A user that the host does not know is another check's. A directory of users that cannot be asked is not an open host.
func TestAUserThatCannotBeLookedUpIsAnError(t *testing.T) {
	for script, known := range map[string]bool{"exit 2": true, "exit 1": false, "exit 3": false, "kill $$": false} {
		h := newOwnedHost(t)
		bin := t.TempDir()
		writeFile(t, filepath.Join(bin, "getent"), "#!/bin/sh\n"+script+"\n")
		t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
		if why, err := CheckReach(t.Context(), h.Host, h.unit, noUnit); why != nil || (err == nil) != known {
			t.Errorf("getent ends with %s: %v, %v", script, why, err)
		}
	}
}

// The updater's folder stays root's: nobody is told to give it to an agent's user that its configuration leads there, as an emptied one
// does.
func TestNobodyIsToldToGiveTheUpdatersFolderAway(t *testing.T) {
	for name, closes := range map[string]string{"the folder": "data", "the database's folder": "data/proc", "the database": "data/proc/sqlite.db"} {
		for _, linked := range []bool{false, true} {
			h := newOwnedHost(t)
			h.Paths.DataDir = h.root + "/data"
			named := h.Paths.DataDir
			for _, suffix := range []string{"", "-wal", "-shm"} {
				writeFile(t, named+"/proc/sqlite.db"+suffix, "")
			}
			if linked {
				named = h.root + "/link"
				must(t, os.Symlink("data", named))
			}
			writeFile(t, h.Paths.AgentConfig, "teleport:\n  data_dir: "+named+"\n")
			h.gives("data", "data/proc", "data/proc/sqlite.db", "data/proc/sqlite.db-wal", "data/proc/sqlite.db-shm", "teleport.yaml")
			h.closes(closes, 0o700)
			why, err := CheckReach(t.Context(), h.Host, h.unit, noUnit)
			must(t, err)
			if why == nil || strings.Contains(why.Error(), "chown") || !strings.Contains(why.Error(), "needs a data_dir of its own") {
				t.Errorf("%s, by a link %v: %v", name, linked, why)
			}
		}
	}
}

// The agent's user may lead the way to a file of root's, which nobody is told to open then.
func TestNobodyIsToldToOpenWhereTheAgentsUserLeads(t *testing.T) {
	for name, lead := range map[string]func(h *ownedHost, secret string) error{
		"a link for the database": func(h *ownedHost, secret string) error {
			db := h.root + "/srv/agent/proc/sqlite.db"
			return errors.Join(os.Remove(db), os.Symlink(secret, db), os.Lchown(db, someone, someone))
		},
		"a link of root's in a folder of the user's": func(h *ownedHost, secret string) error {
			db := h.root + "/srv/agent/proc/sqlite.db-wal"
			return errors.Join(os.Remove(db), os.Symlink(secret, db))
		},
		"a second name": func(h *ownedHost, secret string) error {
			db := h.root + "/srv/agent/proc/sqlite.db"
			return errors.Join(os.Remove(db), os.Link(secret, db))
		},
		"a link for the folder": func(h *ownedHost, secret string) error {
			proc := h.root + "/srv/agent/proc"
			return errors.Join(os.RemoveAll(proc), os.Symlink(filepath.Dir(secret), proc), os.Lchown(proc, someone, someone))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newOwnedHost(t)
			secret := h.root + "/etc/shadow"
			writeFile(t, secret, "")
			h.closes("etc/shadow", 0o600)
			must(t, lead(h, secret))
			why, err := CheckReach(t.Context(), h.Host, h.unit, noUnit)
			must(t, err)
			if why == nil || strings.Contains(why.Error(), "chmod") || strings.Contains(why.Error(), "chown") {
				t.Errorf("%v", why)
			}
		})
	}
}

// What belongs to the agent's user may be closed all the same.
func TestWhatTheAgentsUserHasClosedItself(t *testing.T) {
	h := newOwnedHost(t)
	must(t, os.Chmod(h.Paths.AgentConfig, 0o200))
	why, err := CheckReach(t.Context(), h.Host, h.unit, noUnit)
	if want := "`chmod u+r " + h.Paths.AgentConfig + "`"; err != nil || why == nil || !strings.Contains(why.Error(), want) {
		t.Errorf("%v, %v; want %q", why, err, want)
	}
	must(t, os.Chown(h.Paths.AgentConfig, 0, someone))
	why, err = CheckReach(t.Context(), h.Host, h.unit, noUnit)
	if want := "`chmod g+r " + h.Paths.AgentConfig + "`"; err != nil || why == nil || !strings.Contains(why.Error(), want) {
		t.Errorf("%v, %v; want %q", why, err, want)
	}
}

// Cannot look is not closed, and what something opens before each start is not, either.
func TestWhatIsNotKnownToBeClosed(t *testing.T) {
	service := func(state string) AskUnit {
		return func(_ context.Context, name string) (systemd.Unit, error) {
			return systemd.Unit{Name: name, LoadState: "loaded", ActiveState: state}, nil
		}
	}
	for name, tc := range map[string]struct {
		unit   func(h *ownedHost)
		ask    AskUnit
		closed bool
		err    string
	}{
		"all are bound by modes":          {closed: true},
		"no systemd":                      {unit: func(h *ownedHost) { h.unit.LoadState = "" }},
		"root":                            {unit: func(h *ownedHost) { h.unit.User = "" }},
		"a user that is made":             {unit: func(h *ownedHost) { h.unit.DynamicUser = true }},
		"a user whom modes do not bind":   {unit: func(h *ownedHost) { h.unit.Ties.Rights.Over = "AmbientCapabilities=" }},
		"a root of its own":               {unit: func(h *ownedHost) { h.unit.Ties.View.Root = "RootDirectory=/srv" }},
		"a folder that systemd gives":     {unit: func(h *ownedHost) { h.unit.Ties.Rights.Given = []string{h.root + "/srv"} }},
		"another folder that it gives":    {unit: func(h *ownedHost) { h.unit.Ties.Rights.Given = []string{h.root + "/other"} }, closed: true},
		"a group that may":                {unit: func(h *ownedHost) { h.unit.Ties.Startup.Groups = []string{"SupplementaryGroups=54322"} }},
		"its own group, which may":        {unit: func(h *ownedHost) { h.unit.Ties.Startup.Groups = []string{"Group=54322"} }},
		"a group that may not":            {unit: func(h *ownedHost) { h.unit.Ties.Startup.Groups = []string{"Group=54323"} }, closed: true},
		"a unit that starts a script":     {unit: func(h *ownedHost) { h.unit.ExecStart = "/bin/sh" }},
		"a unit that leads elsewhere":     {unit: func(h *ownedHost) { h.unit.Command = []string{"teleport", "start", "--config=/etc/other.yaml"} }},
		"a service that runs first":       {unit: func(h *ownedHost) { h.unit.Ties.Startup.Services = []string{"first.service"} }, ask: service("active"), closed: true},
		"a service that is started first": {unit: func(h *ownedHost) { h.unit.Ties.Startup.Services = []string{"first.service"} }, ask: service("inactive")},
		"a service that failed":           {unit: func(h *ownedHost) { h.unit.Ties.Startup.Services = []string{"first.service"} }, ask: service("failed"), closed: true},
		"a service that nobody knows":     {unit: func(h *ownedHost) { h.unit.Ties.Startup.Services = []string{"first.service"} }, err: "nobody asks"},
		"a command of root's": {unit: func(h *ownedHost) {
			h.unit.FragmentPath = h.root + "/teleport.service"
			writeFile(h.t, h.unit.FragmentPath, "[Service]\nExecStartPre=+/bin/chmod 755 /srv\n")
		}},
		"a command of the user's": {unit: func(h *ownedHost) {
			h.unit.FragmentPath = h.root + "/teleport.service"
			writeFile(h.t, h.unit.FragmentPath, "[Service]\nExecStartPre=/bin/true\n")
		}, closed: true},
		"its groups are not known": {unit: func(h *ownedHost) {
			writeFile(h.t, strings.SplitN(os.Getenv("PATH"), ":", 2)[0]+"/id", "#!/bin/sh\nexit 1\n")
		}, err: "the groups of user someone"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newOwnedHost(t)
			h.closes("srv", 0o750)
			must(t, os.Chown(h.root+"/srv", 0, 54322))
			if tc.unit != nil {
				tc.unit(h)
			}
			if tc.ask == nil {
				tc.ask = noUnit
			}
			why, err := CheckReach(t.Context(), h.Host, h.unit, tc.ask)
			if (why != nil) != tc.closed || (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("closed: %v, error %v; want %t and %q", why, err, tc.closed, tc.err)
			}
		})
	}
}

// A version that is to be switched to is closed for itself.
func TestAVersionThatIsClosedToTheAgentsUser(t *testing.T) {
	h := newOwnedHost(t)
	program := h.root + "/opt/2.0.0/bin/teleport"
	writeFile(t, program, "program")
	for mode, closed := range map[os.FileMode]bool{0o755: false, 0o700: true} {
		must(t, os.Chmod(h.root+"/opt/2.0.0", mode))
		why, err := CheckReach(t.Context(), h.Host, h.unit, noUnit, program)
		if err != nil || (why != nil) != closed {
			t.Errorf("%v: %v, %v", mode, why, err)
		}
	}
}

// Teleport makes its PID file beside the one that is there, and ends if it cannot. Nobody is told to open /run.
func TestAPIDFileThatTheAgentsUserCannotMake(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(h *ownedHost)
		closed bool
	}{
		"a folder of root's":        {closed: true},
		"a folder of its own":       {change: func(h *ownedHost) { h.gives("run") }},
		"a folder for everybody":    {change: func(h *ownedHost) { h.closes("run", 0o777) }},
		"a folder that is missing":  {change: func(h *ownedHost) { must(h.t, os.Remove(h.root+"/run")) }},
		"one that systemd gives":    {change: func(h *ownedHost) { h.unit.Ties.Rights.Given = []string{h.root + "/run"} }},
		"no PID file":               {change: func(h *ownedHost) { h.unit.Command = h.unit.Command[:2] }},
		"one that a variable names": {change: func(h *ownedHost) { h.unit.Command[2] = "--pid-file=${RUN}/teleport.pid" }},
		"one beside the agent":      {change: func(h *ownedHost) { h.unit.Command[2] = "--pid-file=teleport.pid" }},
	} {
		t.Run(name, func(t *testing.T) {
			h := newOwnedHost(t)
			must(t, os.Mkdir(h.root+"/run", 0o755))
			h.unit.Command = []string{h.unit.ExecStart, "start", "--pid-file=" + h.root + "/run/teleport.pid"}
			if tc.change != nil {
				tc.change(h)
			}
			why, err := CheckReach(t.Context(), h.Host, h.unit, noUnit)
			if err != nil || (why != nil) != tc.closed {
				t.Fatalf("%v, %v; is it closed: %t", why, err, tc.closed)
			}
			if why == nil {
				return
			}
			text := why.Error()
			if !strings.Contains(text, "may not make its PID file in "+h.root+"/run: ") || !strings.Contains(text, "`PIDFile=/run/teleport/teleport.pid`") ||
				strings.Contains(text, "chmod") {
				t.Error(text)
			}
		})
	}
}
