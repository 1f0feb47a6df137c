package main

import (
	"crypto/sha256"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/integration/tarball"
	"teleport-update/internal/sharedbuffer"
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
		var out, log sharedbuffer.Buffer
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

// With keys, mirror takes nothing that none of them has signed, and --check finds it.
func TestAMirrorIsFilledWithSignedTarballsAlone(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not here")
	}
	from, to := t.TempDir(), t.TempDir()
	put := func(v string) string {
		data := tarball.Gzip(tarball.Of(tarball.Sound(v)...))
		name := "teleport-v" + v + "-linux-amd64-bin.tar.gz"
		write(t, filepath.Join(from, name), string(data))
		write(t, filepath.Join(from, name+".sha256"), fmt.Sprintf("%x  %s\n", sha256.Sum256(data), name))
		return name
	}
	signed, unsigned := put("15.1.1"), put("15.1.2")
	script := `openssl ecparam -name prime256v1 -genkey -noout -out key.pem
		openssl ec -in key.pem -pubout -out release.pem 2>/dev/null
		openssl ecparam -name prime256v1 -genkey -noout | openssl ec -pubout -out other.pem 2>/dev/null
		openssl dgst -sha256 -sign key.pem "$1" | base64 -w0 > "$1.sig"`
	sh := exec.Command("sh", "-ec", script, "sh", signed)
	sh.Dir = from
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := func(code int, args ...string) string {
		t.Helper()
		var out sharedbuffer.Buffer
		cmd := exec.Command(binary(t), append([]string{"mirror", "--to", to}, args...)...)
		cmd.Stdout, cmd.Stderr = &out, &out
		cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Errorf("mirror %v: exit code %d; want %d\n%s", args, got, code, out.String())
		}
		return out.String()
	}
	source := []string{"--arch", "amd64", "--template", "file://" + from + "/teleport-v{{.Version}}-{{.OS}}-{{.Arch}}-bin.tar.gz"}
	key, other := filepath.Join(from, "release.pem"), filepath.Join(from, "other.pem")
	run(0, append(source, "--release-key", key, "15.1.1")...)
	if out := run(1, append(source, "--release-key", key, "15.1.2")...); !strings.Contains(out, "the signature of "+unsigned) {
		t.Errorf("of an unsigned tarball it says %s", out)
	}
	if out := run(0, "--check", "--release-key", other, "--release-key", key); !strings.Contains(out, signed+": ok") {
		t.Errorf("the check says %s", out)
	}
	if out := run(1, "--check", "--release-key", other); !strings.Contains(out, "none of the keys made this signature") {
		t.Errorf("by another key the check says %s", out)
	}
	if out := run(1, "--check", "--release-key", filepath.Join(from, "key.pem")); !strings.Contains(out, "private key") {
		t.Errorf("of a private key it says %s", out)
	}
	run(0, append(source, "15.1.2")...) // without a key, as before
	if out := run(1, "--check", "--release-key", key); !strings.Contains(out, unsigned+": there is no signature beside it") {
		t.Errorf("of an unsigned tarball the check says %s", out)
	}
	run(0, "--check")
}
