package installscript

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheAddressIsFilledInWhereItIsSafe(t *testing.T) {
	for _, address := range []string{
		"https://find.example.com", "https://find.example.com:3080", "http://127.0.0.1:3080", "https://[2001:db8::1]:443",
	} {
		for _, releases := range []bool{false, true} {
			filled, err := For(address, releases)
			if err != nil {
				t.Error(err)
				continue
			}
			text := string(filled)
			if strings.Count(text, "server='"+address+"'\n") != 1 || strings.Contains(text, noServer) {
				t.Errorf("%s is not in the script", address)
			}
			if strings.Contains(text, "releases=yes\n") != releases || strings.Contains(text, noReleases) == releases {
				t.Errorf("releases %v is not what the script says", releases)
			}
		}
	}
	for _, address := range []string{
		"", "find.example.com", "ftp://find.example.com", "https://", "https://find.example.com/", "https://find.example.com/a",
		"https://a'; touch /tmp/x; '", "https://a$(id)", "https://a`id`", "https://a\nid", "https://a b",
		"https://user:pass@a", "https://a:123456",
		"https://a:80\n", "https://[::1", `https://a\`, "https://a\"",
	} {
		if _, err := For(address, false); err == nil {
			t.Errorf("the address %q was put into the script", address)
		}
	}
}

// shells are those that people pipe the script into.
func shells(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{"dash": {"dash"}, "bash": {"bash", "--posix"}, "busybox": {"busybox", "sh"}}
	for name, args := range all {
		if _, err := exec.LookPath(args[0]); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Logf("NOT TESTED with %s: it is not installed", name)
			delete(all, name)
		}
	}
	return all
}

// A connection that breaks in the middle of the script must not leave half of it
// to be run.
func TestAScriptThatIsCutAnywhereRunsNothing(t *testing.T) {
	whole, err := For("https://find.example.com:3080", true)
	if err != nil {
		t.Fatal(err)
	}
	// Every program that the script could begin with leaves a trace, and so ends
	// it.
	bin, trace := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	for _, name := range strings.Fields(`uname id umask dpkg mktemp curl wget apt-get dnf yum zypper sha256sum chmod cp mv rm mkdir sync
		teleport-update`) {
		content := "#!/bin/sh\necho " + name + " >>" + trace + "\nexit 1\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var cuts []int
	last := strings.LastIndex(strings.TrimSuffix(string(whole), "\n"), "\n") + 1
	for i, c := range whole {
		if testing.Short() && i%7 != 0 && i < last {
			continue
		}
		// In the last lines, anywhere.
		if c == '\n' || i%40 == 0 || i > last-20 {
			cuts = append(cuts, i)
		}
	}
	for name, args := range shells(t) {
		t.Run(name, func(t *testing.T) {
			shell, err := exec.LookPath(args[0])
			if err != nil {
				t.Fatal(err)
			}
			run := func(script []byte) bool {
				t.Helper()
				os.Remove(trace)
				cmd := exec.Command(shell, append(args[1:], "-eu")...)
				// busybox would run its own programs in place of those.
				cmd.Env = []string{"PATH=" + bin}
				cmd.Stdin = strings.NewReader(string(script))
				cmd.CombinedOutput()
				_, err := os.Stat(trace)
				return err == nil
			}
			complete := len(strings.TrimSuffix(string(whole), "\n")) // the last line break is not needed
			for _, cut := range cuts {
				if cut < complete && run(whole[:cut]) {
					ran, _ := os.ReadFile(trace)
					t.Fatalf("cut after %d of %d bytes it ran %s:\n…%s", cut, len(whole), ran, whole[max(0, cut-60):cut])
				}
			}
			if name != "busybox" && !run(whole) {
				t.Error("the whole script runs nothing either")
			}
		})
	}
}

// What a server over plain http sends, anybody on the way may have sent; and root would
// run it. The script says so before it looks at the host.
func TestPlainHTTPIsForThisHostAlone(t *testing.T) {
	taken := []string{
		"https://find.example.com", "https://find.example.com:3080/", "HTTPS://find.example.com", "https://[2001:db8::1]:443",
		"http://127.0.0.1:3080", "http://127.8.9.10", "http://localhost", "http://localhost:80/", "http://[::1]", "http://[::1]:3080",
	}
	refused := []string{
		"http://find.example.com", "HTTP://find.example.com", "find.example.com", "find.example.com:3080", "//find.example.com",
		"ftp://127.0.0.1",
		"http://127.0.0.1.example.com", "http://127.example.com", "http://localhost.example.com", "http://127.0.0.1@example.com",
		"http://localhost:80@example.com",
		"http://127.0.0.1:80:example.com", "http://[::1].example.com", "http://[::1]@example.com", "http://example.com#@127.0.0.1",
		"http://example.com?x=127.0.0.1",
		"http://", "http://127.", "http://127...1", "http://127.0.0.1.5", "http://[::]", "http://0.0.0.0", "http://10.0.0.1",
		`http://example.com\@127.0.0.1`,
	}
	// The script goes on to ask what the host is, and ends there.
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "uname"), []byte("#!/bin/sh\necho Other\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, args := range shells(t) {
		t.Run(name, func(t *testing.T) {
			shell, err := exec.LookPath(args[0])
			if err != nil {
				t.Fatal(err)
			}
			says := func(server string) string {
				cmd := exec.Command(shell, append(args[1:], "install.sh", "--server", server)...)
				cmd.Env = []string{"PATH=" + bin}
				out, err := cmd.CombinedOutput()
				if err == nil {
					t.Errorf("%s: it does not end", server)
				}
				return string(out)
			}
			for _, server := range taken {
				if out := says(server); strings.Contains(out, "--server") {
					t.Errorf("%s: %s", server, out)
				}
			}
			for _, server := range refused {
				if out := says(server); !strings.Contains(out, "--server "+strings.TrimSuffix(server, "/")) || !strings.Contains(out, "want https://") {
					t.Errorf("%s: %s", server, out)
				}
			}
		})
	}
}

// A script that a proxy of this host's passes on may name the server by a loopback address, where any user of this host may
// listen: root would run what that user serves. A person names a server of this host by hand.
func TestAServerOfThisHostIsNamedByHand(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "uname"), []byte("#!/bin/sh\necho Other\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, args := range shells(t) {
		t.Run(name, func(t *testing.T) {
			shell, err := exec.LookPath(args[0])
			if err != nil {
				t.Fatal(err)
			}
			says := func(served string, more ...string) string {
				script, err := For(served, true)
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(shell, append(append(args[1:], "-s", "--"), more...)...)
				cmd.Env, cmd.Stdin = []string{"PATH=" + bin}, strings.NewReader(string(script))
				out, err := cmd.CombinedOutput()
				if err == nil {
					t.Errorf("%s: it does not end", served)
				}
				return string(out)
			}
			for _, here := range []string{"http://127.0.0.1:3080", "http://127.8.9.10", "http://localhost:3080", "http://[::1]:3080", "https://127.0.0.1:3080",
				"https://LocalHost", "https://[::1]", "https://[::]:3080", "https://0.0.0.0:3080", "https://[::ffff:127.0.0.1]"} {
				for _, more := range [][]string{nil, {"--group", "dev"}, {"--proxy", here}} {
					if out := says(here, more...); !strings.Contains(out, "which is this host itself") {
						t.Errorf("%s %q: %s", here, more, out)
					}
				}
				if out := says(here, "--server", "http://127.0.0.1:3080"); !strings.Contains(out, "this is not Linux") {
					t.Errorf("%s, by hand: %s", here, out)
				}
			}
			for _, there := range []string{"https://find.example.com", "https://localhost.example.com", "https://[2001:db8::1]:443", "https://10.0.0.1"} {
				if out := says(there); !strings.Contains(out, "this is not Linux") {
					t.Errorf("%s: %s", there, out)
				}
			}
		})
	}
}

func TestTheScriptIsInOrder(t *testing.T) {
	for name, args := range shells(t) {
		if out, err := exec.Command(args[0], append(args[1:], "-n", "install.sh")...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("NOT TESTED with shellcheck: it is not installed")
	}
	if out, err := exec.Command("shellcheck", "--shell=sh", "install.sh").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
