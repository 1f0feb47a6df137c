package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/find/server/adminapi"
)

// What is exported is what the server serves, path by path; another export writes what
// has changed, and nothing else.
func TestExportedChannelsAreThoseOfTheServer(t *testing.T) {
	s := newStation(t, map[string]int{"dev": 1, "prod": 1})
	write(t, filepath.Join(s.dir, "groups.yaml"), schedule)
	files := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(s.dir, "public"))))
	defer files.Close()
	get := func(url string) string {
		t.Helper()
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != 200 {
			return fmt.Sprint(resp.StatusCode)
		}
		return string(body)
	}
	same := func(want string) {
		t.Helper()
		for _, below := range []string{"/v1/default/", "/v1/webapi/automaticupgrades/channel/default/"} {
			for _, what := range []string{"version", "critical"} {
				if server, file := get(s.http.URL+below+what), get(files.URL+below+what); server != file || what == "version" && file != want {
					t.Errorf("%s%s: the server says %q, the file %q; want %q", below, what, server, file, want)
				}
			}
		}
	}
	if out := s.run("channels --export public --dry-run"); !strings.Contains(out, "would be written") {
		t.Errorf("a dry run says\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "public")); err == nil {
		t.Error("a dry run has written files")
	}
	s.run("channels --export public")
	same("404")
	s.run("apply -f groups.yaml")
	s.run("set-version 15.2.0 --start 15.1.1")
	s.tick()
	s.run("channels --export public")
	same("404") // it is not the turn of the group
	s.run("set-version 15.3.0 --schedule immediate")
	s.tick()
	if out := s.run("channels --export public"); !strings.Contains(out, "public/v1/default/critical") || strings.Contains(out, "unchanged") {
		t.Errorf("it says\n%s", out)
	}
	same("15.3.0")
	if out := s.run("channels --export public"); strings.Count(out, "unchanged") != 4 {
		t.Errorf("nothing has changed, and it says\n%s", out)
	}
	// A version that is taken back goes from the files too.
	s.run("mode suspended")
	s.run("channels --export public")
	same("404")
	if out := s.run("channels --export groups.yaml"); !strings.Contains(out, "(exit code 1)") {
		t.Errorf("a file in the way:\n%s", out)
	}
	for _, args := range []string{"channels --export", "channels --export a b", "channels x", "channels --dry-run"} {
		if out := s.run(args); !strings.Contains(out, "(exit code 2)") {
			t.Errorf("%s:\n%s", args, out)
		}
	}
}

// Of the two files of a channel, who reads between the writes finds none that makes an
// updater move sooner than before and after.
func TestTheOrderOfExportedFiles(t *testing.T) {
	for _, tc := range []struct {
		critical bool
		want     string
	}{{true, "version critical"}, {false, "critical version"}} {
		done, err := exportChannel(filepath.Join(t.TempDir(), "a"), adminapi.Channel{Name: "a", Version: "15.1.1", Critical: tc.critical}, false)
		var order []string
		for _, f := range done {
			order = append(order, filepath.Base(f.File))
		}
		if got := strings.Join(order, " "); err != nil || got != tc.want {
			t.Errorf("critical %t: %s, %v; want %s", tc.critical, got, err, tc.want)
		}
	}
}
