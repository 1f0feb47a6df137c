package installer

import (
	"path/filepath"
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
	}
}
