//go:build hosts

package guides

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/find/server/files"
)

// repositoryOf is a repository of the updater's packages, for find.example.com.
func repositoryOf(t *testing.T) string {
	t.Helper()
	packages(t)
	return filepath.Join(guidesRepository, "served")
}

// publishing is what the machine has on which repositories are made.
const publishing = "with apt-utils, createrepo-c, gnupg and rpm"

var publishingPackages = []string{"apt-utils", "createrepo-c", "gnupg", "rpm"}

// offersRepository puts it into the world.
func (w *world) offersRepository() {
	w.t.Helper()
	r, err := files.OpenRepository(repositoryOf(w.t), slog.New(slog.DiscardHandler))
	check(w.t, err)
	w.handler = r.Wrap(w.handler)
}

// A plain image of a distribution, and user data: the package comes as all others do.
func TestCloudInitInstallsFromARepository(t *testing.T) {
	s := newSite(t)
	s.sound("1.0.0")
	s.wants("1.0.0")
	s.offersRepository()
	key, err := os.ReadFile(filepath.Join(repositoryOf(t), "teleport-update.asc"))
	check(t, err)
	indented := strings.ReplaceAll(strings.TrimRight(string(key), "\n"), "\n", "\n      ")
	data := strings.Replace(userData(t, "repository.yaml", "one-time-token"), "      KEY\n", "      "+indented+"\n", 1)
	s.Must("rm", "-rf", "/etc/apt/sources.list", "/etc/teleport.yaml")
	s.Write("/etc/cloud/cloud.cfg.d/90-small.cfg",
		"cloud_init_modules: [write-files]\ncloud_config_modules: [runcmd]\ncloud_final_modules: [package-update-upgrade-install, scripts-user]\n")
	s.Write("/var/lib/cloud/seed/nocloud/meta-data", "instance-id: "+s.Name+"\nlocal-hostname: "+s.Name+"\n")
	s.Write("/var/lib/cloud/seed/nocloud/user-data", data)
	s.Must("cloud-init", "clean", "--logs")
	check(t, s.Reboot(t.Context()))
	if status := s.Try("cloud-init", "status", "--wait"); !strings.Contains(status.Stdout, "status: done") {
		t.Fatalf("cloud-init: %s%s\n%s", status.Stdout, status.Stderr, s.Must("tail", "-n", "60", "/var/log/cloud-init-output.log"))
	}
	runs(t, s.Test, "1.0.0")
	if v := s.Must("dpkg-query", "--show", "--showformat=${Version}", "teleport-update"); v != "1.2.3" {
		t.Errorf("the package's version is %s", v)
	}
	if policy := s.Must("apt-cache", "policy", "teleport-update"); !strings.Contains(policy, "https://find.example.com/apt stable/main") {
		t.Errorf("it came from elsewhere:\n%s", policy)
	}
}
