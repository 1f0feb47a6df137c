package systemd

import (
	"os"
	"path/filepath"
	"testing"
)

// What a drop-in says that systemd reads before ours has the last word over the unit, and would lose it to ours.
func TestADropInIsNotOverruledByWhatIsCarried(t *testing.T) {
	for name, tc := range map[string]struct{ unit, file, content, says string }{
		"another value":                     {"Nice=5", "00-ansible.conf", "[Service]\nNice=7\n", "Nice"},
		"a reset":                           {"EnvironmentFile=/etc/old", "00-ansible.conf", "[Service]\nEnvironmentFile=\n", "EnvironmentFile"},
		"a command of its own":              {"ExecStartPre=/bin/a", "04-pre.conf", "[Service]\nExecStartPre=/bin/b\n", "ExecStartPre"},
		"one that sorts before ours by far": {"Nice=5", "05-a.conf", "[Service]\nNice=7\n", "Nice"},
		"one that sorts after ours":         {"Nice=5", "50-ansible.conf", "[Service]\nNice=7\n", ""},
		"our own":                           {"Nice=5", "05-teleport-update-carried.conf", "[Service]\nNice=5\n", ""},
		"another directive":                 {"Nice=5", "00-ansible.conf", "[Service]\nUMask=0077\n", ""},
		"a directive that is not carried":   {"Nice=5\nType=forking", "00-ansible.conf", "[Service]\nType=notify\n", ""},
		"the version's own value":           {"Nice=5", "00-ansible.conf", "[Service]\nRestart=always\n", ""},
		"an older name":                     {"ReadWritePaths=/srv", "00-a.conf", "[Service]\nReadWriteDirectories=\n", "ReadWriteDirectories"},
		"both times":                        {"TimeoutSec=10", "00-a.conf", "[Service]\nTimeoutStopSec=1h\n", "TimeoutStopSec"},
		"one of both times":                 {"TimeoutStopSec=10", "00-a.conf", "[Service]\nTimeoutStartSec=1h\n", ""},
		"the limit in its older section":    {"StartLimitInterval=0", "00-a.conf", "[Unit]\nStartLimitIntervalSec=9\n", "StartLimitIntervalSec"},
		"a dependency more":                 {"[Unit]\nAfter=a.service", "00-a.conf", "[Unit]\nAfter=b.service\n", ""},
		"a condition more":                  {"[Unit]\nConditionHost=a", "00-a.conf", "[Unit]\nConditionPathExists=/b\n", ""},
		"no conditions any more":            {"[Unit]\nConditionHost=a", "00-a.conf", "[Unit]\nConditionPathExists=\n", "ConditionPathExists"},
		"a comment":                         {"Nice=5", "00-ansible.conf", "[Service]\n#Nice=7\n", ""},
		"a section of somebody's":           {"Nice=5", "00-ansible.conf", "[X-Fleet]\nNice=7\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := Carry([]byte(releaseUnit+"[Service]\n"+tc.unit+"\n"), []byte(releaseUnit))
			if c.DropIn == nil {
				t.Fatal("nothing is carried")
			}
			dir := t.TempDir()
			file := filepath.Join(dir, "teleport.service.d", tc.file)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(tc.content), 0o644); err != nil {
				t.Fatal(err)
			}
			want := ""
			if tc.says != "" {
				want = file + " " + tc.says
			}
			units := Units{UnitDir: dir}
			for from, read := range map[string]struct{ dirs, loaded []string }{
				"found on disk":     {[]string{dir}, nil},
				"loaded by systemd": {nil, []string{file, filepath.Join(dir, "00-gone.conf")}},
			} {
				got := ""
				found, err := units.Overrules(c, "teleport.service", read.dirs, read.loaded)
				if found != nil {
					got = found.File + " " + found.Directive
				}
				if got != want || err != nil {
					t.Errorf("%s: %q (%v); want %q", from, got, err, want)
				}
			}
		})
	}
}
