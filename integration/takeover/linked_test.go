//go:build hosts

package takeover

import (
	"strings"
	"testing"

	"teleport-update/integration/scenes"
)

// dpkg's purge removes the file behind a configuration file that is a link, rpm renames the link, and the scripts of
// both remove what is left.
func TestAConfigurationThatIsALinkStaysWhenThePackageGoes(t *testing.T) {
	t.Parallel()
	const (
		files  = "/srv/conf"
		dropIn = "/etc/systemd/system/teleport.service.d/50-site.conf"
	)
	for name, tc := range map[string]struct {
		install func(*testing.T) *scene
		taken   func(*scene)
	}{
		"of apt's": {func(t *testing.T) *scene { s := newScene(t); s.InstallOldDeb(""); return s }, func(s *scene) { s.Taken("1.0.0") }},
		"of dnf's": {func(t *testing.T) *scene { s := sceneOn(t, scenes.DnfHost); s.InstallOldRPM(); return s }, func(s *scene) { s.WholeAgent() }},
	} {
		t.Run(name, func(t *testing.T) {
			s := tc.install(t)
			s.Must("mkdir", "-p", files)
			// The configuration by two links, the environment by a link to a folder, and a drop-in.
			s.Must("mv", "/etc/teleport.yaml", files+"/teleport.yaml")
			s.Must("ln", "-s", files+"/teleport.yaml", "/etc/teleport-site.yaml")
			s.Must("ln", "-s", "teleport-site.yaml", "/etc/teleport.yaml")
			s.Must("ln", "-s", files, "/etc/default/site")
			s.Must("mv", "/etc/default/teleport", files+"/environment")
			s.Must("ln", "-s", "site/environment", "/etc/default/teleport")
			s.Write(files+"/drop-in.conf", "[Service]\nEnvironment=SITE=one\n")
			s.Must("mkdir", "-p", strings.TrimSuffix(dropIn, "/50-site.conf"))
			s.Must("ln", "-s", files+"/drop-in.conf", dropIn)
			s.Must("systemctl", "daemon-reload")
			s.Must("chmod", "0640", files+"/teleport.yaml")
			look := func() string {
				return s.Must("sh", "-c", "stat -c '%N %A %U' /etc/teleport.yaml /etc/teleport-site.yaml /etc/default/site /etc/default/teleport "+
					dropIn+" "+files+"/*; cat "+files+"/*")
			}
			before := look()

			s.Sound("1.0.0")
			s.Wants("1.0.0")
			s.Enable("--health-window", "1s")
			tc.taken(s)
			if after := look(); after != before {
				t.Errorf("before\n%s\nafter\n%s", before, after)
			}
			s.Must("systemctl", "restart", "teleport")
			s.Serves("1.0.0")
			if got := s.Must("sh", "-c", "tr '\\0' '\\n' </proc/$(systemctl show -P MainPID teleport)/environ"); !strings.Contains(got, "SITE=one") {
				t.Errorf("the environment of the agent is\n%s", got)
			}
			if copies, _ := s.Names(store + "/original"); strings.Contains(strings.Join(copies, " "), "kept-") {
				t.Errorf("copies are left: %q", copies)
			}
		})
	}
}
