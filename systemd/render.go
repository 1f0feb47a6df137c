package systemd

import (
	"bytes"
	"embed"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"text/template"
	"unicode"
	"unicode/utf8"

	"teleport-update/internal/layout"
)

//go:embed templates
var templateFiles embed.FS

// unitTemplates are parsed where they are needed: hardly a run of the timer writes a unit.
var unitTemplates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"quote": quote,
		"plain": plain,
	}).ParseFS(templateFiles, "templates/*.tmpl"))
})

// mark is the first line of every unit file of ours. One without it belongs to
// somebody else and is not touched.
const mark = "# Part of teleport-update. Change it with \"systemctl edit\", not here."

// A UnitFile is one of the updater's own units, or a drop-in of one.
type UnitFile struct {
	Name    string
	Content []byte
	// WantedBy is the target whose start starts the unit, empty if something else
	// does.
	WantedBy string

	template string // its file in templates
	limits   []ownLimit
}

// Files returns the updater's units, as Install writes them and a package ships
// them.
func (u Units) Files() ([]UnitFile, error) {
	u = u.withDefaults()
	for _, path := range append(u.mounts(), u.Binary, u.ConfigDir) {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl) {
			return nil, fmt.Errorf("%q cannot be named in a unit: it has to be a clean absolute path in UTF-8", path)
		}
	}
	values := struct {
		Units
		Command, Config, Journal string
		Mounts                   []string // what has to be there for a recovery
		Recover, RunDirectory    string   // a unit, and a folder in /run
		Limits                   []ownLimit
	}{u, u.command(), filepath.Join(u.DataDir, "versions", "updates.yaml"), filepath.Join(u.DataDir, "versions", "journal.json"), u.mounts(),
		u.Recovery(), u.runDirectory(), nil}
	files := append(u.named(), u.limitFiles()...)
	for i := range files {
		values.Limits = files[i].limits
		content := bytes.NewBufferString(mark + "\n")
		if err := unitTemplates().ExecuteTemplate(content, files[i].template, values); err != nil {
			return nil, fmt.Errorf("render %s: %w", files[i].Name, err)
		}
		files[i].Content = content.Bytes()
	}
	return files, nil
}

// mounts are the folders that a recovery works in, whatever they are mounted on.
func (u Units) mounts() []string {
	dirs := []string{u.DataDir, u.LinkDir, u.UnitDir}
	switch {
	case u.Programs != "":
		dirs = append(dirs, u.Programs)
	case u.DataDir == layout.DataDir:
		dirs = append(dirs, layout.ProgramsDir)
	}
	return dirs
}

// command is the updater with the folders that are not the usual ones.
func (u Units) command() string {
	words := []string{quote(u.Binary)}
	for _, flag := range []struct{ name, value, usual string }{
		{"--data-dir", u.DataDir, layout.DataDir},
		{"--link-dir", u.LinkDir, layout.LinkDir},
		{"--unit-dir", u.UnitDir, layout.UnitDir},
		{"--programs-dir", u.Programs, ""},
	} {
		if flag.value != flag.usual {
			words = append(words, flag.name, quoteArgument(flag.value))
		}
	}
	return strings.Join(words, " ")
}

// quote makes a path one word of a setting that takes several (systemd.syntax(7),
// "Quoting"), without specifiers.
func quote(path string) string {
	path = plain(path)
	if !strings.ContainsAny(path, " \"'\\;") {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
}

// quoteArgument does the same for an argument of a command, in which "$" begins a
// variable (systemd.service(5), "Command lines").
func quoteArgument(path string) string {
	return quote(strings.ReplaceAll(path, "$", "$$"))
}

// plain makes a path the value of a setting that takes one path and no quotes.
func plain(path string) string {
	return strings.ReplaceAll(path, "%", "%%")
}
