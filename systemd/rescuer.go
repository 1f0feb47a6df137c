package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Rescuer is the program that the recovery at boot runs: by the unit file that systemd
// uses, whoever brought it.
func (u Units) Rescuer() (program string, err error) {
	places, err := u.places()
	if err != nil {
		return "", err
	}
	n := slices.IndexFunc(places, func(p place) bool { return p.Name == u.Recovery() })
	p := places[n]
	for _, path := range []string{p.above, p.packaged} {
		if path == "" || path == p.own {
			continue
		}
		content, err := readUnit(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			program, err = startedBy(content)
		}
		if err != nil {
			return "", fmt.Errorf("see what %s runs: %w", path, err)
		}
		return program, nil
	}
	return u.Binary, nil
}

// startedBy is the program that a unit starts. One whose path takes quotes is nobody's
// but a person's.
func startedBy(unit []byte) (program string, err error) {
	for line := range strings.Lines(string(unit)) {
		command, ok := strings.CutPrefix(line, "ExecStart=")
		if words := strings.Fields(command); ok && len(words) > 0 {
			program = strings.TrimLeft(words[0], "@-:+!")
		}
	}
	if !filepath.IsAbs(program) || strings.ContainsAny(program, `"'\\%`) {
		return "", fmt.Errorf("its command %q is not the plain path of a program", program)
	}
	return program, nil
}
