//go:build hosts

package hostfaults

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
	"teleport-update/ospackage"
)

// The take-over of a package, killed together with dpkg or rpm and the package's
// scripts at every call that changes something. At once the agent
// runs on and would start again; the next run, or the next boot and the run after
// it, takes the package away for good.
func TestATakeOverKilledAtEveryCall(t *testing.T) {
	t.Parallel()
	var points, violations, reboots atomic.Int64
	cut := ""
	deb, rpm := takeOver("of apt's", ospackage.Deb), takeOver("of dnf's", ospackage.RPM)
	// All calls of a deb's removal, and some of an rpm's.
	deb.always, deb.some, deb.all, rpm.all = true, 67, entriesOnly, 13
	for _, c := range []sweepCase{deb, rpm} {
		cut += c.run(t, &points, &violations, &reboots)
	}
	t.Logf("kill points in take-overs: %d, violations: %d (%d points had a boot of the host instead of a run)%s",
		points.Load(), violations.Load(), reboots.Load(), cut)
}

func takeOver(name string, kind ospackage.Kind) sweepCase {
	return sweepCase{
		name: name, takesOver: kind,
		from: release.Spec{Version: scenes.OldVersion, Schema: 1}, to: release.Spec{Version: "1.0.0", Schema: 1},
		kind: "enable", window: 100 * time.Millisecond, healthy: true,
	}
}

const agentsEnvironment = "/etc/default/teleport"

// packageFiles are what the removal of a package may change beyond sweptDirs.
var packageFiles = map[ospackage.Kind][]string{
	ospackage.Deb: {"/etc/teleport.yaml", agentsEnvironment, "/usr" + scenes.PackagesUnit, "/var/lib/dpkg"},
	ospackage.RPM: {"/etc/teleport.yaml", agentsEnvironment, "/usr" + scenes.PackagesUnit, "/root/.rpmdb"},
}

// newTakenHost brings a host to where the take-over begins: the package brought the
// agent, the first version of the updater's is proven, and the run was cut off.
func newTakenHost(t *testing.T, c sweepCase, o host.Options) *sweptHost {
	t.Helper()
	if c.takesOver == ospackage.RPM {
		o.Packages = scenes.DnfHost.Packages
	}
	w := &sweptHost{scene: sceneOn(t, o), sweepCase: c}
	if c.takesOver == ospackage.RPM {
		w.InstallOldRPM()
	} else {
		w.InstallOldDeb("")
	}
	w.Put(w.Program(scenes.Endat), "/root/endat")
	w.build(c.to)
	tree := w.plant(c.to)
	w.Wants(c.to.Version)
	request := transaction.Request{Kind: transaction.Enable, Spec: &state.Spec{Proxy: cluster.ProxyAddress, Enabled: true, URLTemplates: []string{cluster.TemplateURL}}}
	request.To.Version, request.To.Edition, request.To.SHA256, request.To.Dir = c.to.Version, version.OSS, tree.SHA256, store+"/"+c.to.Version
	request.To.Programs = programs + "/" + c.to.Version
	request.Spec.Health.Window = state.Duration(c.window)
	data, err := json.Marshal(transaction.Order{Transaction: &request})
	w.Check(err)
	if r := w.endAt(point{before: "kept-0"}, string(data), "switch"); !r.Killed || w.Phase() != "proven" || w.packageState() != "installed" {
		t.Fatalf("the transaction was to be killed before the take-over, and is %q: %+v", w.Phase(), r)
	}
	w.rows = w.Grows(5)
	return w
}

// served tells what is amiss while nobody has come yet to close the take-over. The
// agent writes while it is looked at, so it may take a second look.
func (w *sweptHost) served() (problems []string) {
	for range 3 {
		problems = append(w.isInPlace(w.to.Version), w.isUndisturbed()...)
		problems = append(problems, w.agentIsWhole(w.to.Version)...)
		if problems == nil {
			return nil
		}
	}
	return problems
}

func (w *sweptHost) isUndisturbed() (problems []string) {
	if w.Link(scenes.AgentWants) == "" {
		problems = append(problems, "the agent is disabled")
	}
	if got := w.AgentProcess(); w.process != "" && got != w.process {
		problems = append(problems, fmt.Sprintf("the agent was %s and is %s", w.process, got))
	}
	if strings.Contains(w.Must("cat", "/proc/mounts"), " /var/lib/teleport ") {
		problems = append(problems, "a mount of the fence is left")
	}
	return problems
}

// packageIsWhole looks at what the removal of a package could take with it or
// leave behind.
func (w *sweptHost) packageIsWhole(m moment) (problems []string) {
	problems = w.isUndisturbed()
	// Before that it leads to the package's unit, which is nothing to systemd: the
	// link's name alone counts.
	if got := w.Link(scenes.AgentWants); m == afterRun && got != unitFile {
		problems = append(problems, fmt.Sprintf("%s leads to %q", scenes.AgentWants, got))
	}
	if got := w.Show("teleport", "FragmentPath"); got != unitFile {
		problems = append(problems, "systemd uses the unit "+got)
	}
	for name, want := range map[string]string{"/etc/teleport.yaml": "diag_addr", agentsEnvironment: "# from the package\n"} {
		if got, err := w.ReadFile(name); err != nil || !strings.Contains(string(got), want) {
			problems = append(problems, fmt.Sprintf("%s holds %q (%v)", name, got, err))
		}
	}
	if w.Exists(scenes.FiredFile) {
		problems = append(problems, "needrestart fired")
	}
	if m == afterBoot {
		return problems // the removal goes on later
	}
	if state := w.packageState(); state != "" && state != "installed" {
		problems = append(problems, "the package is "+state)
	}
	if w.takesOver == ospackage.Deb {
		// What dpkg has logged there apt refuses to work with; anything else is a
		// leftover that dpkg removes.
		if r := w.Try("sh", "-c", "dpkg --audit; find /var/lib/dpkg/updates -name '[0-9]*'; apt-get --simulate --quiet=2 install libc6"); r.Code != 0 || r.Stdout != "" {
			problems = append(problems, "dpkg or apt is not content: "+r.Stdout+r.Stderr)
		}
	}
	return problems
}

// packageState is what dpkg or rpm says of the package; "" if it knows none.
func (w *sweptHost) packageState() string {
	if w.takesOver == ospackage.RPM {
		if w.Try("rpm", "-q", "teleport").Code == 0 {
			return "installed"
		}
		return ""
	}
	state := w.Try("dpkg-query", "-W", "-f", "${db:Status-Status}", "teleport").Stdout
	return strings.TrimPrefix(state, "not-installed")
}

// packageIsGone tells what is left of it.
func (w *sweptHost) packageIsGone() (problems []string) {
	if state := w.packageState(); state != "" {
		problems = append(problems, "the package is "+state)
	}
	for _, name := range []string{scenes.PackagesUnit, scenes.PackagesOwn, store + "/original/kept-0-teleport.yaml", store + "/original/kept-1-teleport"} {
		if w.Exists(name) {
			problems = append(problems, name+" is there")
		}
	}
	if strings.Contains(w.Read(store+"/updates.yaml"), "packages_left") {
		problems = append(problems, "the package is remembered as one to be removed")
	}
	if before := w.Read(store + "/original/before.json"); !strings.Contains(before, scenes.OldVersion) {
		problems = append(problems, "uninstall would not know of the package: "+before)
	}
	return problems
}

// packagesVersionIsKept tells what is missing of the version that the package brought: it
// is the one to go back to.
func (w *sweptHost) packagesVersionIsKept() (problems []string) {
	if !strings.Contains(w.Read(store+"/updates.yaml"), "previous_version: "+scenes.OldVersion) {
		problems = append(problems, "updates.yaml does not name the package's version as the previous one")
	}
	kept := store + "/" + scenes.OldVersion
	if origin, _ := w.ReadFile(kept + "/origin"); !strings.HasPrefix(string(origin), string(w.takesOver)+" teleport "+scenes.OldVersion) {
		problems = append(problems, fmt.Sprintf("the version of the package has the origin %q", origin))
	}
	if r := w.Try("sh", "-ec", `cd "$1"; [ -s manifest ]; sha256sum --quiet -c manifest`, "sh", kept); r.Code != 0 {
		problems = append(problems, "the version of the package is not as its manifest says: "+r.Stdout+r.Stderr)
	}
	return problems
}
