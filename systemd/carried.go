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

// Carried is what an administrator wrote into a unit that another unit replaces.
type Carried struct {
	DropIn []byte   // content of a drop-in that keeps it; nil if there is nothing to keep
	Rest   []string // directives that are not kept: how the service is started and installed, and directives not listed here
}

// carriedDirectives are the directives whose values are kept, as patterns of names: the service's
// identity, its surroundings and its confinement. How the service is started, signalled and
// stopped (Type, Exec…, PIDFile) belongs to the version's unit.
var carriedDirectives = map[string][]string{
	"[Unit]": {
		"After", "Before", "Wants", "Requires", "Requisite", "BindsTo", "PartOf", "Upholds", "Conflicts", "Condition*", "Assert*",
		"RequiresMountsFor", "WantsMountsFor", "OnFailure*", "OnSuccess*", "Propagates*", "ReloadPropagatedFrom", "StopPropagatedFrom",
		"JoinsNamespaceOf", "DefaultDependencies", "StartLimit*", "JobTimeout*", "JobRunningTimeout*", "FailureAction*", "SuccessAction*",
		"RebootArgument", "IgnoreOnIsolate", "StopWhenUnneeded", "CollectMode",
		// Old names that systemd still understands.
		"BindTo", "PropagateReload*", "RequiresOverridable", "RequisiteOverridable",
	},
	"[Service]": {
		// Directives of the start limit that moved to [Unit]; systemd still reads them here.
		"StartLimit*", "FailureAction", "RebootArgument",
		"Environment", "EnvironmentFile", "PassEnvironment", "UnsetEnvironment", "User", "Group", "SupplementaryGroups", "DynamicUser", "UMask",
		"WorkingDirectory",
		"ExecStartPre", "ExecStartPost", "ExecStopPost", "ExecCondition", "KillMode", "KillSignal", "SendSIGKILL", "Timeout*", "Restart*",
		"SuccessExitStatus",
		"Limit*", "Memory*", "CPU*", "IO*", "Tasks*", "Slice", "Delegate", "Nice", "OOM*", "IPAddress*", "IPAccounting", "Device*", "Allowed*",
		"Protect*", "Private*", "Restrict*", "ReadWritePaths", "ReadOnlyPaths", "InaccessiblePaths", "ExecPaths", "NoExecPaths", "BindPaths",
		"BindReadOnlyPaths", "TemporaryFileSystem",
		"ReadWriteDirectories", "ReadOnlyDirectories", "InaccessibleDirectories", // old names that systemd still understands
		"ProcSubset", "NetworkNamespacePath", "IPCNamespacePath", "Personality", "SecureBits", "NUMA*", "SocketBind*", "RuntimeMax*",
		"NoNewPrivileges", "Capability*", "AmbientCapabilities", "SystemCall*", "LockPersonality", "RemoveIPC", "Keyring*", "SELinux*",
		"AppArmor*",
		"RuntimeDirectory*", "StateDirectory*", "CacheDirectory*", "LogsDirectory*", "ConfigurationDirectory*", "LoadCredential*",
		"SetCredential*",
		"Standard*", "Syslog*", "Log*", "PAMName", "RootDirectory", "RootImage*", "MountAPIVFS", "MountFlags",
	},
}

// saysNothing are directives of [Unit] without any effect on the unit: they are neither kept nor named.
var saysNothing = []string{"Description", "Documentation", "SourcePath"}

// usualValues come from the units of Teleport's releases: a value of an older version is not an
// administrator's.
var usualValues = []string{
	"After=network.target", "After=network-online.target", "Wants=network-online.target", "EnvironmentFile=-/etc/default/teleport",
	"LimitNOFILE=8192", "LimitNOFILE=524288", "Restart=on-failure", "RestartSec=300ms", "WantedBy=multi-user.target",
}

// assignment is a directive of a unit file with one value.
type assignment struct{ section, name, value string }

// assignments reads a unit file. It leaves out assignments that an empty value takes back.
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

// writtenAssignments returns all assignments of a unit file, the empty ones, too.
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

// matters reports whether systemd uses the assignment, and an administrator may have written it.
func (a assignment) matters() bool {
	switch {
	case a.section == "", strings.HasPrefix(a.section, "[X-"), strings.HasPrefix(a.name, "X-"):
		return false // systemd leaves it alone
	case a.section == "[Unit]" && slices.Contains(saysNothing, a.name):
		return false
	}
	return !slices.Contains(usualValues, a.name+"="+a.value)
}

// Carry compares a unit with the unit that replaces it. A directive that only the first unit has goes into a
// drop-in if carriedDirectives has it. The drop-in may be added to the first unit, too: a failed change
// leaves the service as it was. All other directives of the first unit alone, of any section, are in Rest.
// The drop-in restarts a list of commands, so that systemd executes none twice.
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

// CarriedFile is a drop-in of the agent's unit. Every other drop-in overrides it.
func (u Units) CarriedFile() string {
	return filepath.Join(filepath.Dir(u.UpdaterInfoFile()), "05-teleport-update-carried.conf")
}

// WriteCarried keeps what an administrator wrote into the replaced unit. A file that is not the
// updater's own stays as it is.
func (u Units) WriteCarried(c Carried, of string) error {
	_, err := writeDropIn(u.CarriedFile(), append([]byte(mark+"\n# From "+of+", which the updater's unit took the place of.\n"), c.DropIn...))
	return err
}

// EraseCarried removes the file of WriteCarried.
func (u Units) EraseCarried() error {
	_, err := eraseDropIn(u.CarriedFile())
	return err
}

// KeepCarried turns the file of WriteCarried into a drop-in of the administrator: under another name and without the mark by which it
// would be removed. It returns the name, or "" if there is nothing to keep. It can be cut off anywhere and repeated: the settings are in
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

// freeDropIn returns a free name for settings; is reports whether a file has them already. If earlier uninstalls left several
// files, the newest one overrides the others, as before.
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

// Overruled is a drop-in that systemd reads before the drop-in of Carried, and a directive that both set: the last one counts.
type Overruled struct{ File, Directive string }

// Overrules returns a drop-in of a unit and its directive that the drop-in of c would override; otherwise nil. Without that
// drop-in, a value of the unit itself comes before all drop-ins. loaded are the drop-ins that systemd has read: the folders may have
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
			continue // it overrides ours
		}
		content, err := readServiceFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody removed the file after systemd read it
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

// settingsOf returns the assignments of a file, the empty ones, too, from the sections in carriedDirectives.
func settingsOf(content []byte) []assignment {
	return slices.DeleteFunc(writtenAssignments(content), func(a assignment) bool { return carriedDirectives[a.section] == nil })
}

// dependencies are directives of [Unit] whose values add up in any order. An empty value does not take them back.
var dependencies = []string{
	"After", "Before", "Wants", "Requires", "Requisite", "BindsTo", "BindTo", "PartOf", "Upholds", "Conflicts", "RequiresMountsFor",
	"WantsMountsFor", "OnFailure", "OnSuccess", "PropagatesReloadTo", "PropagateReloadTo", "PropagatesStopTo", "PropagateReloadFrom",
	"ReloadPropagatedFrom", "StopPropagatedFrom", "JoinsNamespaceOf", "RequiresOverridable", "RequisiteOverridable",
}

// isOverruledBy reports whether a later assignment takes an earlier one back, or brings back a value that the earlier one took away.
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

// alsoSets returns the current names of the directives that a directive sets.
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
