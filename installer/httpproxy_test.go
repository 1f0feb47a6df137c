package installer

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAnHTTPProxyThatOnlyTheShellKnows(t *testing.T) {
	for name, tc := range map[string]struct {
		shell map[string]string
		file  string // - for none
		want  string
	}{
		"no proxy":                        {nil, "-", ""},
		"exceptions alone mean nothing":   {map[string]string{"NO_PROXY": "x"}, "-", ""},
		"no file":                         {map[string]string{"HTTPS_PROXY": "http://p:1"}, "-", "HTTPS_PROXY"},
		"in small letters":                {map[string]string{"https_proxy": "http://p:1", "no_proxy": "x"}, "", "HTTPS_PROXY NO_PROXY"},
		"a comment is none":               {map[string]string{"HTTPS_PROXY": "http://p:1"}, "#HTTPS_PROXY=http://p:1\n", "HTTPS_PROXY"},
		"the timer has it, too":           {map[string]string{"HTTPS_PROXY": "http://p:1"}, "HTTPS_PROXY=http://p:1\n", ""},
		"the timer has another":           {map[string]string{"HTTPS_PROXY": "http://p:1"}, " https_proxy = \"http://q:1\"", ""},
		"the timer has it empty":          {map[string]string{"HTTPS_PROXY": "http://p:1"}, "HTTPS_PROXY=\n", "HTTPS_PROXY"},
		"empty in quotes, after a value":  {map[string]string{"HTTPS_PROXY": "http://p:1"}, "HTTPS_PROXY=http://p:1\nHTTPS_PROXY=\"\"\n", "HTTPS_PROXY"},
		"the timer has one of two":        {map[string]string{"HTTPS_PROXY": "http://p:1", "HTTP_PROXY": "http://p:1"}, "HTTPS_PROXY=x\n", "HTTP_PROXY"},
		"the file has something else yet": {map[string]string{"HTTPS_PROXY": "http://p:1"}, "TELEPORT_UPDATE_GROUP=prod\n", "HTTPS_PROXY"},
	} {
		path := filepath.Join(t.TempDir(), "default", "teleport-update")
		if tc.file != "-" {
			writeFile(t, path, tc.file)
		}
		get := func(name string) string { return tc.shell[name] }
		missing, err := onlyInShell(path, get)
		must(t, err)
		if got := strings.Join(missing, " "); got != tc.want {
			t.Errorf("%s: %q; want %q", name, got, tc.want)
		}
		if tc.want == "" {
			continue
		}
		must(t, keepProxy(path, get))
		if left, err := onlyInShell(path, get); err != nil || len(left) > 0 {
			t.Errorf("%s: kept, and still missing: %v, %v", name, left, err)
		}
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s: others may read the file: %v", name, info.Mode())
		}
	}
}

// What is kept reads as what the shell had, whatever is in it; what else was in the file stays.
func TestAKeptProxyIsTheShells(t *testing.T) {
	path := filepath.Join(t.TempDir(), "teleport-update")
	writeFile(t, path, "# mine\nGROUP=prod\nhttps_proxy=http://old:1\nLAST=1")
	values := map[string]string{"HTTPS_PROXY": `http://a\b:"c' $d@p.example:3128`, "NO_PROXY": "localhost, 10.0.0.0/8"}
	must(t, keepProxy(path, func(name string) string { return values[name] }))
	content, err := os.ReadFile(path)
	must(t, err)
	lines := strings.Split(string(content), "\n")
	for _, line := range []string{"# mine", "GROUP=prod", "LAST=1"} {
		if !slices.Contains(lines, line) {
			t.Errorf("%q is not in\n%s", line, content)
		}
	}
	if strings.Contains(string(content), "old") {
		t.Errorf("the old one stays:\n%s", content)
	}
	// A shell reads double quotes as systemd does, but for the dollar sign.
	for name, value := range values {
		text := strings.ReplaceAll(string(content), "$", `\$`)
		out, err := exec.Command("sh", "-c", text+fmt.Sprintf("\nprintf %%s \"$%s\"", name)).Output()
		if err != nil || string(out) != value {
			t.Errorf("%s is read as %q, %v; want %q", name, out, err, value)
		}
	}
	if err := keepProxy(path, func(string) string { return "http://p:1\nGROUP=evil" }); err == nil {
		t.Error("a value of two lines was written")
	}
	must(t, os.Remove(path))
	must(t, os.Symlink("/etc/hostname", path))
	if err := keepProxy(path, func(name string) string { return values[name] }); err == nil {
		t.Error("a link was written through")
	}
}
