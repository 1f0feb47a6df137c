//go:build hosts

package hostfaults

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
	"teleport-update/ospackage"
)

// origin is the updater that a host had before.
type origin struct {
	name    string
	agent   string   // the program of its agent
	timer   string   // the name of its timer
	files   []string // of which nothing may be left
	changed []string // what a replacement may change beyond sweptDirs
	// some and all are the strides in ordinary runs and in the campaign: a package's removal
	// has many calls, all of which the sweep of take-overs has.
	some, all int64
	install   func(w *sweptHost)
}

var (
	teleportsUpdater = origin{
		name: "Teleport's own updater", agent: scenes.OthersDir + "/versions/" + scenes.OldVersion + "/bin/teleport", timer: "teleport-update.timer",
		files: scenes.OthersFiles, changed: []string{"/opt/teleport", "/etc/needrestart"}, some: 61, all: entriesOnly,
		install: func(w *sweptHost) {
			w.InstallOwnUpdater(scenes.OldVersion)
			w.Write(scenes.OthersDir+"/update.lock", "") // of its first run
		},
	}
	teleportUpgrade = origin{
		name: "teleport-upgrade", agent: linkDir + "/teleport", timer: "teleport-upgrade.timer",
		files: []string{
			"/etc/systemd/system/timers.target.wants/teleport-upgrade.timer", upgradesDropIn, scenes.PackagesUnit, scenes.PackagesOwn,
			"/lib/systemd/system/teleport-upgrade.timer", "/lib/systemd/system/teleport-upgrade.service", "/usr/sbin/teleport-upgrade",
		},
		changed: append([]string{
			"/usr/lib/systemd/system/teleport-upgrade.timer", "/usr/lib/systemd/system/teleport-upgrade.service", "/usr/lib/systemd/system/teleport.service.d",
			"/usr/sbin/teleport-upgrade",
		}, packageFiles[ospackage.Deb]...),
		some: 281, all: 13,
		install: func(w *sweptHost) {
			w.InstallOldDeb("")
			w.AptRepository(w.OldDeb(scenes.OldVersion, ""), w.UpgradeDeb())
			w.Write(upgradesDropIn, "[Timer]\nOnActiveSec=\nOnCalendar=2099-01-01\n")
			w.Apt("install", "teleport-ent-updater")
		},
	}
)

const upgradesDropIn = "/etc/systemd/system/teleport-upgrade.timer.d/50-never.conf"

// The replacement of another updater, killed at every call that changes something, from
// before the journal to its end. The next run, or the next boot and what follows it by
// itself, ends with an agent and with one updater: theirs as it was, or ours. Whoever
// asked for it then asks again.
func TestAReplacementKilledAtEveryCall(t *testing.T) {
	t.Parallel()
	var points, violations, reboots atomic.Int64
	cut := ""
	for _, o := range []*origin{&teleportsUpdater, &teleportUpgrade} {
		cut += o.replacement().run(t, &points, &violations, &reboots)
	}
	t.Logf("kill points in replacements of updaters: %d, violations: %d (%d points had a boot of the host instead of a run)%s",
		points.Load(), violations.Load(), reboots.Load(), cut)
}

func (o *origin) replacement() sweepCase {
	return sweepCase{
		name: o.name, replaces: o,
		from: release.Spec{Version: scenes.OldVersion, Schema: 1}, to: release.Spec{Version: "1.0.0", Schema: 1},
		kind: "enable", always: true, healthy: true, some: o.some, all: o.all,
	}
}

// newReplacedHost brings a host to where the replacement begins.
func newReplacedHost(t *testing.T, c sweepCase, o host.Options) *sweptHost {
	t.Helper()
	w := &sweptHost{scene: sceneOn(t, o), sweepCase: c}
	c.replaces.install(w)
	w.Put(w.Program(scenes.Endat), "/root/endat")
	w.build(c.to)
	tree := w.plant(c.to)
	w.Wants(c.to.Version)
	request := transaction.Request{
		Kind: transaction.Enable, To: transaction.TreeOf(tree), Replace: true,
		Spec: &state.Spec{Proxy: cluster.ProxyAddress, Enabled: true, URLTemplates: []string{cluster.TemplateURL}},
	}
	request.To.Edition, request.To.Dir, request.To.Programs = version.OSS, store+"/"+c.to.Version, programs+"/"+c.to.Version
	request.Spec.Health.Window = state.Duration(100e6)
	data, err := json.Marshal(transaction.Order{Transaction: &request})
	w.Check(err)
	w.request = string(data)
	w.rows = w.Grows(5)
	w.save()
	return w
}

// lookReplaced is look for a host of another updater.
func (w *sweptHost) lookReplaced() (v string, problems []string) {
	if w.Exists(store + "/journal.json") {
		return "", []string{"the journal is still there: " + w.Phase()}
	}
	v = w.from.Version
	if config, _ := w.ReadFile(store + "/updates.yaml"); activeVersion.Match(config) {
		v = w.to.Version
		problems = append(w.isInPlace(v), w.oursManage()...)
	} else {
		problems = w.theirsManage()
	}
	if v == w.to.Version {
		problems = append(problems, w.treesAreWhole(v)...)
	}
	if w.Link(scenes.AgentWants) == "" {
		problems = append(problems, "the agent is disabled")
	}
	if w.Exists(scenes.OthersActed) {
		problems = append(problems, "the other updater acted")
	}
	return v, append(problems, w.agentIsWhole(v)...)
}

// theirsManage tells what of the other updater is not as it was. Our recovery may be there:
// it does nothing without a journal.
func (w *sweptHost) theirsManage() (problems []string) {
	const script = `for dir; do diff -r --no-dereference "/root/base$dir" "$dir"; done | grep -v -e teleport-update-recover -e teleport-update-switch-`
	dirs := append([]string{"/usr/local/bin", "/usr/local/lib/systemd", "/etc/systemd/system"}, w.replaces.changed...)
	if r := w.Try(append([]string{"sh", "-c", script, "sh"}, dirs...)...); r.Stdout+r.Stderr != "" {
		problems = append(problems, "the host is not what it was: "+r.Stdout+r.Stderr)
	}
	return append(problems, w.timerIs(w.replaces.timer, "active", "")...)
}

// oursManage tells what is left of the other updater, and what of ours is missing.
func (w *sweptHost) oursManage() (problems []string) {
	for _, file := range w.replaces.files {
		if to := w.Link(file); !strings.HasPrefix(to, path.Dir(unitFile)) && (to != "" || w.Exists(file)) {
			problems = append(problems, file+" is there")
		}
	}
	if w.replaces == &teleportUpgrade {
		problems = append(problems, w.timerIs(w.replaces.timer, "inactive", "")...)
		if r := w.Try("sh", "-c", "dpkg --audit; dpkg-query -W -f '${Package} ${db:Status-Status}\n' teleport teleport-ent-updater 2>/dev/null | grep -v ' not-installed$'"); r.Stdout != "" {
			problems = append(problems, "dpkg says "+r.Stdout)
		}
	}
	return append(problems, w.timerIs("teleport-update.timer", "active", path.Dir(unitFile)+"/teleport-update.timer")...)
}

// timerIs tells where a timer is not what it should be; an empty file is any of theirs.
func (w *sweptHost) timerIs(name, active, file string) (problems []string) {
	got := w.Show(name, "FragmentPath")
	if ours := path.Dir(unitFile); file == "" && strings.HasPrefix(got, ours) || file != "" && got != file {
		problems = append(problems, fmt.Sprintf("%s is read from %q", name, got))
	}
	if got := w.Show(name, "ActiveState"); got != active {
		problems = append(problems, fmt.Sprintf("%s is %s", name, got))
	}
	return problems
}

// asksAgain is what whoever asked for a replacement does next.
func (w *sweptHost) asksAgain(v string) []string {
	if w.replaces == nil || v == w.to.Version {
		return []string{"update"}
	}
	return []string{"enable", "--replace-updater", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", "100ms"}
}
