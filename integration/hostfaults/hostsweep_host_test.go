//go:build hosts

package hostfaults

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
	"teleport-update/versions"
	"teleport-update/versions/fetch"
)

// sweptHost is a host that is put back to where a transaction begins, again and again.
type sweptHost struct {
	*scene
	sweepCase
	request string // of the transaction, as its standard input
	rows    int64  // that the agent had committed by then
	cut     int    // the call after which it is killed, once known; see cutAfter
	process string // of the agent, where it must not change
}

// What is saved and put back: all that a transaction may change.
var sweptDirs = []string{"/usr/local/bin", "/usr/local/lib/systemd", "/etc/systemd/system", "/var/lib/teleport", programs}

func newSweptHost(t *testing.T, c sweepCase) *sweptHost {
	if c.takesOver != "" {
		w := newTakenHost(t, c, host.Options{})
		w.save()
		return w
	}
	if c.replaces != nil {
		return newReplacedHost(t, c, host.Options{})
	}
	o := host.Options{}
	if c.soft {
		o.Suite = "trixie" // systemd 252 knows no soft reboot
	}
	w := &sweptHost{scene: sceneOn(t, o), sweepCase: c}
	w.Put(w.Program(scenes.Endat), "/root/endat")
	w.Writes("wal", 20)
	low := c.from
	if version.Compare(c.to.Version, c.from.Version) < 0 {
		low = c.to
	}
	low.Variant = ""
	w.build(low)
	if c.prepare != nil {
		w.build(release.Spec{Version: "1.1.0", Schema: 2})
	}
	more := []string{"--health-window", c.window.String()}
	if !c.healthy {
		// A short window is over before a busy machine gets round to let a version
		// fail. That it is not ready shows in any case.
		more = append(more, "--ready-url", scenes.ReadyURL)
	}
	w.RunsOn(low.Version, more...)
	if c.prepare != nil {
		c.prepare(w)
	}
	// From now on, what the transaction goes to is what the case says.
	w.build(c.to)
	tree := w.plant(c.to)
	w.Wants(c.to.Version)
	req := map[string]any{
		"kind": c.kind,
		"from": map[string]any{"version": c.from.Version, "edition": version.OSS},
		"to":   map[string]any{"version": c.to.Version, "edition": version.OSS, "sha256": tree.SHA256, "dir": store + "/" + c.to.Version, "programs": programs + "/" + c.to.Version},
	}
	if c.kind == "rollback" {
		w.Wants(c.from.Version)
		req["held"] = map[string]any{"version": c.from.Version, "edition": version.OSS, "since": time.Now().UTC()}
	}
	data, err := json.Marshal(map[string]any{"switch": req})
	if err != nil {
		t.Fatal(err)
	}
	w.request = string(data)
	w.rows = w.Grows(5)
	w.save()
	return w
}

// trees are the versions of a case as a fetch leaves them, each fetched once.
type trees struct {
	dir string
	mu  sync.Mutex
	all map[string]versions.Tree
}

func (c *trees) fetch(w *sweptHost, s release.Spec) versions.Tree {
	w.T.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if tree, ok := c.all[s.Version]; ok {
		return tree
	}
	source, err := fetch.ParseTemplate("file://" + filepath.Join(w.Releases, release.Name(s.Version, version.OSS)))
	if err != nil {
		w.T.Fatal(err)
	}
	kept := versions.NewStore(filepath.Join(c.dir, "store"))
	kept.Programs = filepath.Join(c.dir, "programs")
	f := fetch.New(kept, nil, slog.New(slog.DiscardHandler))
	tree, err := f.Fetch(w.T.Context(), fetch.Request{
		Release: versions.Release{Version: s.Version, Edition: version.OSS}, Sources: []*fetch.Template{source},
	})
	if err != nil {
		w.T.Fatal(err)
	}
	c.all[s.Version] = tree
	return tree
}

// build is release, once for all hosts of a case.
func (w *sweptHost) build(s release.Spec) {
	w.T.Helper()
	w.trees.mu.Lock()
	defer w.trees.mu.Unlock()
	name := release.Name(s.Version, version.OSS)
	kept := filepath.Join(w.trees.dir, "releases", string(s.Variant))
	if _, err := os.Stat(filepath.Join(kept, name)); err != nil {
		w.Release(s)
		if err := os.MkdirAll(kept, 0o755); err != nil {
			w.T.Fatal(err)
		}
		for _, suffix := range []string{"", ".sha256"} {
			if err := os.Link(filepath.Join(w.Releases, name+suffix), filepath.Join(kept, name+suffix)); err != nil {
				w.T.Fatal(err)
			}
		}
		return
	}
	for _, suffix := range []string{"", ".sha256"} {
		to := filepath.Join(w.Releases, name+suffix)
		if err := os.Remove(to); err != nil && !os.IsNotExist(err) {
			w.T.Fatal(err)
		}
		if err := os.Link(filepath.Join(kept, name+suffix), to); err != nil {
			w.T.Fatal(err)
		}
	}
}

// plant puts a version into the store of the host as a fetch would, keeping the
// backup that a version of this name may have there.
func (w *sweptHost) plant(s release.Spec) versions.Tree {
	w.T.Helper()
	tree := w.trees.fetch(w, s)
	const script = `if [ -e "$1/backup" ]; then mv "$1/backup" "$1.backup"; fi; rm -rf "$1"; mkdir -p "$1"; tar -xC "$1"
		if [ -e "$1.backup" ]; then mv "$1.backup" "$1/backup"; fi
		if [ -L "$1/bin" ]; then ln -sfn "$2/bin" "$1/bin"; ln -sfn "$2/etc" "$1/etc"; fi`
	for from, to := range map[string]string{tree.Dir: store, tree.Programs: programs} {
		files, err := exec.CommandContext(w.T.Context(), "tar", "-cC", from, ".").Output()
		w.Check(err)
		args := []string{"sh", "-ec", script, "sh", to + "/" + s.Version, programs + "/" + s.Version}
		r, err := w.RunCommand(w.T.Context(), host.Command{Args: args, Stdin: bytes.NewReader(files)})
		if err != nil || r.Code != 0 {
			w.T.Fatalf("plant %s: %v\n%s", s.Version, err, r.Stderr)
		}
	}
	return tree
}

// save keeps the host as it is for reset.
func (w *sweptHost) save() {
	w.T.Helper()
	const script = `systemctl stop teleport; rm -rf /root/base; mkdir /root/base; cp -a --parents "$@" /root/base`
	w.Must(append(append([]string{"sh", "-ec", script, "sh"}, sweptDirs...), w.changed()...)...)
}

// changed is what the case may change beyond sweptDirs.
func (w *sweptHost) changed() []string {
	if w.replaces != nil {
		return w.replaces.changed
	}
	return packageFiles[w.takesOver]
}

// Files are linked, not copied: the updater and systemd replace them, and never
// write into one. The journal and its spare are copied, for the spare is written into.
// So are databases: one with two names is refused, and those of packages are written into.
const resetScript = `
systemctl kill --signal=KILL teleport.service 2>/dev/null || true
systemctl stop teleport.service
rm -f /run/teleport.pid
how=-al
for dir; do
	if [ "$dir" = -- ]; then how=-a; continue; fi
	rm -rf "$dir"
	cp $how "/root/base$dir" "$dir"
	find "$dir" -name '*journal.json*' -type f -exec sh -ec 'cp -a --remove-destination "/root/base$1" "$1"' sh {} \;
done
for dir in /var/lib/teleport/proc /var/lib/teleport/versions/*/backup; do
	if [ -e "$dir" ]; then rm -r "$dir"; cp -a "/root/base$dir" "$dir"; fi
done
systemctl daemon-reload
systemctl reset-failed
systemctl start teleport.service
for i in $(seq 1 1000); do [ -e /run/teleport.pid ] && exit 0; sleep 0.01; done
echo "the agent does not start" >&2; exit 1
`

func (w *sweptHost) reset() {
	w.T.Helper()
	w.Must(append(append(append([]string{"sh", "-ec", resetScript, "sh"}, sweptDirs...), "--"), w.changed()...)...)
	if w.takesOver != "" {
		w.process = w.AgentProcess()
	}
	if w.replaces != nil {
		w.Must("rm", "-f", scenes.OthersActed)
		w.Must("systemctl", "restart", w.replaces.timer)
	}
}

// cutCall finds the call after the last one that asks systemd for what cutAfter
// says: by then that is done, and the agent is watched where it is to be.
func (w *sweptHost) cutCall() int {
	w.T.Helper()
	if w.cut == 0 {
		for n, call := range w.endAt(point{}, w.request, "switch").List {
			if strings.HasSuffix(call, " -> "+w.cutAfter) {
				w.cut = n + 2
			}
		}
		if w.cut == 0 {
			w.T.Fatalf("the transaction never asks for %s", w.cutAfter)
		}
		w.reset()
	}
	return w.cut
}

// baseIsIntact asserts that nobody wrote into what reset puts back.
func (w *sweptHost) baseIsIntact() {
	w.T.Helper()
	for _, v := range []string{w.from.Version, w.to.Version} {
		if v == w.from.Version && (w.takesOver != "" || w.replaces != nil) {
			continue // it never was one of the updater's
		}
		w.Must("sh", "-ec", "cd /root/base"+programs+"/"+v+" && grep -v '  edition$' /root/base"+store+"/"+v+"/manifest | sha256sum --quiet -c -")
	}
}

const (
	afterRun  moment = "no transaction is open"
	afterBoot moment = "one may be open, with all files in their place"
)

// A unit that has ended and that nobody could remove any more is removed by a run a minute later: till then somebody might read
// how it ended. Of the programs in such units, the try of the recovery alone is followed by the process that is killed.
const askScript = `
systemctl show teleport.service -p ActiveState,MainPID
pid=$(systemctl show teleport.service -p MainPID --value)
echo "main=$(readlink /proc/$pid/exe)"
echo "serving=$(readlink /proc/$(cat /run/teleport.pid)/exe)"
units=$(systemctl list-units --plain --no-legend --all --type=service)
echo "failed=$(echo "$units" | grep " failed " | grep -v '^ *tu-canary-' | tr '\n' ' ')" # a run removes a canary of a killed one once it is old
echo "switches=$(echo "$units" | grep teleport-update-switch- | grep -v ' exited .*a try of the recovery' | tr '\n' ' ')"
echo "database=$(sqlite3 -readonly -cmd '.timeout 10000' /var/lib/teleport/proc/sqlite.db "PRAGMA user_version; PRAGMA integrity_check(1); SELECT count(*) FROM rows; SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name='rows'" 2>&1 | tr '\n' ' ')"
`
