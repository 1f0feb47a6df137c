// What needs no host is not run a second time with what does.

//go:build !hosts

package repository

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"teleport-update/integration/signer"
)

// The repository has the packages in the folder, and no others.
func TestVersionsAddUpAndGo(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.addsVersion("1.0.0~rc.1")
	s.publish("--url", "https://packages.example.com")
	s.addsVersion("1.0.0")
	s.publish()
	s.offers("1.0.0", "1.0.0~rc.1")
	if says := s.publish(); strings.Contains(says, "(new)") || strings.Count(says, "teleport-update_1.0.0_arm64.deb\n") != 1 {
		t.Errorf("the same again:\n%s", says)
	}
	if !strings.Contains(s.read("teleport-update.sources"), "URIs: https://packages.example.com/apt\n") {
		t.Error("without an address the configuration of hosts does not stay as it was")
	}

	s.removes("1.0.0~rc.1")
	s.addsVersion("1.1.0")
	s.publish()
	s.offers("1.0.0", "1.1.0")
	const gone = "apt/pool/teleport-update_1.0.0~rc.1_amd64.deb"
	if !s.has(gone) {
		t.Error("a package is gone for clients that have just read the index")
	}
	s.publish()
	s.offers("1.0.0", "1.1.0")
	if s.has(gone) {
		t.Error("a package stays for ever")
	}
}

func TestOneRunAtATimePublishes(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.addsVersion("1.0.0")
	s.publish()
	other, err := os.Open(s.dir + ".lock")
	check(t, err)
	defer other.Close()
	check(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))
	s.refuses("another run publishes")
	check(t, other.Close())
	s.publish()
	s.offers("1.0.0")
}

func TestAFolderOfSomebodyElseIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.addsVersion("1.0.0")
	check(t, os.Mkdir(s.dir, 0o755))
	check(t, os.WriteFile(filepath.Join(s.dir, "file"), nil, 0o644))
	s.refuses("is a folder, and not a link")
	if !s.has("file") {
		t.Error("a file in it is gone")
	}
}

func TestOnlyPackagesThatAreWholeArePublished(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.refuses("there are no debs and no rpms")
	s.addsVersion("1.0.0")
	s.publish()
	const name = "teleport-update-1.1.0-1.x86_64.rpm"
	rpm, err := os.ReadFile(filepath.Join(standIns(t, "1.1.0"), name))
	check(t, err)
	at := bytes.Index(rpm, []byte("a stand-in"))
	for what, damaged := range map[string][]byte{
		"Payload SHA256 digest: BAD":  slices.Concat(rpm[:len(rpm)-1], []byte{^rpm[len(rpm)-1]}),
		"Header SHA256 digest: BAD":   slices.Concat(rpm[:at], []byte{^rpm[at]}, rpm[at+1:]),
		"not signing corrupt package": rpm[1:],
		"are not signed":              rpm[:200],
	} {
		check(t, os.WriteFile(filepath.Join(s.packages, name), damaged, 0o644))
		s.refuses(what)
	}
	check(t, os.Remove(filepath.Join(s.packages, name)))
	check(t, os.WriteFile(filepath.Join(s.packages, "x.deb"), []byte("!<arch>\n"), 0o644))
	s.refuses("x.deb is damaged")
	check(t, os.Remove(filepath.Join(s.packages, "x.deb")))
	s.publish()
	s.offers("1.0.0")
}

// A version is one thing for ever: hosts may have it.
func TestAPublishedVersionNeverChanges(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.addsVersion("1.0.0")
	s.publish()
	other := filepath.Join(t.TempDir(), "packages")
	makeStandIns(t, other, "1.0.0", "made once more")
	for _, suffix := range []string{"amd64.deb", "x86_64.rpm"} {
		s.addsVersion("1.0.0")
		found, err := filepath.Glob(filepath.Join(other, "*"+suffix))
		check(t, err)
		for _, path := range found {
			check(t, os.Rename(path, filepath.Join(s.packages, filepath.Base(path))))
		}
		s.refuses("was published with another content")
	}
	// Built once more, it has the same content and no signature.
	s.addsVersion("1.0.0")
	if says := s.publish(); strings.Contains(says, "(new)") {
		t.Errorf("the same, built once more:\n%s", says)
	}
	s.offers("1.0.0")
}

func TestMissingProgramsAreNamed(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.addsVersion("1.0.0")
	s.publish()
	for _, missing := range []string{"apt-ftparchive", "createrepo_c", "gpg", "rpmsign"} {
		bin := t.TempDir()
		for _, dir := range []string{"/usr/bin", "/bin"} {
			entries, err := os.ReadDir(dir)
			check(t, err)
			for _, e := range entries {
				if e.Name() != missing {
					os.Symlink(filepath.Join(dir, e.Name()), filepath.Join(bin, e.Name()))
				}
			}
		}
		s.env = []string{"PATH=" + bin}
		s.refuses(missing + " is not installed: apt-get install ")
	}
}

func TestAKeyFollowsAnother(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.addsVersion("1.0.0")
	s.publish()
	s.key = keyNumber(t, 1)
	s.addsVersion("1.1.0")
	s.publish()
	s.offers("1.0.0", "1.1.0")
	for _, arch := range []string{"x86_64", "aarch64"} {
		for _, v := range []string{"1.0.0", "1.1.0"} {
			s.signedBy(s.key, "yum/"+arch+"/teleport-update-"+v+"-1."+arch+".rpm")
		}
	}
}

// signedBy asserts that rpm accepts an rpm if it knows one key.
func (s *shelf) signedBy(k *signer.Key, name string) {
	s.t.Helper()
	db := s.t.TempDir()
	public, err := k.GPG("--armor", "--export")
	check(s.t, err)
	file := filepath.Join(s.t.TempDir(), "public.asc")
	check(s.t, os.WriteFile(file, []byte(public), 0o644))
	for _, args := range [][]string{{"--import", file}, {"--checksig", "--verbose", filepath.Join(s.dir, name)}} {
		out, err := exec.Command("rpmkeys", append([]string{"--dbpath", db}, args...)...).CombinedOutput()
		if err != nil || args[0] == "--checksig" && !strings.Contains(string(out), "Signature, key ID") {
			s.t.Errorf("rpmkeys %q: %v\n%s", args, err, out)
		}
	}
}

// A primary key may be kept elsewhere. dnf shows the subkey's fingerprint to a person, who finds it in the output.
func TestASubkeySigns(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	k, err := signer.NewWith(module, "ed25519", "cert")
	check(t, err)
	defer k.Close()
	s.key = k
	s.addsVersion("1.0.0")
	s.refuses("are not signed")
	check(t, k.AddSubkey())
	says := s.publish()
	s.offers("1.0.0")
	s.signedBy(k, "yum/x86_64/teleport-update-1.0.0-1.x86_64.rpm")
	listed, err := k.GPG("--fingerprint", "--with-subkey-fingerprint")
	check(t, err)
	prints := 0
	for line := range strings.Lines(listed) {
		if fingerprint := strings.TrimSpace(line); strings.Contains(fingerprint, "  ") && strings.Trim(fingerprint, "0123456789ABCDEF ") == "" {
			prints++
			if !strings.Contains(says, fingerprint) {
				t.Errorf("the fingerprint %s is not printed:\n%s", fingerprint, says)
			}
		}
	}
	if prints != 2 {
		t.Errorf("gpg shows %d fingerprints:\n%s", prints, listed)
	}
}

func TestARepositoryThatEnds(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.addsVersion("1.0.0")
	says := s.publish("--valid-for", "30 days")
	_, until, _ := strings.Cut(s.read("apt/dists/stable/InRelease"), "\nValid-Until: ")
	until, _, _ = strings.Cut(until, "\n")
	if until == "" || !strings.Contains(says, "hosts refuse it from "+until) {
		t.Errorf("Valid-Until is %q, and printed is\n%s", until, says)
	}
	s.refuses("is not a time", "--valid-for", "soon")
	s.publish()
	s.offers("1.0.0")
	if strings.Contains(s.read("apt/dists/stable/InRelease"), "Valid-Until") {
		t.Error("without an end asked for, there is one")
	}
}

func TestAClockThatIsBehindPublishesNothing(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.addsVersion("1.0.0")
	s.publish()
	if out, err := exec.Command("touch", "-d", "tomorrow", filepath.Join(s.dir, "apt/dists/stable/InRelease")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.refuses("set the clock")
}

// offers asserts which versions each kind of host can get.
func (s *shelf) offers(versions ...string) {
	s.t.Helper()
	view, err := s.view()
	if err != nil {
		s.t.Errorf("%v", err)
		return
	}
	if want := offering(versions...); !reflect.DeepEqual(view, want) {
		s.t.Errorf("offered are %v; want %v", view, want)
	}
}

// offering is what a repository with these versions offers.
func offering(versions ...string) View {
	v := View{Yum: map[string][]string{"x86_64": nil, "aarch64": nil}}
	for _, version := range versions {
		v.Apt = append(v.Apt, "apt/pool/teleport-update_"+version+"_amd64.deb", "apt/pool/teleport-update_"+version+"_arm64.deb")
		for arch := range v.Yum {
			v.Yum[arch] = append(v.Yum[arch], "yum/"+arch+"/teleport-update-"+version+"-1."+arch+".rpm")
		}
	}
	return v
}

// gpg makes keys that rpm does not know.
func TestAKeyThatRPMRefusesPublishesNothing(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	k, err := signer.NewWith(module, "brainpoolP256r1", "sign")
	check(t, err)
	defer k.Close()
	s.key = k
	s.addsVersion("1.0.0")
	s.refuses("Unsupported PGP signature")
}
