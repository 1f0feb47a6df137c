package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// Whoever writes the agent's unit again and again finds it kept, once; a version's own is
// no loss.
func TestAUnitThatSomebodyWroteIsKeptOnce(t *testing.T) {
	h := testHost(t)
	tree := versions.Tree{Dir: filepath.Join(h.Paths.Versions(), "2.0.0")}
	writeFile(t, tree.UnitFile(), "[Unit]\n")
	for _, content := range []string{"[Unit]\n# another\n", "[Unit]\n", "[Unit]\n# another\n"} {
		writeFile(t, h.Paths.Unit(), content)
		kept, err := h.KeepForeignUnit()
		if err != nil {
			t.Fatal(err)
		}
		got, _ := os.ReadFile(kept)
		if foreign := content != "[Unit]\n"; foreign != (kept != "") || foreign && string(got) != content {
			t.Errorf("%q is kept as %q, which holds %q", content, kept, got)
		}
		if now, err := os.ReadFile(h.Paths.Unit()); err != nil || string(now) != content {
			t.Errorf("the unit holds %q, %v", now, err)
		}
	}
	if all, _ := filepath.Glob(h.Paths.Unit() + ".aside-*"); len(all) != 1 {
		t.Errorf("there is %v", all)
	}
}

// A version's unit is ours with the arguments that the first enable kept, and so is that of FIPS.
func TestOurUnitWithKeptArgumentsIsNoStrangers(t *testing.T) {
	for name, tc := range map[string]struct {
		arguments []string
		fips      bool
		now       string
		foreign   bool
	}{
		"as released":              {now: releaseCommand},
		"with kept arguments":      {arguments: []string{"--data-dir=/srv/teleport", "--roles=node"}, now: releaseCommand + " --data-dir=/srv/teleport --roles=node"},
		"the unit of FIPS":         {fips: true, now: releaseCommand + " --fips"},
		"with arguments of others": {arguments: []string{"--data-dir=/srv/teleport"}, now: releaseCommand + " --debug", foreign: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := testHost(t)
			h.release(t, "1.0.0", version.FIPS, tc.fips)
			if err := h.WriteOriginals(Originals{Arguments: tc.arguments}); err != nil {
				t.Fatal(err)
			}
			writeFile(t, h.Paths.Unit(), "# 1.0.0\n[Service]\nExecStart=/usr/local/bin/"+tc.now+"\n")
			if got := h.ForeignUnit(state.UnitFile{}); got != tc.foreign {
				t.Errorf("it is a stranger's: %v", got)
			}
		})
	}
}

// systemd makes units of SysV's scripts: who removes such a unit finds it again after the next boot.
func TestAScriptOfSysVIsNamedByItsFile(t *testing.T) {
	u := systemd.Unit{LoadState: "loaded", FragmentPath: "/run/systemd/generator.late/teleport.service", SourcePath: "/etc/init.d/teleport"}
	err := testHost(t).CheckUnit(u)
	if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), "/etc/init.d/teleport") || strings.Contains(err.Error(), "generator") {
		t.Errorf("it ends with %v", err)
	}
}
