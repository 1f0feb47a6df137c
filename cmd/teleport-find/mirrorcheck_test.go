package main

import (
	"crypto/sha256"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/integration/tarball"
)

func TestAMirrorIsCheckedByTheRulesOfHosts(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, data []byte, checksum string) {
		write(t, filepath.Join(dir, name), string(data))
		if checksum != "" {
			write(t, filepath.Join(dir, name+".sha256"), checksum+"  "+name+"\n")
		}
	}
	digest := func(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }
	check := func(code int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, log buffer
		cmd := exec.Command(binary(t), append([]string{"mirror", "--check"}, args...)...)
		cmd.Dir = dir
		cmd.Stdout, cmd.Stderr = &out, &log
		cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Errorf("mirror --check %v: exit code %d; want %d\n%s%s", args, got, code, out.String(), log.String())
		}
		return out.String(), log.String()
	}

	sound := tarball.Gzip(tarball.Of(tarball.Sound("15.1.1")...))
	put("README.txt", []byte("not a tarball"), "")
	put(".part.tar.gz", []byte("half of one"), "")
	if _, log := check(1, "--to", dir); !strings.Contains(log, "there is no tarball in "+dir) {
		t.Errorf("of a folder without tarballs it says %s", log)
	}
	put("a.tar.gz", sound, digest(sound))
	if out, log := check(0, "--to", dir); out != dir+"/a.tar.gz: ok\n" || log != "" {
		t.Errorf("of a sound folder it says\n%s%s", out, log)
	}

	evil := tarball.Zstd(tarball.Of(append(tarball.Without(tarball.Sound("15.1.1"), "teleport/teleport"),
		tarball.Item{Name: "teleport/su", Mode: 0o4755}, tarball.Item{Name: "/etc/passwd"})...))
	put("b.tar.zst", evil, digest(evil))
	put("c.tgz", sound, digest(evil))
	put("d.tar.gz", sound, "")
	put("e.tar.gz", sound[:len(sound)-20], "no checksum")
	want := []string{
		`/a.tar.gz: ok`,
		`/b.tar.zst: entry "teleport/su" has mode 04755: no setuid, setgid or sticky files`,
		`/b.tar.zst: entry "/etc/passwd" has a name that is not clean and relative`,
		`/b.tar.zst: it holds no executable teleport in its top folder`,
		`/c.tgz: its checksum file says sha256 ` + digest(evil) + `, and it has ` + digest(sound),
		`/d.tar.gz: it has no checksum file; hosts that read the folder themselves need one`,
		`/e.tar.gz: it ends in the middle of the compressed data`,
		`/e.tar.gz: file://` + dir + `/e.tar.gz.sha256: the checksum file does not begin with a SHA-256 (64 hex digits) but with "no checksum  e.tar.gz\n"`,
	}
	out, log := check(1, "--to", dir)
	if out != dir+strings.Join(want, "\n"+dir)+"\n" || !strings.Contains(log, "4 of 5 tarballs would be refused by hosts") {
		t.Errorf("it says\n%s%s\nwant\n%s", out, log, strings.Join(want, "\n"))
	}
	// As JSON, each file is a line.
	out, _ = check(1, "-o", "json", "a.tar.gz", "b.tar.zst", "none.tar.gz")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 3 || lines[0] != `{"file":"a.tar.gz","is":"ok"}` ||
		!strings.HasPrefix(lines[1], `{"file":"b.tar.zst","is":"refused","problems":["entry \"teleport/su\" has mode`) || lines[2] != `{"file":"none.tar.gz","is":"refused"}` {
		t.Errorf("as JSON it says\n%s", out)
	}
	if out, _ := check(0, "-o", "yaml", "a.tar.gz"); out != "- file: a.tar.gz\n  is: ok\n" {
		t.Errorf("as YAML it says\n%s", out)
	}
	// Named ones need no checksum file yet, and flags may follow them.
	if out, _ := check(0, "a.tar.gz", "d.tar.gz"); out != "a.tar.gz: ok\nd.tar.gz: ok\n" {
		t.Errorf("of named ones it says\n%s", out)
	}
	if out, log := check(1, "none.tar.gz", "a.tar.gz", "--to", dir); out != "a.tar.gz: ok\n" || !strings.Contains(log, "none.tar.gz") || !strings.Contains(log, "1 of 2 tarballs") {
		t.Errorf("of one that is not there it says\n%s%s", out, log)
	}
	check(2)
}
