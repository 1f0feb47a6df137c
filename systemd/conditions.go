package systemd

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/internal/procfs"
	"teleport-update/internal/space"
)

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

// parseConditions reads an array of structures: type, trigger, negate, parameter, last result.
func parseConditions(p properties, name string) (found []Condition) {
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

// Unmet returns the conditions that do not hold now, so that systemd would not start the unit. systemd judges Condition…= and
// Assert…= apart: a trigger of one kind does not satisfy the other kind. The results of the last start do not count.
func (t Ties) Unmet(ctx context.Context) []Condition {
	var conditions, asserts []Condition
	for _, c := range t.Conditions {
		if strings.HasPrefix(c.Type, "Assert") {
			asserts = append(asserts, c)
		} else {
			conditions = append(conditions, c)
		}
	}
	return append(unmetOf(ctx, conditions), unmetOf(ctx, asserts)...)
}

// unmetOf is Unmet for the conditions of one kind.
func unmetOf(ctx context.Context, all []Condition) (unmet []Condition) {
	var triggers []Condition
	triggered := false
	for _, c := range all {
		holds, known := c.holds(ctx)
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
	"PathExistsGlob":     globExists,
	"PathIsDirectory":    onInfo(os.FileInfo.IsDir),
	"PathIsMountPoint":   isMountPoint,
	"PathIsSymbolicLink": isSymbolicLink,
	"FileNotEmpty":       onInfo(func(i os.FileInfo) bool { return i.Mode().IsRegular() && i.Size() > 0 }),
	"FileIsExecutable":   onInfo(func(i os.FileInfo) bool { return i.Mode().IsRegular() && i.Mode().Perm()&0o111 != 0 }),
	"DirectoryNotEmpty":  isDirectoryNotEmpty,
	"PathIsReadWrite":    isReadWrite,
}

// holds looks at a condition as systemd does when it starts the unit; known is false for one
// that this program does not evaluate, or cannot look at.
func (c Condition) holds(ctx context.Context) (holds, known bool) {
	name := strings.TrimPrefix(strings.TrimPrefix(c.Type, "Condition"), "Assert")
	look, ok := onFiles[name]
	if !ok {
		c.Trigger = false
		return analyzed(ctx, c.String(), name)
	}
	holds, err := within(func() (bool, error) { return look(c.Parameter) })
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

// isMountPoint follows links, as systemd does.
func isMountPoint(path string) (bool, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false, err
	}
	at, err := procfs.Host().MountAt(real)
	return err == nil && at == real, err
}

func isSymbolicLink(path string) (bool, error) {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0, err
}

// isReadWrite looks at the file system as process 1 has it mounted: this process may have a view of its own. Where that is not
// open to it, its own view has to do.
func isReadWrite(path string) (bool, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false, err
	}
	readOnly, err := space.ReadOnly(procfs.Host().SeenBy(1, real))
	if errors.Is(err, fs.ErrPermission) {
		readOnly, err = space.ReadOnly(real)
	}
	return err == nil && !readOnly, err
}

func isDirectoryNotEmpty(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return false, err
	}
	entries, err := os.ReadDir(path)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return !passedOver(e.Name()) }), err
}
