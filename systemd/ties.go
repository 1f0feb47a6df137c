package systemd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Ties are what systemd will and will not do with a unit when somebody asks it to, and which
// other units that depends on. All of it shows before anything is asked.
type Ties struct {
	RefusesStart bool // RefuseManualStart=, or a kind of unit that cannot be started
	RefusesStop  bool // RefuseManualStop=

	KillMode string // which processes a stop ends: "control-group", "mixed", "process", "none"
	Lenient  bool   // SendSIGKILL=no: a process that ignores the stop outlives it

	// Runtime are folders in /run that systemd removes when the unit stops.
	Runtime []string

	Conditions []Condition // of both kinds, Condition…= and Assert…=

	After      []string // units that are started before this one, where both are
	Starters   []string // units that start this one again whenever it is down: Upholds=, a .path
	Dependents []string // units that go down with it: Requires=, BindsTo=, PartOf=

	Veils Veils // what its processes do not see
}

// Condition is one line of Condition…= or Assert…=.
type Condition struct {
	Type      string // "ConditionPathExists", "AssertFileNotEmpty", …
	Trigger   bool   // one of those that have a pipe symbol is enough
	Negated   bool
	Parameter string
}

func (c Condition) String() string {
	text := c.Type + "="
	if c.Trigger {
		text += "|"
	}
	if c.Negated {
		text += "!"
	}
	return text + c.Parameter
}

func parseTies(p map[string]any) Ties {
	t := Ties{
		RefusesStart: denied(p, "CanStart"),
		RefusesStop:  denied(p, "CanStop"),
		KillMode:     property[string](p, "KillMode"),
		Lenient:      denied(p, "SendSIGKILL"),
		Conditions:   append(parseConditions(p, "Conditions"), parseConditions(p, "Asserts")...),
		After:        property[[]string](p, "After"),
		Starters:     slices.Clone(property[[]string](p, "UpheldBy")),
		Veils:        parseVeils(p),
	}
	for _, unit := range property[[]string](p, "TriggeredBy") {
		if strings.HasSuffix(unit, ".path") {
			t.Starters = append(t.Starters, unit)
		}
	}
	for _, kind := range []string{"RequiredBy", "BoundBy", "ConsistsOf"} {
		for _, unit := range property[[]string](p, kind) {
			if strings.HasSuffix(unit, ".service") && !slices.Contains(t.Dependents, unit) {
				t.Dependents = append(t.Dependents, unit)
			}
		}
	}
	if property[string](p, "RuntimeDirectoryPreserve") != "yes" {
		for _, name := range property[[]string](p, "RuntimeDirectory") {
			t.Runtime = append(t.Runtime, filepath.Join("/run", name))
		}
	}
	return t
}

// denied reports whether a property is there and says no. Old versions of systemd lack some.
func denied(p map[string]any, name string) bool {
	yes, there := p[name].(bool)
	return there && !yes
}

// parseConditions reads an array of structures: type, trigger, negate, parameter, last result.
func parseConditions(p map[string]any, name string) (found []Condition) {
	for _, fields := range property[[][]any](p, name) {
		if len(fields) < 4 {
			continue
		}
		var c Condition
		c.Type, _ = fields[0].(string)
		c.Trigger, _ = fields[1].(bool)
		c.Negated, _ = fields[2].(bool)
		c.Parameter, _ = fields[3].(string)
		found = append(found, c)
	}
	return found
}

// LosesOnStop reports whether systemd removes what is at a path when the unit stops.
func (t Ties) LosesOnStop(path string) bool {
	return slices.ContainsFunc(t.Runtime, func(dir string) bool {
		real, err := filepath.EvalSymlinks(dir)
		return strings.HasPrefix(path, dir+"/") || err == nil && strings.HasPrefix(path, real+"/")
	})
}

// SparesProcesses reports whether a stop may leave processes of the unit, beside its main one.
func (t Ties) SparesProcesses() bool {
	return t.KillMode == "process" || t.KillMode == "none" || t.Lenient
}

// Unmet returns the conditions that do not hold now, so that systemd would not start the unit:
// those that look at files. What they say of the last start is nothing to go by.
func (t Ties) Unmet() []Condition {
	var unmet, triggers []Condition
	triggered := false
	for _, c := range t.Conditions {
		holds, known := c.holds()
		switch {
		case c.Trigger && (holds || !known):
			triggered = true
		case c.Trigger:
			triggers = append(triggers, c)
		case known && !holds:
			unmet = append(unmet, c)
		}
	}
	if !triggered {
		unmet = append(unmet, triggers...)
	}
	return unmet
}

// onFiles are the conditions that look at files, by their names without the kind.
var onFiles = map[string]func(path string) (bool, error){
	"PathExists":         exists,
	"PathExistsGlob":     func(pattern string) (bool, error) { found, err := filepath.Glob(pattern); return len(found) > 0, err },
	"PathIsDirectory":    onInfo(os.FileInfo.IsDir),
	"PathIsSymbolicLink": isSymbolicLink,
	"FileNotEmpty":       onInfo(func(i os.FileInfo) bool { return i.Mode().IsRegular() && i.Size() > 0 }),
	"FileIsExecutable":   onInfo(func(i os.FileInfo) bool { return i.Mode().IsRegular() && i.Mode().Perm()&0o111 != 0 }),
	"DirectoryNotEmpty":  isDirectoryNotEmpty,
}

// holds looks at a condition as systemd does when it starts the unit; known is false for one
// that this program does not evaluate, or cannot look at.
func (c Condition) holds() (holds, known bool) {
	name := strings.TrimPrefix(strings.TrimPrefix(c.Type, "Condition"), "Assert")
	look, ok := onFiles[name]
	if !ok {
		return false, false
	}
	holds, err := look(c.Parameter)
	if err != nil && !os.IsNotExist(err) {
		return false, false
	}
	return holds != c.Negated, true
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	return err == nil, err
}

func onInfo(is func(os.FileInfo) bool) func(string) (bool, error) {
	return func(path string) (bool, error) {
		info, err := os.Stat(path)
		return err == nil && is(info), err
	}
}

func isSymbolicLink(path string) (bool, error) {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0, err
}

func isDirectoryNotEmpty(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return false, err
	}
	entries, err := os.ReadDir(path)
	return len(entries) > 0, err
}
