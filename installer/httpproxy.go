package installer

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/internal/layout"
	"teleport-update/internal/regular"
	"teleport-update/versions"
)

// proxyVariables are the variables in which the HTTP client looks for a proxy. The small ones go before the large ones, as in net/http.
var proxyVariables = []string{"https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"}

// maxEnvironment is far more than an environment file of the updater has.
const maxEnvironment = 64 << 10

// httpProxy returns the variables of an environment that name the proxy for servers, by their large names. It is empty if no proxy is
// named: exceptions alone mean nothing.
func httpProxy(get func(string) string) map[string]string {
	found := make(map[string]string)
	for _, name := range proxyVariables {
		large := strings.ToUpper(name)
		if value := get(name); value != "" && found[large] == "" {
			found[large] = value
		}
	}
	if found["HTTPS_PROXY"] == "" && found["HTTP_PROXY"] == "" {
		return nil
	}
	return found
}

// assigned reads the assignments of an environment file, in the form of systemd's EnvironmentFile=. It returns for each name, in capitals,
// whether its last assignment has a value.
func assigned(content string) map[string]bool {
	names := map[string]bool{}
	for line := range strings.Lines(content) {
		name, value, is := strings.Cut(strings.TrimSpace(line), "=")
		if is && !strings.HasPrefix(name, "#") && !strings.HasPrefix(name, ";") {
			names[strings.ToUpper(strings.TrimSpace(name))] = strings.Trim(value, ` '"`) != ""
		}
	}
	return names
}

// readEnvironment returns the content of an environment file, empty if there is no file.
func readEnvironment(path string) (string, error) {
	data, err := regular.Read(path, maxEnvironment, regular.NoLink)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(data), err
}

// onlyInShell returns the names of the variables that this process has of its shell, and that the runs of the timer will not have.
func onlyInShell(path string, get func(string) string) ([]string, error) {
	content, err := readEnvironment(path)
	if err != nil {
		return nil, err
	}
	there := assigned(content)
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(httpProxy(get))) {
		if !there[name] {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// logHTTPProxy warns if enable reached the servers through an HTTP proxy that the runs of the timer do not have.
func (i *Installer) logHTTPProxy() {
	missing, err := onlyInShell(layout.EnvironmentFile, os.Getenv)
	if err != nil {
		i.Machine.Host.Log.Warn("nobody knows whether the runs of the timer use an HTTP proxy", "error", err)
		return
	}
	if len(missing) > 0 {
		i.Machine.Host.Log.Warn("only this shell has an HTTP proxy, and the runs of the timer reach no server through it: "+
			"write the variables into the file, which only root should read",
			"variables", strings.Join(missing, " "), "file", layout.EnvironmentFile)
	}
}

// rootPath is the default search path of root's shell.
const rootPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// foreignUpdater returns the program that a shell starts as teleport-update if that is not this one: Teleport's own packages have a program
// of that name in a folder that comes before ours. It reads the build information and does not run the program.
func foreignUpdater(path string) string {
	for _, dir := range filepath.SplitList(cmp.Or(path, rootPath)) {
		file := filepath.Join(dir, host.UpdaterName)
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue
		}
		if u, ok := versions.UpdaterAt(file); ok && !u.Ours {
			return file
		}
		return ""
	}
	return ""
}

// logShell says by which name a shell finds this program, if the usual name leads elsewhere.
func (i *Installer) logShell() {
	file := foreignUpdater(os.Getenv("PATH"))
	if file == "" {
		return
	}
	name := i.Machine.Host.Program
	if host.Exists(layout.SecondName) {
		name = filepath.Base(layout.SecondName)
	}
	i.Machine.Host.Log.Warn("a shell starts another program as teleport-update, one of Teleport's own packages; use the other "+
		"name of this program", "other", file, "run", name)
}
