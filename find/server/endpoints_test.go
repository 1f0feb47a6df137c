package server

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"teleport-update/find"
)

var (
	endpoint = regexp.MustCompile(`"(GET|PUT|POST|DELETE) (/[^"{]*)`)
	named    = regexp.MustCompile(`"(?:GET|PUT|POST|DELETE) "\s*\+\s*(\w+)`)
)

// The threat model has a row for each endpoint that the code has.
func TestTheThreatModelHasEachEndpoint(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "development", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "|") {
			rows = append(rows, line)
		}
	}
	table := strings.Join(rows, "")
	has := func(method, path string) {
		t.Helper()
		if !strings.Contains(table, path) {
			t.Errorf("docs/development/threat-model.md does not say who may call %s %s", method, path)
		}
	}
	has("POST", find.JoinPath)
	has("POST", find.HeartbeatPath)
	for _, name := range repositoryFolders {
		has("GET", "/"+name+"/")
	}
	names := map[string]string{"ReleasesPath": ReleasesPath, "PackagesPath": PackagesPath, "ChannelPath": ChannelPath, "InstallScriptPath": InstallScriptPath}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range endpoint.FindAllStringSubmatch(string(source), -1) {
			found++
			// Looking at the admin API is one row, and nothing else is below /v1/ but channels.
			if method, path := m[1], strings.TrimSuffix(m[2], "/"); (method != "GET" || !strings.HasPrefix(name, "admin")) && path != "" && path != "/v1" {
				has(method, path)
			}
		}
		for _, m := range named.FindAllStringSubmatch(string(source), -1) {
			if names[m[1]] == "" {
				t.Errorf("%s has an endpoint at %s, which this test does not know", name, m[1])
			}
			has("GET", names[m[1]])
		}
	}
	if found < 20 {
		t.Errorf("there are only %d endpoints: this test looks in the wrong place", found)
	}
}
