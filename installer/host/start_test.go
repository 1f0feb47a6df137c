package host

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

func TestWhatKeepsAnAgentFromStartingAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		unit   systemd.Unit
		config string // teleport.yaml; empty: there is none
		named  bool   // by the unit's command
		says   string // empty: nothing keeps it
	}{
		"nothing":                        {config: "teleport: {}"},
		"no configuration of its own":    {},
		"systemd does not know the unit": {unit: systemd.Unit{LoadState: "not-found", User: "no-such-user"}},
		"no systemd":                     {unit: systemd.Unit{LoadState: "-"}, config: "teleport: ["},
		"masked":                         {unit: systemd.Unit{LoadState: "masked"}, says: "systemctl unmask teleport.service"},
		"a setting that is wrong": {unit: systemd.Unit{LoadState: "bad-setting", Ties: systemd.Ties{RefusesStart: true}},
			says: "systemd has teleport.service as bad-setting: `systemctl status teleport.service`"},
		"started by others only": {unit: systemd.Unit{Ties: systemd.Ties{RefusesStart: true}}, says: "RefuseManualStart="},
		"commands come first":    {unit: systemd.Unit{Ties: systemd.Ties{Startup: systemd.Startup{Before: []string{"ExecStartPre=/bin/true"}}}}},
		"its program is hidden": {unit: systemd.Unit{ExecStart: "/usr/local/bin/teleport", Ties: systemd.Ties{View: systemd.View{Veils: []systemd.Veil{{Setting: "TemporaryFileSystem=/usr/local", Path: "/usr/local"}}}}},
			says: "TemporaryFileSystem=/usr/local hides its program /usr/local/bin/teleport from it"},
		"another program": {unit: systemd.Unit{ExecStart: "/bin/sleep", DropIns: []string{"/etc/systemd/system/teleport.service.d/90-other.conf"}},
			says: "starts /bin/sleep, which is not the updater's link of the agent: look at /etc/systemd/system/teleport.service.d/90-other.conf"},
		"a program beside the agent's": {unit: systemd.Unit{ExecStart: "/usr/local/bin/teleport-wrapper", DropIns: []string{"/etc/systemd/system/teleport.service.d/90-other.conf"}},
			says: "starts /usr/local/bin/teleport-wrapper, which is not"},
		"its user":                   {unit: systemd.Unit{User: "daemon"}},
		"its configuration is gone":  {named: true, says: "teleport.yaml, with which the agent's unit starts it, is missing"},
		"its configuration is there": {named: true, config: "teleport: {}"},
		"the configuration that it names is broken": {named: true, config: "teleport:\n\tproxy_server: example.com\n",
			says: "teleport.service would not start again, for its configuration cannot be read: "},
		"its configuration is broken":       {config: "teleport: [", says: "read the agent's configuration"},
		"its configuration leads elsewhere": {config: "teleport:\n  data_dir: /elsewhere\n", says: "leads the agent to the database /elsewhere/proc/sqlite.db, and its own is "},
	} {
		t.Run(name, func(t *testing.T) {
			h := testHost(t)
			u := tc.unit
			switch u.LoadState {
			case "":
				u.LoadState = "loaded"
			case "-":
				u.LoadState = ""
			}
			u.Name, u.FragmentPath = "teleport.service", h.Paths.Unit()
			if tc.named {
				u.Command = []string{"teleport", "start", "--config=" + h.Paths.AgentConfig}
			}
			database := filepath.Join(h.Paths.DataDir, "proc/sqlite.db")
			if tc.config != "" {
				writeFile(t, h.Paths.AgentConfig, tc.config)
			}
			err := h.CheckCanStart(t.Context(), u, database, nil)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v; want %q", err, tc.says)
			}
			if _, refused := errors.AsType[*failure.RefusedError](err); err != nil && !refused {
				t.Errorf("%v speaks against the version", err)
			}
		})
	}
}

// A service that systemd starts first may bring what is missing now. A service that runs is not started again, and one that failed
// brought nothing.
func TestAServiceThatIsStartedFirstMayBringWhatIsMissing(t *testing.T) {
	for name, tc := range map[string]struct {
		service systemd.Unit
		err     error
		stopped []string // with the agent
		brings  bool
	}{
		"a service that runs":                 {service: systemd.Unit{LoadState: "loaded", ActiveState: "active"}},
		"one that failed":                     {service: systemd.Unit{LoadState: "loaded", ActiveState: "failed"}},
		"one that is missing":                 {service: systemd.Unit{LoadState: "not-found", ActiveState: "inactive"}},
		"one that is started first":           {service: systemd.Unit{LoadState: "loaded", ActiveState: "inactive"}, brings: true},
		"one that starts":                     {service: systemd.Unit{LoadState: "loaded", ActiveState: "activating"}, brings: true},
		"one that systemd says nothing of":    {err: errors.New("no answer")},
		"one that is stopped with the agent":  {service: systemd.Unit{LoadState: "loaded", ActiveState: "active"}, stopped: []string{"first.service"}, brings: true},
		"one that stops when nobody needs it": {service: systemd.Unit{LoadState: "loaded", ActiveState: "active", Ties: systemd.Ties{StopsUnneeded: true}}, brings: true},
	} {
		t.Run(name, func(t *testing.T) {
			u := systemd.Unit{Name: "teleport.service", LoadState: "loaded", Ties: systemd.Ties{Dependents: tc.stopped,
				Startup: systemd.Startup{Services: []string{"first.service"}}}}
			ask := func(context.Context, string) (systemd.Unit, error) { return tc.service, tc.err }
			if brings, err := MayBring(t.Context(), u, ask); brings != tc.brings || !errors.Is(err, tc.err) {
				t.Errorf("%t, %v; want %t, %v", brings, err, tc.brings, tc.err)
			}
			u.Ties.Startup.Privileged = true
			if brings, err := MayBring(t.Context(), u, ask); !brings || err != nil {
				t.Errorf("with a command of full privileges: %t, %v", brings, err)
			}
		})
	}
}

// A link to a configuration is there although what it leads to was removed or unmounted.
func TestAnAgentDoesNotStartWithAConfigurationThatLeadsNowhere(t *testing.T) {
	for name, tc := range map[string]struct {
		to   string // of the link; empty: the link leads to itself
		says string
	}{
		"a file":        {to: "real.yaml"},
		"missing":       {to: "/nonexistent/teleport.yaml", says: "leads to /nonexistent/teleport.yaml, which is missing"},
		"below a file":  {to: "real.yaml/teleport.yaml", says: "leads to real.yaml/teleport.yaml, which is missing"},
		"in a circle":   {says: "cannot be looked at: stat"},
		"too long name": {to: strings.Repeat("x", 300), says: "file name too long"},
	} {
		t.Run(name, func(t *testing.T) {
			h := testHost(t)
			config := h.Paths.AgentConfig
			writeFile(t, filepath.Join(filepath.Dir(config), "real.yaml"), "teleport: {}")
			must(t, os.Symlink(cmp.Or(tc.to, config), config))
			u := systemd.Unit{Name: "teleport.service", LoadState: "loaded", FragmentPath: h.Paths.Unit(),
				Command: []string{"teleport", "start", "--config=" + config}}
			err := h.CheckCanStart(t.Context(), u, "", nil)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v; want %q", err, tc.says)
			}
			if err != nil && !failure.Is[*failure.RefusedError](err) {
				t.Errorf("%v speaks against the version", err)
			}
		})
	}
}

// An agent whose file system became read-only, or full, serves on, and would not start.
func TestAnAgentDoesNotStartOnDataThatItCannotWrite(t *testing.T) {
	for name, tc := range map[string]struct {
		flags   uintptr
		options string
		says    string
	}{
		"room":      {0, "size=8m", ""},
		"read-only": {unix.MS_RDONLY, "size=8m", "is read-only"},
		"full":      {0, "size=64k", "256.0 KiB needed, 64.0 KiB free"},
	} {
		h := testHost(t)
		proc := filepath.Join(h.Paths.DataDir, "proc")
		if err := os.MkdirAll(proc, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", proc, "tmpfs", tc.flags, tc.options); err != nil {
			t.Skipf("mounting needs root: %v", err)
		}
		defer unix.Unmount(proc, 0)
		for _, user := range []string{"", "daemon"} {
			u := systemd.Unit{Name: "teleport.service", LoadState: "loaded", FragmentPath: h.Paths.Unit(), User: user}
			err := h.CheckCanStart(t.Context(), u, proc+"/sqlite.db", nil)
			if (err == nil) != (tc.says == "") || err != nil && (!strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), proc)) {
				t.Errorf("%s, user %q: %v; want %q", name, user, err, tc.says)
			}
		}
	}
}

func TestWhereAnAgentLooksForItsData(t *testing.T) {
	h := testHost(t)
	for command, elsewhere := range map[string]bool{
		"teleport start": false,
		"teleport start --config=" + h.Paths.AgentConfig + " --pid-file=/run/teleport.pid": false,
		"teleport start -c " + h.Paths.AgentConfig:                                         false,
		"teleport start --config=/etc/other.yaml":                                          true,
		"teleport start -c /etc/other.yaml":                                                true,
		"teleport start --data-dir /data":                                                  true,
		"teleport start --data-dir=${WHERE}":                                               false,
		"teleport start --config=${WHERE} --data-dir /data":                                true,
		"teleport start $OPTIONS":                                                          false,
		"teleport start -d":                                                                false,
	} {
		if got := h.LooksElsewhere(systemd.Unit{Command: strings.Fields(command)}); got != elsewhere {
			t.Errorf("%s: %t", command, got)
		}
	}
}

// The process that runs was executed before somebody mounted the programs in another way.
func TestAnAgentDoesNotStartFromAMountWithoutExecution(t *testing.T) {
	for flags, says := range map[uintptr]string{0: "", unix.MS_NOEXEC: "is mounted noexec: mount it with exec"} {
		h := testHost(t)
		dir := t.TempDir()
		if err := unix.Mount("tmpfs", dir, "tmpfs", flags, "size=1m"); err != nil {
			t.Skipf("mounting needs root: %v", err)
		}
		defer unix.Unmount(dir, 0)
		program, link := filepath.Join(dir, "teleport"), filepath.Join(t.TempDir(), "teleport")
		writeFile(t, program, "")
		if err := os.Symlink(program, link); err != nil {
			t.Fatal(err)
		}
		u := systemd.Unit{Name: "teleport.service", LoadState: "loaded", FragmentPath: h.Paths.Unit(), ExecStart: link}
		if err := h.CheckNextStart(t.Context(), u, ""); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("mounted with flags %#x: %v; want %q", flags, err, says)
		}
	}
}

// An agent whose database was taken away from under it would make an empty one at its next start.
func TestADatabaseThatIsNotInItsPlaceIsMissed(t *testing.T) {
	for name, tc := range map[string]struct {
		make  func(t *testing.T, proc string)
		holds bool // a process has it open
		had   bool
		says  bool
	}{
		"it is there":          {holds: true, had: true},
		"moved away, and open": {make: func(t *testing.T, proc string) { must(t, os.Rename(proc, proc+".away")) }, holds: true, says: true},
		"renamed, with its log beside it": {make: func(t *testing.T, proc string) {
			must(t, os.Rename(filepath.Join(proc, "sqlite.db"), filepath.Join(proc, "moved")))
		}, holds: true, says: true},
		"moved away, and known":        {make: func(t *testing.T, proc string) { must(t, os.Rename(proc, proc+".away")) }, had: true, says: true},
		"a file in the folder's place": {make: func(t *testing.T, proc string) { must(t, os.RemoveAll(proc)); writeFile(t, proc, "") }, holds: true, says: true},
		"another one in its place": {make: func(t *testing.T, proc string) {
			must(t, os.Rename(proc, proc+".away"))
			writeFile(t, filepath.Join(proc, "sqlite.db"), "")
		}, holds: true, says: true},
		"emptied, and known": {make: func(t *testing.T, proc string) {
			must(t, os.Truncate(filepath.Join(proc, "sqlite.db"), 0))
		}, holds: true, had: true, says: true},
		"empty as yet":                       {make: func(t *testing.T, proc string) { must(t, os.Truncate(filepath.Join(proc, "sqlite.db"), 0)) }, holds: true},
		"an agent that never had a database": {make: func(t *testing.T, proc string) { must(t, os.RemoveAll(proc)) }},
	} {
		h := testHost(t)
		proc := filepath.Join(h.Paths.DataDir, "proc")
		database := filepath.Join(proc, "sqlite.db")
		writeFile(t, database, "SQLite format 3")
		pid := 0
		if tc.holds {
			for _, file := range []string{database, database + "-wal"} {
				f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
				must(t, err)
				defer f.Close()
			}
			pid = os.Getpid()
		}
		if tc.make != nil {
			tc.make(t, proc)
		}
		err := h.CheckDatabaseThere(pid, tc.had)
		named := func(how string) bool { return err != nil && strings.Contains(err.Error(), database+how) }
		if (err != nil) != tc.says || tc.says && !named(" is missing") && !named(" is another one") && !named(" is empty") {
			t.Errorf("%s: %v; want an error: %v", name, err, tc.says)
		}
	}
}
