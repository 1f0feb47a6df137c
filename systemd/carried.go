package systemd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"teleport-update/internal/durable"
)

// Carried is what an administrator wrote into a unit that another one takes the place of.
type Carried struct {
	DropIn []byte   // content of a drop-in that keeps it; nil if there is nothing to keep
	Rest   []string // directives that are not kept: how the service is started and installed, and what is not known here
}

// carriedDirectives are those whose values are kept, as patterns of names: who the service
// is, what surrounds it, how it is confined. How it is started, told and stopped (Type,
// Exec…, PIDFile) belongs to the version, whose unit says it.
var carriedDirectives = map[string][]string{
	"[Unit]": {
		"After", "Before", "Wants", "Requires", "Requisite", "BindsTo", "PartOf", "Upholds", "Conflicts", "Condition*", "Assert*",
		"RequiresMountsFor", "WantsMountsFor", "OnFailure*", "OnSuccess*", "Propagates*", "ReloadPropagatedFrom", "StopPropagatedFrom",
		"JoinsNamespaceOf", "DefaultDependencies", "StartLimit*", "JobTimeout*", "JobRunningTimeout*", "FailureAction*", "SuccessAction*",
		"RebootArgument", "IgnoreOnIsolate", "StopWhenUnneeded", "CollectMode",
		// Names that systemd understands still.
		"BindTo", "PropagateReload*", "RequiresOverridable", "RequisiteOverridable",
	},
	"[Service]": {
		// Of the start limit, that was here once, and systemd reads it here still.
		"StartLimit*", "FailureAction", "RebootArgument",
		"Environment", "EnvironmentFile", "PassEnvironment", "UnsetEnvironment", "User", "Group", "SupplementaryGroups", "DynamicUser", "UMask",
		"WorkingDirectory",
		"ExecStartPre", "ExecStartPost", "ExecStopPost", "ExecCondition", "KillMode", "KillSignal", "SendSIGKILL", "Timeout*", "Restart*",
		"SuccessExitStatus",
		"Limit*", "Memory*", "CPU*", "IO*", "Tasks*", "Slice", "Delegate", "Nice", "OOM*", "IPAddress*", "IPAccounting", "Device*", "Allowed*",
		"Protect*", "Private*", "Restrict*", "ReadWritePaths", "ReadOnlyPaths", "InaccessiblePaths", "ExecPaths", "NoExecPaths", "BindPaths",
		"BindReadOnlyPaths", "TemporaryFileSystem",
		"ReadWriteDirectories", "ReadOnlyDirectories", "InaccessibleDirectories", // names that systemd understands still
		"ProcSubset", "NetworkNamespacePath", "IPCNamespacePath", "Personality", "SecureBits", "NUMA*", "SocketBind*", "RuntimeMax*",
		"NoNewPrivileges", "Capability*", "AmbientCapabilities", "SystemCall*", "LockPersonality", "RemoveIPC", "Keyring*", "SELinux*",
		"AppArmor*",
		"RuntimeDirectory*", "StateDirectory*", "CacheDirectory*", "LogsDirectory*", "ConfigurationDirectory*", "LoadCredential*",
		"SetCredential*",
		"Standard*", "Syslog*", "Log*", "PAMName", "RootDirectory", "RootImage*", "MountAPIVFS", "MountFlags",
	},
}

// saysNothing are directives of [Unit] by which a unit does nothing else than without them: they are neither kept nor named.
var saysNothing = []string{"Description", "Documentation", "SourcePath"}

// usualValues are of the units that releases of Teleport have brought: an older version's own
// is not an administrator's.
var usualValues = []string{
	"After=network.target", "After=network-online.target", "Wants=network-online.target", "EnvironmentFile=-/etc/default/teleport",
	"LimitNOFILE=8192", "LimitNOFILE=524288", "Restart=on-failure", "RestartSec=300ms", "WantedBy=multi-user.target",
}

// assignment is a directive of a unit file with one value.
type assignment struct{ section, name, value string }

// assignments reads a unit file. What an empty value takes back is not in it.
func assignments(content []byte) (all []assignment) {
	for _, a := range writtenAssignments(content) {
		if a.value == "" {
			all = slices.DeleteFunc(all, func(b assignment) bool { return a.section == b.section && a.name == b.name })
			continue
		}
		all = append(all, a)
	}
	return all
}

// writtenAssignments are all of a unit file, the empty ones, too.
func writtenAssignments(content []byte) (all []assignment) {
	section := ""
	for _, line := range unitLines(string(content)) {
		if strings.HasPrefix(line.text, "[") {
			section = line.text
			continue
		}
		if name, value, is := strings.Cut(line.text, "="); is {
			all = append(all, assignment{section, strings.TrimSpace(name), strings.TrimSpace(value)})
		}
	}
	return all
}

// matters reports whether systemd goes by the assignment, and an administrator may have written it.
func (a assignment) matters() bool {
	switch {
	case a.section == "", strings.HasPrefix(a.section, "[X-"), strings.HasPrefix(a.name, "X-"):
		return false // systemd leaves it alone
	case a.section == "[Unit]" && slices.Contains(saysNothing, a.name):
		return false
	}
	return !slices.Contains(usualValues, a.name+"="+a.value)
}

// Carry compares a unit with the one that takes its place. What is only in the first, and is
// an administrator's to say, comes into a drop-in, which may as well add to the first: a
// failed change leaves the service as it was. Everything else that is only in the first, of any
// section, is in Rest. A list whose entries are executed is begun anew there, so that none is executed twice.
func Carry(before, after []byte) Carried {
	has := assignments(after)
	kept := map[string]*bytes.Buffer{"[Unit]": {}, "[Service]": {}}
	var c Carried
	begun := make(map[string]bool)
	for _, a := range assignments(before) {
		if slices.Contains(has, a) || !a.matters() {
			continue
		}
		if !slices.ContainsFunc(carriedDirectives[a.section], func(pattern string) bool { ok, _ := path.Match(pattern, a.name); return ok }) {
			c.Rest = append(c.Rest, a.name+"="+a.value)
			continue
		}
		if strings.HasPrefix(a.name, "Exec") && !begun[a.name] {
			begun[a.name] = true
			fmt.Fprintf(kept[a.section], "%s=\n", a.name)
			for _, b := range has {
				if b.section == a.section && b.name == a.name {
					fmt.Fprintf(kept[a.section], "%s=%s\n", b.name, b.value)
				}
			}
		}
		fmt.Fprintf(kept[a.section], "%s=%s\n", a.name, a.value)
	}
	for _, section := range []string{"[Unit]", "[Service]"} {
		if kept[section].Len() > 0 {
			c.DropIn = append(c.DropIn, section+"\n"+kept[section].String()...)
		}
	}
	return c
}

// CarriedFile is a drop-in of the agent's unit. Every other one has the last word.
func (u Units) CarriedFile() string {
	return filepath.Join(filepath.Dir(u.UpdaterInfoFile()), "05-teleport-update-carried.conf")
}

// WriteCarried keeps what an administrator wrote into the unit before. A file that is not the
// updater's own is left alone.
func (u Units) WriteCarried(c Carried, of string) error {
	_, err := writeDropIn(u.CarriedFile(), append([]byte(mark+"\n# From "+of+", which the updater's unit took the place of.\n"), c.DropIn...))
	return err
}

// EraseCarried takes away what WriteCarried wrote.
func (u Units) EraseCarried() error {
	_, err := eraseDropIn(u.CarriedFile())
	return err
}

// KeepCarried makes what WriteCarried wrote a drop-in of the administrator's, under another name and without the mark by which it would
// be taken away, and returns its name; empty if there is nothing to keep. It can be cut off anywhere and made again: the settings are in
// force all the time.
func (u Units) KeepCarried() (name string, err error) {
	present, foreign, err := readDropIn(u.CarriedFile())
	if err != nil || foreign || present == nil {
		return "", err
	}
	settings := bytes.TrimPrefix(present, []byte(mark+"\n"))
	name, is, err := u.freeDropIn(settings)
	if err == nil && !is {
		err = durable.WriteFile(name, settings, 0o644)
	}
	if err != nil {
		return "", fmt.Errorf("keep the settings in %s: %w", u.CarriedFile(), err)
	}
	return name, u.EraseCarried()
}

// freeDropIn is a name for settings that nothing else has; is reports whether they are there already. Of several, which an earlier
// uninstall has left, the newest has the last word, as it had.
func (u Units) freeDropIn(settings []byte) (name string, is bool, err error) {
	for n := 1; ; n++ {
		number := ""
		if n > 1 {
			number = strconv.Itoa(n)
		}
		name = filepath.Join(filepath.Dir(u.CarriedFile()), "05-teleport-carried"+number+".conf")
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, false, nil
		}
		there, err := readUnit(name)
		if err != nil || bytes.Equal(there, settings) {
			return name, true, err
		}
	}
}

// Overruled is a drop-in that systemd reads before that of Carried, and a directive that both set: the last one counts.
type Overruled struct{ File, Directive string }

// Overrules returns a drop-in of a unit whose word on a directive the one that is to be written would take back; nil if there is none.
// Until then a value of the unit itself comes before all drop-ins. loaded are the drop-ins that systemd has read: the folders may have
// others by now.
func (u Units) Overrules(c Carried, unit string, dirs, loaded []string) (*Overruled, error) {
	files, err := dropIns(unit, dirs)
	if err != nil {
		return nil, err
	}
	own := filepath.Base(u.CarriedFile())
	carried := settingsOf(c.DropIn)
	for _, file := range slices.Concat(files, loaded) {
		if filepath.Base(file) >= own {
			continue // it has the last word
		}
		content, err := readServiceFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // systemd has read a file that somebody removed since
		}
		if err != nil {
			return nil, err
		}
		for _, early := range settingsOf(content) {
			if slices.ContainsFunc(carried, early.isOverruledBy) {
				return &Overruled{file, early.name}, nil
			}
		}
	}
	return nil, nil
}

// settingsOf are the assignments of a file in sections of which directives are carried, the empty ones, too.
func settingsOf(content []byte) []assignment {
	return slices.DeleteFunc(writtenAssignments(content), func(a assignment) bool { return carriedDirectives[a.section] == nil })
}

// dependencies are directives of [Unit] whose values add up in any order, and that an empty value does not take back.
var dependencies = []string{
	"After", "Before", "Wants", "Requires", "Requisite", "BindsTo", "BindTo", "PartOf", "Upholds", "Conflicts", "RequiresMountsFor",
	"WantsMountsFor", "OnFailure", "OnSuccess", "PropagatesReloadTo", "PropagateReloadTo", "PropagatesStopTo", "PropagateReloadFrom",
	"ReloadPropagatedFrom", "StopPropagatedFrom", "JoinsNamespaceOf", "RequiresOverridable", "RequisiteOverridable",
}

// isOverruledBy reports whether a later assignment takes an earlier one back, or brings back what the earlier one took away.
func (a assignment) isOverruledBy(later assignment) bool {
	for _, kind := range []string{"Condition", "Assert"} {
		if strings.HasPrefix(a.name, kind) { // they add up; an empty one takes back all of its kind
			return a.value == "" && strings.HasPrefix(later.name, kind)
		}
	}
	if slices.Contains(dependencies, a.name) {
		return false
	}
	return slices.ContainsFunc(alsoSets(a.name), func(name string) bool { return slices.Contains(alsoSets(later.name), name) })
}

// alsoSets are the directives, by their names of today, that a directive sets.
func alsoSets(name string) []string {
	switch name {
	case "ReadWriteDirectories", "ReadOnlyDirectories", "InaccessibleDirectories":
		return []string{strings.TrimSuffix(name, "Directories") + "Paths"}
	case "TimeoutSec":
		return []string{"TimeoutStartSec", "TimeoutStopSec"}
	case "StartLimitInterval":
		return []string{"StartLimitIntervalSec"}
	}
	return []string{name}
}
