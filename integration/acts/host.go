package acts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
	"teleport-update/versions"
	"teleport-update/versions/fetch"
)

// The versions of a host: the one that it is on, and those that it may go to.
const (
	oldVersion = "1.0.0"
	healthy    = "1.1.0"
	dies       = "1.2.0" // it migrates the database and exits
	unready    = "1.3.0" // it serves, and is never ready
	slow       = "1.4.0" // it needs seconds before it serves
)

// fails reports whether a version is one that no host stays on.
func fails(v string) bool { return v == dies || v == unready }

// schemas are what a database has that belongs to a version.
var schemas = map[string]int{oldVersion: 1, healthy: 2, dies: 2, unready: 2, slow: 2}

// shared is one host that is put back to where a transaction begins, again and again.
type shared struct {
	*scenes.Scene
	own   bool              // the agent runs as a user of its own
	env   []string          // where things are, for scripts
	usual []string          // env, where nobody moved anything
	saved []string          // what a combination may change, and what is put back after it
	rows  int               // of the old version, when a transaction begins
	trees map[string]string // digests of the trees
	wants atomic.Value      // what find wants; empty, what is active

	meeting string // the combination that happens to it
}

const restartDelay = 2600 * time.Millisecond

// foreignText is what files hold that somebody else put on the host.
const foreignText = "put-here-by-somebody-else"

// newShared makes a host whose agent is root, with its data in their usual folder, or
// one whose agent has a user of its own and its data on a mount of its own.
func newShared(t *testing.T, own, original bool) *shared {
	w := &shared{Scene: scenes.New(t), own: own, trees: map[string]string{}}
	data, pidFile := scenes.AgentData, "/run/teleport.pid"
	w.saved = []string{linkDir, "/usr/local/sbin", "/usr/local/lib/systemd", "/etc/systemd/system", "/var/lib/teleport", programs, "/etc/teleport.yaml", "/etc/default", "/etc/passwd"}
	if own {
		data, pidFile = "/srv/agent", "/run/teleport/teleport.pid"
		w.saved = append(w.saved, "/srv/disk")
	}
	w.env = []string{"STORE=" + store, "PROGRAMS=" + programs, "LINKS=" + linkDir, "UNIT=" + unitFile, "DATA=" + data, "UPDATER=" + updater, "PIDFILE=" + pidFile,
		"OLD=" + oldVersion, "ASIDE=/var/tmp/aside", "YESTERDAY=/var/tmp/yesterday", "AWAY=" + data + "/away", "FOREIGN=" + foreignText}
	w.usual = w.env
	w.Put(w.Program(scenes.Endat), "/root/endat")
	w.Writes("wal", 20)
	if own {
		w.ownUser()
	}
	w.wants.Store("")
	w.Breaks(w.answer)
	// Like Teleport's own unit, none of these comes to a limit of starts: systemd starts
	// the agent again as soon as what it failed for is gone.
	old := release.Spec{Version: oldVersion, Schema: schemas[oldVersion]}
	old.Unit.RestartDelay = restartDelay
	w.Release(old)
	// A shorter window is over before a version that is not ready is asked twice.
	w.wants.Store(oldVersion)
	w.Enable("--health-window", "1500ms", "--ready-url", scenes.ReadyURL)
	w.Must("systemctl", "enable", "--now", "teleport")
	if original { // plain files, as from a tarball
		w.Must(updater, "uninstall")
		w.Enable("--health-window", "1500ms", "--ready-url", scenes.ReadyURL)
	}
	for _, s := range []release.Spec{
		{Version: healthy}, {Version: dies, Variant: stamp.MigratesThenExits}, {Version: unready, Variant: stamp.NeverReady},
		{Version: slow, Variant: stamp.SlowToStart},
	} {
		// Its unit is another than the old version's.
		s.Schema, s.Unit.StopTimeout, s.Unit.RestartDelay = schemas[s.Version], 30*time.Second, restartDelay
		w.Release(s)
		w.plant(s.Version)
	}
	w.Grows(5)
	w.save()
	return w
}

// ownUser gives the agent a user, to whom its configuration and its data belong.
func (w *shared) ownUser() {
	w.T.Helper()
	// Private: what is mounted on it does not appear on the disk, too.
	w.Write("/etc/systemd/system/srv-agent.mount", "[Mount]\nWhat=/srv/disk\nWhere=/srv/agent\nType=none\nOptions=bind,private\n[Install]\nWantedBy=multi-user.target\n")
	w.Write("/etc/systemd/system/teleport.service.d/10-user.conf", `[Unit]
RequiresMountsFor=/srv/agent
[Service]
User=agent
RuntimeDirectory=teleport
RuntimeDirectoryPreserve=yes
ExecStart=
ExecStart=/usr/local/bin/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport/teleport.pid
ExecReload=
ExecReload=/bin/sh -c "exec pkill -HUP -L -F /run/teleport/teleport.pid"
PIDFile=/run/teleport/teleport.pid
`)
	w.script("", `sed -i 's|^teleport:|&\n  data_dir: /srv/agent|' /etc/teleport.yaml
		echo agent:x:990:990::/nonexistent:/bin/sh >>/etc/passwd; echo agent:x:990: >>/etc/group
		mkdir -p /srv/disk /srv/agent; chown agent: /srv/disk /etc/teleport.yaml
		systemctl daemon-reload; systemctl enable --now srv-agent.mount`)
}

var activeLine = regexp.MustCompile(`(?m)^ *active_version: *(\S+)$`)

// answer has find want what is active, unless it insists on another version.
func (w *shared) answer(_ http.ResponseWriter, r *http.Request) bool {
	if v := w.wants.Load().(string); v != "" {
		w.Wants(v)
		return false
	}
	config, err := w.ReadFile(store + "/updates.yaml")
	if found := activeLine.FindSubmatch(config); err == nil && found != nil {
		w.Wants(string(found[1]))
	}
	return false
}

// plant puts a version into the store of the host as a fetch would.
func (w *shared) plant(v string) {
	w.T.Helper()
	source, err := fetch.ParseTemplate("file://" + filepath.Join(w.Releases, release.Name(v, version.OSS)))
	w.Check(err)
	dir := w.T.TempDir()
	kept := versions.NewStore(filepath.Join(dir, "store"))
	kept.Programs = filepath.Join(dir, "programs")
	f := fetch.New(kept, nil, slog.New(slog.DiscardHandler))
	tree, err := f.Fetch(w.T.Context(), fetch.Request{Release: versions.Release{Version: v, Edition: version.OSS}, Sources: []*fetch.Template{source}})
	w.Check(err)
	w.trees[v] = tree.SHA256
	for from, to := range map[string]string{tree.Dir: store, tree.Programs: programs} {
		files, err := exec.CommandContext(w.T.Context(), "tar", "-cC", from, ".").Output()
		w.Check(err)
		w.script(string(files), `mkdir -p "$1"; tar -xC "$1"; [ ! -L "$1/bin" ] || { ln -sfn "$2/bin" "$1/bin"; ln -sfn "$2/etc" "$1/etc"; }`, to+"/"+v, programs+"/"+v)
	}
	w.Check(os.RemoveAll(dir))
}

// script runs a shell script in the host, which must succeed.
func (w *shared) script(stdin, script string, args ...string) string {
	w.T.Helper()
	r := w.try(stdin, script, args...)
	if r.Code != 0 {
		w.T.Fatalf("exit code %d of\n%s\n%s%s", r.Code, script, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

func (w *shared) try(stdin, script string, args ...string) host.Result {
	w.T.Helper()
	return w.bounded(host.Command{Args: append([]string{"sh", "-ec", script, "sh"}, args...), Env: w.env, Stdin: bytes.NewReader([]byte(stdin))})
}

// longest is far more than a command needs, whatever was done to the host: the slowest runs wait for a
// systemd that is away, for less than two minutes.
const longest = 15 * time.Minute

// bounded runs a command in the host, and fails the test with one that does not end.
func (w *shared) bounded(c host.Command) host.Result {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(w.T.Context(), longest)
	defer cancel()
	r, err := w.RunCommand(ctx, c)
	if ctx.Err() != nil {
		w.T.Fatalf("%s: this did not end within %v: %q\n%s%s", w.meeting, longest, c.Args, r.Stdout, r.Stderr)
	}
	w.Check(err)
	return r
}

// save keeps the host as it is for reset. Programs are kept apart: the updater and
// systemd replace them and never write into one, so that a link is enough.
func (w *shared) save() {
	w.T.Helper()
	w.script("", `systemctl stop teleport
		mkdir /root/base /root/programs
		cp -a --parents "$@" /root/base
		cd /root/base$PROGRAMS
		for v in */bin; do mkdir /root/programs/${v%/bin}; mv $v /root/programs/$v; done`, w.saved...)
	w.rows = w.look().rows[oldVersion]
	if w.rows == 0 {
		w.T.Fatal("the agent wrote nothing")
	}
}

// What somebody did is undone by force first: mounts, attributes and units of the actors'.
const resetScript = `
systemctl stop 'other-*' teleport-update.service 'teleport-update-switch-*' 2>/dev/null || :
systemctl thaw teleport.service 2>/dev/null || :
while m=$(awk '{print $2}' /proc/mounts | grep -E "^(/var/lib/teleport|$PROGRAMS|/usr/local)(/|$)" | tail -1); [ -n "$m" ]; do umount -l "$m"; done
chattr -f -i $UNIT $LINKS $PROGRAMS $PROGRAMS/* || :
chmod 755 /srv
systemctl kill --signal=KILL teleport.service 2>/dev/null || :
systemctl stop teleport.service || :
while grep -q " /srv/agent " /proc/mounts; do umount -l /srv/agent; done
for p in "$@" /run/systemd/system/teleport*; do rm -rf "$p"; [ ! -e "/root/base$p" ] || cp -a "/root/base$p" "$p"; done
chmod 755 /root/programs/*/bin/*
for v in $(ls /root/programs); do cp -al /root/programs/$v/bin $PROGRAMS/$v/bin; done
rm -rf $PIDFILE /srv/elsewhere /srv/moved /opt/other /run/teleport-update $ASIDE $YESTERDAY
mkdir -m 1777 $ASIDE
mkdir /srv/elsewhere
systemctl daemon-reload
systemctl reset-failed
[ ! -e /srv/disk ] || systemctl restart srv-agent.mount
systemctl start teleport.service teleport-update.timer
for i in $(seq 1 1000); do [ -e $PIDFILE ] && exit 0; sleep 0.01; done
echo "the agent does not start" >&2; exit 1
`

func (w *shared) reset() {
	w.T.Helper()
	w.wants.Store("")
	w.env = w.usual
	w.script("", resetScript, w.saved...)
}

// request is the order of a transaction, as its second half reads it.
func (w *shared) request(to string) string {
	w.T.Helper()
	data, err := json.Marshal(map[string]any{"switch": map[string]any{
		"kind": "update",
		"from": map[string]any{"version": oldVersion, "edition": version.OSS},
		"to":   map[string]any{"version": to, "edition": version.OSS, "sha256": w.trees[to], "dir": store + "/" + to, "programs": programs + "/" + to},
	}})
	w.Check(err)
	return string(data)
}

// begin runs the second half of an update to a version, and at each moment what is to
// be done there. It returns what the updater said.
func (w *shared) begin(to string, moments []moment, kill bool, env ...string) (said string, err error) {
	w.T.Helper()
	args := []string{"/root/endat", "-messages", "ReloadUnit"}
	for _, m := range moments {
		args = append(args, "-do", m.at+"="+m.script)
	}
	if kill {
		args = append(args, "-kill")
	}
	r := w.bounded(host.Command{
		Args: append(args, updater, "switch"), Env: append(append([]string{"NEW=" + to}, w.env...), env...), Stdin: strings.NewReader(w.request(to)),
	})
	var report scenes.EndatReport
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
		return r.Stderr, fmt.Errorf("endat printed %q: %w", r.Stdout, err)
	}
	if len(moments) > 0 && len(report.Held) != len(moments) {
		return r.Stderr, fmt.Errorf("the transaction to %s came to %v only", to, report.Held)
	}
	return r.Stderr, nil
}
