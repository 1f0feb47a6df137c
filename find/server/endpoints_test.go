package server

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/find/server/channels"
	"teleport-update/find/server/files"
	"teleport-update/find/server/page"
)

var (
	endpoint = regexp.MustCompile(`"(GET|PUT|POST|DELETE) (/[^"{]*)`)
	ofTime   = regexp.MustCompile(`(?i)clock|time|now|date\b`)
	named    = regexp.MustCompile(`"(?:GET|PUT|POST|DELETE) "\s*\+\s*(?:\w+\.)?(\w+)`)
)

// The threat model has a row for each endpoint that the code has, with who may call it and
// what that can do to a fleet. None of them is about the time.
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
	has := func(method, path string) {
		t.Helper()
		if ofTime.MatchString(path) {
			t.Errorf("%s %s is about the time, which the server is told by nobody", method, path)
		}
		for _, row := range rows {
			cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
			said := len(cells) == 3 && !slices.ContainsFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "" })
			if strings.Contains(cells[0], method) && strings.Contains(cells[0], path) && said {
				return
			}
		}
		t.Errorf("docs/development/threat-model.md does not say who may call %s %s, and what that can do", method, path)
	}
	has("POST", find.JoinPath)
	has("POST", find.HeartbeatPath)
	for _, name := range []string{"apt", "yum"} {
		has("GET", "/"+name+"/")
	}
	names := map[string]string{"ReleasesPath": files.ReleasesPath, "PackagesPath": files.PackagesPath, "ChannelPath": channels.ChannelPath, "InstallScriptPath": InstallScriptPath, "Path": page.Path}
	here, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	rooms, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range append(here, rooms...) {
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
			if method, path := m[1], strings.TrimSuffix(m[2], "/"); (method != "GET" || !strings.HasPrefix(name, "admin/")) && path != "" && path != "/v1" {
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
