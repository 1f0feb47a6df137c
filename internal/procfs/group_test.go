package procfs

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheServiceThatAProcessBelongsTo(t *testing.T) {
	for groups, want := range map[string]string{
		"0::/system.slice/tbot.service\n":                                                 "tbot.service",
		"0::/system.slice/system-tbot.slice/tbot@a.service/sub\n":                         "tbot@a.service",
		"12:cpu:/system.slice/other.service\n1:name=systemd:/system.slice/tbot.service\n": "tbot.service",
		"0::/user.slice/user-0.slice/session-1.scope\n":                                   "",
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/tbot.service\n":       "",
		"0::/machine.slice/machine-a.scope/init.scope\n":                                  "",
		"0::/system.slice/containerd.service/docker-1.scope\n":                            "",
		"no control group\n": "",
	} {
		f := FS{Proc: t.TempDir()}
		if err := os.MkdirAll(filepath.Join(f.Proc, "7"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(f.Proc, "7", "cgroup"), []byte(groups), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := f.ServiceOf(7); got != want {
			t.Errorf("%q: it belongs to %q; want %q", groups, got, want)
		}
	}
}
