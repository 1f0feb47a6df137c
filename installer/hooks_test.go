package installer

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

// hooked is a host with hooks that write into out, and its log.
func hooked(t *testing.T) (i *Installer, out string, log *bytes.Buffer) {
	i, out, log = testInstaller(t), filepath.Join(t.TempDir(), "out"), new(bytes.Buffer)
	i.Machine.Host.Log = slog.New(slog.NewTextHandler(log, nil))
	i.Started, i.Machine.Now = noon, func() time.Time { return noon.Add(time.Minute) }
	i.Machine.Host.Paths.Hooks = filepath.Join(t.TempDir(), "hooks")
	return i, out, log
}

func (i *Installer) hook(t *testing.T, name, script string) (file string) {
	file = filepath.Join(i.Machine.Host.Paths.Hooks, name)
	writeFile(t, file, "#!/bin/sh\n"+script+"\n")
	must(t, os.Chmod(file, 0o755))
	return file
}

func (i *Installer) ended(t *testing.T, result state.Result, at time.Duration, reason string) {
	switched(t, i, state.LastUpdate{Time: noon.Add(at), Target: "1.1.0", TargetEdition: version.OSS, Result: result, Error: reason, Transaction: "x"}, "1.0.0", "0.9.0")
	i.Settle(t.Context(), "update")
}

func TestHooksAreToldHowATransactionEnded(t *testing.T) {
	i, out, log := hooked(t)
	t.Setenv("TELEPORT_UPDATE_SCHEDULED", "1")
	tell := `echo "$0" >>` + out + `; env | grep ^TELEPORT_UPDATE_ | sort >>` + out
	i.hook(t, "on-failure.d/20-second", "echo second >>"+out)
	i.hook(t, "on-failure.d/10-first.sh", tell)
	i.hook(t, "on-success.d/one", "echo success >>"+out)
	for _, left := range []string{".hidden", "10-first.sh~", "10-first.sh.dpkg-old", "10-first.sh.rpmsave"} {
		i.hook(t, "on-failure.d/"+left, "echo never >>"+out)
	}
	i.Machine.Scheduled = true
	i.ended(t, state.RolledBack, 0, "it died: \"x\"\n$(y)")
	i.Settle(t.Context(), "update") // no news
	want := filepath.Join(i.Machine.Host.Paths.Hooks, "on-failure.d/10-first.sh") + `
TELEPORT_UPDATE_HOOK_BY=timer
TELEPORT_UPDATE_HOOK_CAUSE=update
TELEPORT_UPDATE_HOOK_FROM=1.0.0
TELEPORT_UPDATE_HOOK_FROM_EDITION=oss
TELEPORT_UPDATE_HOOK_OUTCOME=rolled_back
TELEPORT_UPDATE_HOOK_REASON=it died: "x"
TELEPORT_UPDATE_HOOK_TIME=2026-03-01T12:00:00Z
TELEPORT_UPDATE_HOOK_TO=1.1.0
TELEPORT_UPDATE_HOOK_TO_EDITION=oss
second
`
	if got, _ := os.ReadFile(out); string(got) != want {
		t.Errorf("the hooks wrote\n%s\nwant\n%s%s", got, want, log)
	}
	must(t, os.Remove(out))
	i.ended(t, state.Succeeded, time.Second, "")
	i.ended(t, state.FailedEarly, 2*time.Second, "no backup")
	if got, _ := os.ReadFile(out); !strings.HasPrefix(string(got), "success\n/") {
		t.Errorf("after a success and a failure the hooks wrote\n%s", got)
	}
	must(t, os.Remove(out))
	i.ended(t, state.RolledBack, -25*time.Hour, "long ago")
	if _, err := os.Stat(out); err == nil {
		t.Error("what is long ago is told as news")
	}
}

func TestAHookThatFailsOrHangsIsOnlyLogged(t *testing.T) {
	i, out, log := hooked(t)
	i.HookLimit = 2 * time.Second // longer than a hook takes that has nothing to wait for, however busy the host
	i.hook(t, "on-failure.d/1-fails", "echo the reason >&2; exit 3")
	i.hook(t, "on-failure.d/2-hangs", "sleep 3600 & echo $! >"+out+".pid; wait")
	i.hook(t, "on-failure.d/3-leaves-its-output-open", "setsid sleep 5 &")
	must(t, os.Chmod(i.hook(t, "on-failure.d/4-no-program", ""), 0o644))
	i.hook(t, "on-failure.d/5-last", "echo last >"+out)
	began := time.Now()
	i.ended(t, state.RolledBack, 0, "it died")
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if got, _ := os.ReadFile(out); string(got) != "last\n" {
		t.Errorf("the last hook wrote %q", got)
	}
	for _, want := range []string{"exit status 3; it printed \\\"the reason\\\"", "did not end within 2s and was killed", "4-no-program error=\"fork/exec"} {
		if !strings.Contains(strings.ReplaceAll(log.String(), `\\\"`, `\"`), want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	pid, err := os.ReadFile(out + ".pid")
	must(t, err)
	if stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
		t.Errorf("a child of a hook that was killed goes on: %s", stat)
	}
}

func TestHooksThatOthersMayChangeAreNotRun(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root alone is asked to trust")
	}
	for name, spoil := range map[string]func(i *Installer, hook string) error{
		"a hook that others may write":   func(_ *Installer, hook string) error { return os.Chmod(hook, 0o757) },
		"a hook of another user's":       func(_ *Installer, hook string) error { return os.Chown(hook, 1234, 0) },
		"a folder that others may write": func(_ *Installer, hook string) error { return os.Chmod(filepath.Dir(hook), 0o777) },
		"a parent that others may write": func(i *Installer, _ string) error { return os.Chmod(i.Machine.Host.Paths.Hooks, 0o777) },
	} {
		t.Run(name, func(t *testing.T) {
			i, out, log := hooked(t)
			must(t, spoil(i, i.hook(t, "on-failure.d/hook", "echo ran >"+out)))
			i.ended(t, state.RolledBack, 0, "it died")
			if _, err := os.Stat(out); err == nil || !strings.Contains(log.String(), "level=WARN") {
				t.Errorf("it ran, or nobody said why not: %v\n%s", err, log)
			}
		})
	}
}

// node_exporter reads the file with this parser, at any moment.
func TestTheMetricsAreWrittenForNodeExporter(t *testing.T) {
	i, _, log := hooked(t)
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	file := filepath.Join(dir, "teleport-update.prom")
	write := func(dir string) {
		c := state.EmptyConfig()
		c.Spec = state.Spec{Proxy: "http://127.0.0.1:1", Enabled: true, ActiveVersion: "1.0.0", TextfileDir: dir}
		c.Status.ActiveEdition = version.OSS
		writeFile(t, i.Machine.Host.Paths.Config(), "")
		must(t, c.Save(i.Machine.Host.Paths.Config()))
		i.Settle(t.Context(), "update")
	}
	write(dir)
	write(dir) // over the one before
	data, err := os.ReadFile(file)
	must(t, err)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(data))
	if must(t, err); families["teleport_update_enabled"] == nil || families["teleport_update_enabled"].Metric[0].GetGauge().GetValue() != 1 {
		t.Errorf("it holds\n%s", data)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o644 {
		t.Errorf("node_exporter cannot read it: %v, %v", info.Mode(), err)
	}
	if names, _ := filepath.Glob(dir + "/*"); !slices.Equal(names, []string{file}) {
		t.Errorf("in the folder are %q", names)
	}
	must(t, state.RemoveTextfile(dir))
	if _, err := os.Stat(file); err == nil {
		t.Error("it is not removed")
	}
	if os.Geteuid() != 0 {
		return
	}
	must(t, os.Chmod(dir, 0o777))
	write(dir)
	if _, err := os.Stat(file); err == nil || !strings.Contains(log.String(), "metrics for node_exporter could not be written") {
		t.Errorf("it is written where everybody may put a link in its place, or nobody says why not: %v\n%s", err, log)
	}
	log.Reset()
	write(filepath.Join(dir, "missing"))
	if !strings.Contains(log.String(), "missing") {
		t.Errorf("nobody says that the folder is missing:\n%s", log)
	}
}
