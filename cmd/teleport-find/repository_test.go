package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestServeARepository(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command(binary(t), "serve", "--listen", "127.0.0.1:0", "--repository", dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "neither apt nor yum") || strings.Contains(string(out), "listening") {
		t.Errorf("a folder that is no repository: %v\n%s", err, out)
	}
	if err := os.Mkdir(filepath.Join(dir, "apt"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "apt/InRelease"), "signed")
	s := serveProcess(t, []string{"TELEPORT_FIND_REPOSITORY=" + dir}, "--listen", "127.0.0.1:0")
	if status, body := s.get("/apt/InRelease"); status != 200 || body != "signed" {
		t.Errorf("a file of the repository: %d %q", status, body)
	}
	if status, _ := s.get("/webapi/find"); status != 200 {
		t.Errorf("find beside the repository: %d", status)
	}
}
