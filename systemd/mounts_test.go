package systemd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Names are what systemd-escape(1) --path makes of them. A path is data: nothing in it
// becomes another setting.
func TestTheRecoveryIsOrderedAfterTheMountsAboveAFile(t *testing.T) {
	u := Units{UnitDir: t.TempDir(), ConfigDir: t.TempDir(), Binary: "/bin/true"}
	for file, want := range map[string]string{
		"/srv/agent/proc/sqlite.db":      "srv-agent-proc.mount srv-agent.mount srv.mount",
		"/srv/my-agent/%n é/.x/db":       `srv-my\x2dagent-\x25n\x20\xc3\xa9-.x.mount srv-my\x2dagent-\x25n\x20\xc3\xa9.mount srv-my\x2dagent.mount srv.mount`,
		"/srv/a\n[Service]\nUser=x/db":   `srv-a\x0a\x5bService\x5d\x0aUser\x3dx.mount srv.mount`,
		"/.hidden/it's \"quoted\"/\\/db": `\x2ehidden-it\x27s\x20\x22quoted\x22-\x5c.mount \x2ehidden-it\x27s\x20\x22quoted\x22.mount \x2ehidden.mount`,
		"/db":                            "",
	} {
		if err := u.AwaitMounts(file, file); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(u.UnitDir, "teleport-update-recover.service.d", "50-agent-data.conf"))
		if got := string(text); err != nil || got != mark+"\n[Unit]\nAfter="+want+"\n" {
			t.Errorf("%s: %v\n%s; want\n%s", file, err, got, want)
		}
		for _, asks := range []string{"Requires", "Wants", "BindsTo"} {
			if strings.Contains(string(text), asks) {
				t.Errorf("%s: a boot mounts what nobody else asked for:\n%s", file, text)
			}
		}
	}
	own := filepath.Join(u.UnitDir, "teleport-update-recover.service.d", "mine.conf")
	if err := os.WriteFile(own, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, forget := range []func() error{u.ForgetMounts, u.ForgetMounts, u.Erase} {
		if err := forget(); err != nil {
			t.Error(err)
		}
	}
	if names, err := os.ReadDir(filepath.Dir(own)); err != nil || len(names) != 1 {
		t.Errorf("left: %v, %v", names, err)
	}
	if err := errors.Join(os.Remove(own), u.AwaitMounts("/srv/db"), u.Erase()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Dir(own)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder is left: %v", err)
	}
}
