package installer

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
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

// keepProxy writes the proxy of the shell into the file that the timer's runs take their
// environment from, for root alone: the address may hold a password. Lines of other variables
// stay; lines of the proxy are replaced.
func keepProxy(path string, get func(string) string) error {
	content, err := readEnvironment(path)
	if err != nil {
		return err
	}
	proxy := httpProxy(get)
	var kept strings.Builder
	for line := range strings.Lines(content) {
		replaced := false
		for name := range assigned(line) {
			replaced = proxy[name] != ""
		}
		if replaced {
			continue
		}
		kept.WriteString(strings.TrimSuffix(line, "\n") + "\n")
	}
	for _, name := range slices.Sorted(maps.Keys(proxy)) {
		if strings.ContainsAny(proxy[name], "\n\r\x00") {
			return fmt.Errorf("%s has more than one line", name)
		}
		// As systemd reads it: in double quotes, these two have a meaning.
		fmt.Fprintf(&kept, "%s=\"%s\"\n", name, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(proxy[name]))
	}
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(path, []byte(kept.String()), 0o600)
}

// seeHTTPProxy has the timer's runs reach the servers that enable has reached: it writes the proxy of the shell down if it is to be kept,
// and else warns that only this shell knows it.
func (i *Installer) seeHTTPProxy(keep bool) error {
	path := layout.EnvironmentFile
	missing, err := onlyInShell(path, os.Getenv)
	if err != nil {
		i.Machine.Host.Log.Warn("nobody knows whether the runs of the timer use an HTTP proxy", "error", err)
		return nil
	}
	switch {
	case keep && httpProxy(os.Getenv) != nil:
		// Also if the file has a proxy: this shell's may be another one.
	case len(missing) == 0:
		return nil
	case !keep:
		i.Machine.Host.Log.Warn("this shell alone knows an HTTP proxy, and the runs of the timer reach no server through it: "+
			"write it into the file, or run the command again with --keep-proxy", "variables", strings.Join(missing, " "), "file", path)
		return nil
	}
	if err := keepProxy(path, os.Getenv); err != nil {
		return &failure.Error{What: fmt.Errorf("the HTTP proxy could not be kept for the runs of the timer: %w", err),
			State: "updates are enabled", Fix: "remove the cause and run the command again, or write the variables into " + path}
	}
	i.Machine.Host.Log.Info("the runs of the timer use the HTTP proxy of this shell", "variables",
		strings.Join(slices.Sorted(maps.Keys(httpProxy(os.Getenv))), " "), "file", path)
	return nil
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
