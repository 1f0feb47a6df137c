package packaging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// script is how one of the product's scripts is called, and what becomes of the files
// that it looks at.
type script struct {
	args  []string
	also  []string // paths that the script puts together
	runs  []string // what it runs, links or reads to act on, if it is root's alone
	after string   // prepares the host, once everything is planted
}

// scripts are all scripts of the product.
var scripts = map[string]script{
	"installscript/install.sh": {
		runs: []string{"/usr/bin/teleport-update", "/usr/local/sbin/teleport-update", "/var/lib/teleport/updater/teleport-update"},
	},
	"automation/update-agent.sh": {
		args: []string{"proxy.example.com"},
		also: []string{
			"/opt/teleport-agent/1.1.0/teleport", "/opt/teleport-agent/1.0.0/teleport",
			"/opt/teleport-agent/1.1.0/examples/systemd/teleport.service", "/usr/local/lib/systemd/system/teleport.service",
		},
		runs: []string{"/opt/teleport-agent/1.1.0/teleport", "/opt/teleport-agent/1.0.0/teleport"},
		after: `for v in 1.0.0 1.1.0; do d=/opt/teleport-agent/$v; mkdir -p $d/examples/systemd
			for f in teleport examples/systemd/teleport.service; do [ -e $d/$f ] || [ -L $d/$f ] || cp /root/sound $d/$f; done; done
			[ -e /usr/local/bin/teleport ] || [ -L /usr/local/bin/teleport ] || ln -s /opt/teleport-agent/1.0.0/teleport /usr/local/bin/teleport`,
	},
	"teleport-update/examples/webhook.sh": {runs: []string{"/etc/teleport-update/webhook.url"}},
	"teleport-update/deb/postinst": {
		args: []string{"configure", ""}, runs: []string{"/usr/bin/teleport-update", "/var/lib/teleport/updater"},
		after: "mkdir -p /usr/local/lib/systemd/system; touch /usr/local/lib/systemd/system/teleport-update.timer",
	},
	"teleport-update/deb/prerm": {
		args: []string{"remove"}, runs: []string{"/usr/bin/teleport-update"},
		after: "mkdir -p /var/lib/teleport/versions; touch /var/lib/teleport/versions/journal.json",
	},
	"teleport-update/deb/postrm": {args: []string{"purge"}},
	"teleport-update/rpm/post": {
		args: []string{"1"}, runs: []string{"/usr/bin/teleport-update", "/var/lib/teleport/updater"},
		after: "mkdir -p /usr/local/lib/systemd/system; touch /usr/local/lib/systemd/system/teleport-update.timer",
	},
	"teleport-update/rpm/preun": {
		args: []string{"0"}, runs: []string{"/usr/bin/teleport-update"},
		after: "mkdir -p /var/lib/teleport/versions; touch /var/lib/teleport/versions/journal.json",
	},
	"teleport-update/rpm/postun": {args: []string{"0"}},
	"teleport-find/deb/postinst": {args: []string{"configure", "1.0.0"}},
	"teleport-find/deb/prerm":    {args: []string{"remove"}},
	"teleport-find/deb/postrm":   {args: []string{"purge"}},
	"teleport-find/rpm/pre":      {},
	"teleport-find/rpm/post":     {args: []string{"2"}},
	"teleport-find/rpm/preun":    {args: []string{"0"}},
	"teleport-find/rpm/postun":   {args: []string{"0"}},
	"cloud-init/seal-image.sh": {
		args: []string{"/mnt/image"}, after: "mkdir -p /mnt/image/etc",
		also: []string{"/mnt/image/usr/bin/teleport-update", "/mnt/image/var/lib/teleport/updater/teleport-update", "/usr/bin/teleport-update"},
		runs: []string{"/mnt/image/usr/bin/teleport-update", "/mnt/image/var/lib/teleport/updater/teleport-update", "/usr/bin/teleport-update"},
	},
}

// planted is what stands at a path. Shell code puts it there; P is the path, D a folder
// above it.
var planted = map[string]string{
	"another user's file":                            `cp /root/program $P; chown 1234:1234 $P`,
	"a file that everybody may write":                `cp /root/program $P; chmod 777 $P`,
	"a file that a group may write":                  `cp /root/program $P; chgrp 1234 $P; chmod 775 $P`,
	"another user's link to root's file":             `ln -s /root/program $P; chown -h 1234 $P`,
	"another user's link to root's secret":           `ln -s /root/secret $P; chown -h 1234 $P`,
	"a link of root's through another user's folder": `mkdir -p /srv/way; ln -s /root/program /srv/way/on; chown 1234 /srv/way; ln -s /srv/way/on $P`,
	"another user's pipe":                            `mkfifo $P; chmod 777 $P; chown 1234 $P`,
	"a file in another user's folder":                `cp /root/program $P; chown 1234 $D`,
	"a file in a folder that everybody may write":    `cp /root/program $P; chmod 777 $D`,
}

// ownersHost lays out what all scripts find: programs that note how they are called in the
// place of those that would change a machine, and the files that are planted. A service
// that is started runs what is linked.
const ownersHost = `set -eu
cd "$1"; mkdir -p stubs trace root run/systemd/system etc/selinux; : >etc/selinux/config; chmod 755 . stubs root; : >trace/ran; : >trace/called; chmod 777 trace trace/*
printf '#!/bin/sh\nid -u >>/trace/ran\n# http://hook.example.com\n' >root/program
printf '#!/bin/sh\n:\n' >root/sound
printf 'SECRET-OF-ROOT\n' >root/secret; chmod 600 root/secret; chmod 755 root/program root/sound
for s in deb-systemd-invoke semodule selinuxenabled restorecon load_policy getent useradd systemd-sysusers apt-get dnf sync sleep wget; do
	printf '#!/bin/sh\necho "$0 $*" >>/trace/called\n' >stubs/$s
done
cat >stubs/systemctl <<'END'
#!/bin/sh
echo "$0 $*" >>/trace/called
case $* in *restart*teleport) /usr/local/bin/teleport ;; *"is-active --quiet teleport") ;; *is-active*|*list-units*) exit 1 ;; esac
END
cat >stubs/curl <<'END'
#!/bin/sh
echo "$0 $*" >>/trace/called
case $* in *--config*) cat >>/trace/called; id -u >>/trace/ran ;; *find*) printf '{"agent_version": "%s", "agent_auto_update": true}\n' "${VERSION-1.1.0}" ;; esac
END
chmod 755 stubs/*
`

// Root runs, links and sends nothing that another user could have put there, whichever
// file it is and however it came to be another's.
func TestNoScriptBelievesAnotherUsersFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("each script runs hundreds of times")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to others")
	}
	found := productScripts(t)
	if names := slices.Sorted(maps.Keys(scripts)); !slices.Equal(found, names) {
		t.Fatalf("the product has the scripts\n%q; the table has\n%q", found, names)
	}
	base := ownersBase(t)
	for _, name := range found {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scripts[name]
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			paths := append(slices.Clone(s.also), lookedAt(string(text))...)
			for _, p := range s.runs {
				if !slices.Contains(paths, p) {
					t.Fatalf("%s is not among what the script looks at: %q", p, paths)
				}
				if got := runOn(t, base, name, s, p, "", `cp /root/program $P`); got.acted == "" {
					t.Errorf("with %s of root's alone it does nothing with it: %s", p, got.out)
				}
			}
			for _, p := range paths {
				for kind, plant := range planted {
					if !slices.Contains(s.runs, p) && !strings.HasPrefix(kind, "another user's") {
						continue // it is only looked at
					}
					dirs := []string{filepath.Dir(p)}
					if strings.Contains(plant, "chown 1234 $D") {
						dirs = foldersAbove(p)
					}
					for _, d := range dirs {
						got := runOn(t, base, name, s, p, d, plant)
						what := fmt.Sprintf("%s: %s (%s)", p, kind, d)
						if got.hung {
							t.Errorf("%s: it waits for ever", what)
						}
						if got.acted != "" {
							t.Errorf("%s: root acts by it: %s\n%s", what, got.acted, got.out)
						}
						if strings.Contains(got.out, "SECRET-OF-ROOT") {
							t.Errorf("%s: a file of root's is told: %s", what, got.out)
						}
					}
				}
			}
		})
	}
}

// ownersBase is what ownersHost lays out.
func ownersBase(t *testing.T) string {
	t.Helper()
	base := t.TempDir()
	if out, err := exec.Command("sh", "-c", ownersHost, "sh", base).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return base
}

// productScripts are the shell scripts below packaging.
func productScripts(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		// The scripts in the folder itself run where packages are built.
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".go") || filepath.Dir(path) == "." {
			return err
		}
		text, err := os.ReadFile(path)
		if rpm := filepath.Base(filepath.Dir(path)) == "rpm"; rpm || bytes.HasPrefix(text, []byte("#!/bin/sh")) {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// lookedAt are the paths that a script names, but for the system's own folders.
func lookedAt(text string) (paths []string) {
	absolute := regexp.MustCompile(`(?:^|[\s"=:-])(/(?:usr|etc|var|opt)/[A-Za-z0-9._/-]*[A-Za-z0-9])`)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, m := range absolute.FindAllStringSubmatch(line, -1) {
			if p := m[1]; !slices.Contains(paths, p) && !systems[p] {
				paths = append(paths, p)
			}
		}
	}
	return paths
}

// systems are folders without which there is no system to run a script on.
var systems = map[string]bool{"/": true, "/usr": true, "/usr/bin": true, "/usr/sbin": true, "/usr/lib": true, "/etc": true}

func foldersAbove(path string) (dirs []string) {
	for d := filepath.Dir(path); d != "/"; d = filepath.Dir(d) {
		if !systems[d] {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

type outcome struct {
	acted string // what root did by what was planted
	out   string // all that it said and sent
	hung  bool
}

// runOn runs a script as root on a copy of this machine that nobody else sees, with
// something planted at a path.
func runOn(t *testing.T, base, name string, s script, path, dir, plant string) outcome {
	t.Helper()
	file, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	quoted := ""
	for _, a := range s.args {
		quoted += " '" + a + "'"
	}
	inside := `set -eu
mkdir -p ${P%/*}; if [ -d $P ] && [ ! -L $P ]; then chown 1234 $P; [ -n "$D" ] || chown 0 $P; else rm -f $P; ` + plant + `; fi
{ :; ` + s.after + `
} 2>/dev/null || true
export PATH=/stubs:/usr/sbin:/usr/bin:/sbin:/bin WATCH=0
links() { for l in /usr/local/bin/*; do readlink $l || true; done; }
before=$(links)
timeout 60 sh /script` + quoted + ` </dev/null 2>&1 && code=0 || code=$?
cat /trace/called
echo; echo "==acted"
sed 's/^/ran by uid /' /trace/ran
grep -F "restorecon -RF $P" /trace/called || true
[ "$(links)" = "$before" ] || for l in $(links); do
	namei -l $l | grep -v '^f:' | grep -qEv '^ *(l|.....-..-|.......w[tT])\S* root ' && echo "linked $l, which is not root's alone" || true
done
[ "$(cat /root/secret)" = SECRET-OF-ROOT ] || echo "wrote root's file"
[ $code != 124 ] || echo "==hung"
`
	outside := `set -eu
mount -t tmpfs none "$W"; mkdir "$W/upper" "$W/work" "$W/root"
cp -a "$BASE/." "$W/upper"
mount -t overlay overlay -o lowerdir=/,upperdir="$W/upper",workdir="$W/work" "$W/root"
mount -t proc proc "$W/root/proc"; mount --bind /dev "$W/root/dev"
cat >"$W/root/script"
exec chroot "$W/root" /bin/sh -c "$INSIDE"`
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--fork", "sh", "-c", outside)
	cmd.Env = append(os.Environ(), "W="+t.TempDir(), "BASE="+base, "INSIDE="+inside, "P="+path, "D="+dir)
	cmd.Stdin = bytes.NewReader(source)
	out, err := cmd.CombinedOutput()
	before, acted, ok := strings.Cut(string(out), "\n==acted\n")
	if !ok {
		t.Fatalf("%s with %s: %v\n%s", name, path, errors.Join(err, ctx.Err()), out)
	}
	acted, _, hung := strings.Cut(acted, "==hung")
	return outcome{acted: strings.TrimSpace(acted), out: before, hung: hung}
}

// What decides whom root believes is one text in all scripts, each of which stands alone.
func TestScriptsDecideAlikeWhatIsRootsAlone(t *testing.T) {
	var first, from string
	for _, name := range productScripts(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, body, ok := strings.Cut(string(text), "# trusted FILE:")
		if !ok {
			continue
		}
		body, _, ok = strings.Cut(body, "\n)\n")
		if first == "" {
			first, from = body, name
		}
		if !ok || body != first {
			t.Errorf("trusted is another function in %s than in %s", name, from)
		}
	}
	if first == "" {
		t.Error("no script has the function")
	}
}
