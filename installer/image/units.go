package image

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"teleport-update/internal/layout"
)

// unitDirs are where systemd looks for units.
var unitDirs = []string{layout.ConfigDir, layout.UnitDir, layout.PackageUnitDir, layout.OldPackageUnitDir}

var (
	// tokenFlag is an argument with a secret, of "teleport start" and of "tbot start".
	tokenFlag = regexp.MustCompile(`--?(?:token|registration-secret)(?:"?'?[=\s]+"?'?|["',\s]+)([^\s"',\]]+)`)
	// configFlag is an argument that names a configuration.
	configFlag = regexp.MustCompile(`(?:--config|-c)[=\s]+["']?([^\s"']+)`)
	// folderFlag is an argument that names a folder with the state of an agent or of a bot, or with the keys that a bot writes.
	folderFlag = regexp.MustCompile(`--?(?:data-dir|destination-dir|storage|destination)(?:"?'?[=\s]+"?'?|["',\s]+)(?:file://)?(/[^\s"',\]]+)`)
	// variable is a variable of the environment that holds a secret.
	variable = regexp.MustCompile(`\b[A-Z][A-Z0-9_]*(?:TOKEN|SECRET|PASSWORD|API_KEY)=["']?([^\s"']+)`)
	// configVariable is a variable that names a configuration.
	configVariable = regexp.MustCompile(`\b(?:TELEPORT_CONFIG_FILE|TBOT_CONFIG_PATH|TBOT_CONFIG)=["']?([^\s"']+)`)
	// passwordInURL is a password in a URL of a proxy, a mirror or a database. The URL may be a template.
	passwordInURL = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/@:"'` + "`" + `]*:[^\s/@"'` + "`" + `]+@`)
	// secretInQuery is a parameter of a URL that lets its reader in. A value that a template computes is no secret.
	secretInQuery = regexp.MustCompile(`(?i)[?&][a-z0-9_.-]*(?:token|secret|password|passwd|signature|sig|credential|api_?key|auth)=[^\s&"'{]`)
	// comment is a comment line. It ends with its line, even if the line ends with a backslash.
	comment     = regexp.MustCompile(`(?m)^[ \t]*[#;].*\n?`)
	environment = regexp.MustCompile(`(?m)^\s*EnvironmentFile\s*=\s*-?(\S+)`)
)

// units looks at the units and drop-ins that start agents or bots, at the files with their environment, and at the updater's copy of an
// earlier unit.
func (l *look) units() error {
	paths, err := l.unitFiles()
	errs := []error{err}
	named := map[string]bool{} // by a unit, as its environment
	for i := 0; i < len(paths); i++ {
		data, err := l.readAny(paths[i])
		if err != nil || !named[paths[i]] && !starts(paths[i], data) {
			errs = append(errs, err)
			continue
		}
		text := strings.ReplaceAll(comment.ReplaceAllString(string(data), ""), "\\\n", " ")
		for _, m := range environment.FindAllStringSubmatch(text, -1) {
			if !named[m[1]] {
				named[m[1]] = true
				paths = append(paths, m[1])
			}
		}
		errs = append(errs, l.words(paths[i], text))
	}
	return errors.Join(errs...)
}

// unitFiles returns the files that may say how an agent or a bot is started: units, drop-ins, environments by their usual names, and the
// unit that the updater replaced.
func (l *look) unitFiles() (paths []string, err error) {
	paths = []string{"/etc/default/teleport", "/etc/sysconfig/teleport", "/etc/default/tbot", "/etc/sysconfig/tbot", layout.EnvironmentFile}
	var errs []error
	for _, dir := range unitDirs {
		units, err := l.glob(dir + "/*.service")
		drops, err2 := l.glob(dir + "/*.service.d")
		for _, d := range drops {
			more, err := l.glob(d + "/*.conf")
			units, errs = append(units, more...), append(errs, err)
		}
		paths, errs = append(paths, units...), append(errs, err, err2)
	}
	kept, err := l.glob(filepath.Join(layout.DataDir, "versions", "original", "*"))
	return append(paths, kept...), errors.Join(append(errs, err)...)
}

// words notes the configurations that the text of a file names, and looks at its flags and variables for secrets.
func (l *look) words(path, text string) error {
	for _, config := range []*regexp.Regexp{configFlag, configVariable} {
		for _, m := range config.FindAllStringSubmatch(text, -1) {
			if filepath.IsAbs(m[1]) {
				l.config = append(l.config, m[1])
			}
		}
	}
	l.urls(path, text)
	for _, m := range folderFlag.FindAllStringSubmatch(text, -1) {
		l.keyDir(m[1])
	}
	var errs []error
	for _, secret := range []*regexp.Regexp{tokenFlag, variable} {
		for _, m := range secret.FindAllStringSubmatch(text, -1) {
			errs = append(errs, l.value(filepath.Join(l.root, path), m[1]))
		}
	}
	return errors.Join(errs...)
}

// keyDir notes a folder in which private keys may be kept.
func (l *look) keyDir(path string) {
	if dir := filepath.Clean(path); !slices.Contains(l.found.KeyDirs, dir) {
		l.found.KeyDirs = append(l.found.KeyDirs, dir)
	}
}

// urls notes the URLs of a text that hold a secret.
func (l *look) urls(path, text string) {
	where := filepath.Join(l.root, path)
	if passwordInURL.MatchString(text) {
		l.secret("%s holds a token: the password in a URL", where)
	}
	if secretInQuery.MatchString(text) {
		l.secret("%s holds a token: in the query of a URL", where)
	}
}

// readAny reads a file. It returns nothing for a folder, a mask or a link that leads nowhere on an image.
func (l *look) readAny(path string) ([]byte, error) {
	at, err := l.resolve(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if info, err := os.Lstat(at); err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	return l.read(path)
}

// starts reports whether a file helps to start an agent or a bot.
func starts(path string, data []byte) bool {
	for _, word := range []string{"teleport", "tbot"} {
		if strings.Contains(path, word) || bytes.Contains(data, []byte(word)) {
			return true
		}
	}
	return false
}
