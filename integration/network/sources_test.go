//go:build hosts

package network

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
)

// Where releases come from, in which form, and in which edition.

// A host without a way to any mirror takes releases from a folder; a mirror may
// serve zstd under the name of a gzip file.
func TestReleasesFromAFolderOfTheHostAndCompressedWithZstd(t *testing.T) {
	s := newScene(t)
	s.Release(release.Spec{Version: "1.0.0"})
	s.Release(release.Spec{Version: "1.1.0", Compression: release.Zstd})
	s.Release(release.Spec{Version: "1.2.0", Compression: release.Zstd})
	const media = "/media/releases/"
	carry := func(v string) {
		name := release.Name(v, version.OSS)
		for _, name := range []string{name, name + ".sha256"} {
			if err := s.CopyIn(filepath.Join(s.Releases, name), media+name, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	carry("1.0.0")
	carry("1.1.0")
	s.Wants("1.0.0")
	s.Must(updater, "enable", "--proxy", cluster.ProxyAddress, "--health-window", scenes.Window,
		"--template", "file://"+media+strings.TrimPrefix(cluster.TemplateURL, cluster.ProxyAddress+"/releases/"))
	s.Must("systemctl", "enable", "--now", "teleport")
	s.Serves("1.0.0")
	s.Wants("1.1.0")
	s.Must(updater, "update")
	s.Serves("1.1.0")
	if n := s.Downloaded.Load(); n != 0 {
		t.Errorf("%d bytes were downloaded", n)
	}

	s.Wants("1.2.0")
	s.Refused("not on the medium", []string{"release not found: " + media + release.Name("1.2.0", version.OSS), "the agent stays on version 1.1.0"}, updater, "update")
	s.Write(media+release.Name("1.2.0", version.OSS)+".sha256", strings.Repeat("0", 64)+"\n")
	s.Refused("only its checksum is on the medium", []string{"release not found", "the agent stays on version 1.1.0"}, updater, "update")
	if log := s.Logged(); strings.Contains(log, "trying again") || strings.Contains(log, "download was interrupted") {
		t.Errorf("what is not there was looked for again and again:\n%s", log)
	}
	if err := os.WriteFile(filepath.Join(s.Releases, "broken"), []byte("cut off"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.CopyIn(filepath.Join(s.Releases, "broken"), media+release.Name("1.2.0", version.OSS), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Refused("damaged on the medium", []string{"neither gzip nor zstd", "the agent stays on version 1.1.0"}, updater, "update")
	if names, _ := s.Names(media); !slices.Contains(names, "teleport-v1.2.0-linux-amd64-bin.tar.gz") {
		t.Errorf("the medium was changed: %v", names)
	}

	// From the folder to a mirror: another enable.
	s.Must(updater, "enable", "--template", cluster.TemplateURL)
	s.Serves("1.2.0")
}

// The cluster becomes an enterprise cluster: another edition of the version that
// runs is an update like any other, and can be rolled back.
func TestAnotherEditionOfTheSameVersion(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.0.0", Edition: version.Enterprise})
	s.RunsOn("1.0.0")
	s.Set(find.Answer{Version: "1.0.0", Edition: version.Enterprise, AutoUpdate: true})

	on := func(folder, edition, previous string) {
		t.Helper()
		host.Wait(t, patience, func() error { return s.Executes(programs + "/" + folder + "/bin/teleport") })
		for _, name := range []string{"teleport", "tsh", "tctl", "tbot"} {
			if got, want := s.Link(linkDir+"/"+name), programs+"/"+folder+"/bin/"+name; got != want {
				t.Errorf("link %s leads to %q; want %q", name, got, want)
			}
		}
		r := s.Status()
		if scenes.Text(r.VersionInstalled) != "1.0.0" || scenes.Text(r.EditionInstalled) != edition || scenes.Text(r.VersionPrevious) != "1.0.0" || scenes.Text(r.EditionPrevious) != previous {
			t.Errorf("status: installed %s %s, previous %s %s; want %s after %s", scenes.Text(r.VersionInstalled), scenes.Text(r.EditionInstalled),
				scenes.Text(r.VersionPrevious), scenes.Text(r.EditionPrevious), edition, previous)
		}
	}
	s.Must(updater, "update")
	on("1.0.0_enterprise", "enterprise", "oss")
	s.Must(updater, "rollback")
	on("1.0.0", "oss", "enterprise")
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick ended with %d", code)
	}
	on("1.0.0", "oss", "enterprise")
	if r := s.Status(); r.State != "held" || scenes.Text(r.HeldVersion) != "1.0.0" {
		t.Errorf("status: %s, held %s: %s", r.State, scenes.Text(r.HeldVersion), r.Explanation)
	}
	s.Must(updater, "update", "--now")
	on("1.0.0_enterprise", "enterprise", "oss")
	s.Must(updater, "verify")
}
