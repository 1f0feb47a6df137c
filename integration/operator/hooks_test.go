//go:build hosts

package operator

import (
	"strings"
	"testing"
	"time"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/cluster"
	"teleport-update/integration/release"
)

func TestWhatRunsTellHooksAndNodeExporter(t *testing.T) {
	const metrics, hooks = "/root/metrics", "/etc/teleport-update/hooks"
	s := newScene(t)
	s.Sound("1.0.0", "1.2.0")
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.ExitsAtStart})
	s.Must("install", "-d", "-m", "777", "/root/open", metrics)
	s.Must("chmod", "755", metrics)
	hook := func(name, script string) {
		t.Helper()
		s.Must("install", "-D", "-m", "755", "/dev/null", hooks+"/"+name)
		s.Check(s.WriteFile(hooks+"/"+name, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	script := `echo "$TELEPORT_UPDATE_HOOK_OUTCOME $TELEPORT_UPDATE_HOOK_FROM $TELEPORT_UPDATE_HOOK_TO $TELEPORT_UPDATE_HOOK_CAUSE $(test "$TELEPORT_UPDATE_HOOK_BY" = timer && echo timer || echo person) $(test -e ` + store + `/journal.json; echo $?) $(flock --nonblock ` + store + `/update.lock echo free)" >>/root/told`
	hook("on-success.d/tell", script)
	hook("on-failure.d/tell", script)
	hook("on-failure.d/0-hangs", "trap '' TERM; sleep infinity & echo $! >/root/hangs; while :; do sleep 100; done")
	s.Wants("1.0.0")
	s.Fails(1, "--textfile-dir", updater, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--textfile-dir", "/root/open")
	s.RunsOn("1.0.0", "--health-window", "1s", "--textfile-dir", metrics)

	s.Wants("1.1.0")
	began := time.Now()
	if code := s.Tick(); code != 1 {
		t.Errorf("the tick that meets the broken version ends with %d", code)
	}
	if took := time.Since(began); took < 30*time.Second {
		t.Errorf("nobody waited for the hook that hangs: %v", took)
	}
	s.Serves("1.0.0")
	if s.Try("test", "-d", "/proc/"+strings.TrimSpace(s.Read("/root/hangs"))).Code == 0 {
		t.Error("a child of the hook that hangs goes on")
	}
	if text := s.Read(metrics + "/teleport-update.prom"); !strings.Contains(text, `teleport_update_state{state="backing_off"} 1`) {
		t.Errorf("the metrics are\n%s", text)
	}
	s.Wants("1.2.0")
	s.Must(updater, "update", "--now")
	s.Must(updater, "update", "--now") // no news
	want := "succeeded  1.0.0 enable person 1 free\nrolled_back 1.0.0 1.1.0 update timer 1 free\nsucceeded 1.0.0 1.2.0 update person 1 free\n"
	if got := s.Read("/root/told"); got != want {
		t.Errorf("the hooks were told\n%s; want\n%s", got, want)
	}
	if log := s.Logged(); !strings.Contains(log, "did not end within 30s and was killed") {
		t.Errorf("the journal does not name the hook that hangs:\n%s", log)
	}

	s.Must(updater, "uninstall")
	if s.Exists(metrics+"/teleport-update.prom") || !s.Exists(hooks+"/on-success.d/tell") {
		t.Error("an uninstall leaves the metrics, or takes the hooks")
	}
}
