package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// checkConfigSeen refuses a unit with a setting that hides the agent's configuration from its next process: Teleport ends without it,
// or starts with the settings of no configuration. A file that the unit binds over it may be a configuration as well.
func checkConfigSeen(u systemd.Unit, config string) error {
	real, err := filepath.EvalSymlinks(config)
	if err != nil {
		return nil // another check reports a missing file
	}
	for _, path := range []string{config, real} {
		setting := u.Ties.View.Denies(path, systemd.Seeing)
		if setting == "" || strings.HasPrefix(setting, "Bind") {
			continue
		}
		return failure.Refuse("%s would not start again, for %s hides its configuration %s from it: `systemctl cat %[1]s` shows where "+
			"that is set", u.Name, setting, path)
	}
	return nil
}

// checkPIDFolder refuses a unit with a setting that keeps its next process from making its PID file: Teleport ends then. A missing
// folder may be one that systemd makes.
func checkPIDFolder(u systemd.Unit) error {
	file := namedPIDFile(u)
	if file == "" {
		return nil
	}
	dir := filepath.Dir(file)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return nil
	}
	setting := u.Ties.View.Denies(real, systemd.Writing)
	switch {
	case setting == "":
		return nil
	case strings.HasPrefix(setting, "TemporaryFileSystem="), strings.HasPrefix(setting, "BindPaths="):
		return nil // the process has another folder there, in which it may write
	}
	fix := ""
	if u.Ties.View.Denies(real, systemd.Seeing) == "" {
		fix = fmt.Sprintf("; `ReadWritePaths=%s` in a drop-in (`systemctl edit %s`) gives it the folder", dir, u.Name)
	}
	return failure.Refuse("%[1]s would not start again, for %[2]s keeps it from making its PID file %[3]s: `systemctl cat %[1]s` shows "+
		"where that is set%[4]s", u.Name, setting, file, fix)
}

// pidFile returns the value of --pid-file; empty without one.
func pidFile(all []systemd.Argument) string {
	for _, a := range all {
		if a.Name == "--pid-file" {
			return a.Value
		}
	}
	return ""
}

// namedPIDFile returns the PID file that the next process of a unit makes; empty without one, or if only systemd can tell.
func namedPIDFile(u systemd.Unit) string {
	file := pidFile(systemd.Arguments(u.Command))
	if !filepath.IsAbs(file) || strings.Contains(file, "$") {
		return ""
	}
	return file
}

// ownPIDFile says how to make the agent write another PID file; with makes, systemd makes the folder of that file.
func ownPIDFile(h *Host, file string, makes bool) string {
	folder := ""
	if makes {
		folder = "`RuntimeDirectory=teleport`, `RuntimeDirectoryPreserve=yes`, "
	}
	return fmt.Sprintf("name another PID file in a drop-in (`systemctl edit teleport`), under [Service]: %[1]s`PIDFile=%[2]s`, `ExecStart=`, "+
		"`ExecStart=%[3]s/teleport start … --pid-file=%[2]s` with all other arguments, `ExecReload=`, "+
		"`ExecReload=/bin/sh -c \"exec pkill -HUP -L -F %[2]s\"`", folder, file, h.Paths.LinkDir)
}
