package faults

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// State is which version each part of the host says it is on. On a host that is
// whole, all of them belong together.
type State struct {
	Links    string // a version; else what is there, name by name
	Unit     string // a version; "none"; else a digest
	Active   string // active_version in updates.yaml; "none"
	Database string // whose it is, and whether it is sound; "none"
}

func (s State) String() string {
	return fmt.Sprintf("links: %s; unit: %s; updates.yaml: %s; database: %s", s.Links, s.Unit, s.Active, s.Database)
}

// config is what is checked of updates.yaml.
type config struct {
	Spec struct {
		Enabled       bool   `yaml:"enabled"`
		ActiveVersion string `yaml:"active_version"`
	} `yaml:"spec"`
	Status struct {
		PreviousVersion string `yaml:"previous_version"`
		PolicySeen      Memory `yaml:"policy_seen"`
	} `yaml:"status"`
}

func (w *World) config() (c config, err error) {
	data, err := os.ReadFile(filepath.Join(w.Versions(), "updates.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = yaml.Unmarshal(data, &c)
	}
	return c, err
}

// Look reads the state of the host.
func (w *World) Look() (s State, err error) {
	if s.Links, err = w.lookAtLinks(); err != nil {
		return s, err
	}
	if s.Unit, err = w.lookAtUnit(); err != nil {
		return s, err
	}
	c, err := w.config()
	if err != nil {
		return s, err
	}
	if s.Active = c.Spec.ActiveVersion; s.Active == "" {
		s.Active = "none"
	}
	s.Database, err = databaseAt(w.Database())
	return s, err
}

// lookAtLinks compares the whole link folder, foreign names too, with the
// versions that there are.
func (w *World) lookAtLinks() (string, error) {
	entries, err := readTree(w.Links)
	if err != nil {
		return "", err
	}
	links, rest := map[string]string{}, []string{}
	for _, e := range entries {
		switch {
		case e.path == ".", temporary(e.path):
		case strings.HasPrefix(e.target, w.Programs+"/"):
			links[e.path] = e.target
		default:
			rest = append(rest, e.String())
		}
	}
	for _, v := range []string{V1, V2, V3} {
		if maps.Equal(links, w.linksOf(v)) {
			return strings.Join(append([]string{v}, rest...), ", "), nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(links)) {
		rest = append(rest, name+" -> "+links[name])
	}
	if len(rest) == 0 {
		return "none", nil
	}
	return strings.Join(rest, ", "), nil
}

func (w *World) lookAtUnit() (string, error) {
	data, err := os.ReadFile(w.UnitFile())
	if errors.Is(err, fs.ErrNotExist) {
		return "none", nil
	}
	if err != nil {
		return "", err
	}
	for v, c := range w.catalog {
		if c.unit() == digestOf(data) {
			return v, nil
		}
	}
	return digestOf(data), nil
}

// temporary reports whether a file's name is one for what is not finished.
func temporary(path string) bool {
	name := filepath.Base(path)
	return strings.HasPrefix(name, ".tmp-") || strings.HasPrefix(name, ".staging-") || strings.HasSuffix(name, ".new")
}
