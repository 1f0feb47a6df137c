// What needs no host is not run a second time with what does.

//go:build !hosts

package repository

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"

	"teleport-update/packaging/signing"
)

func TestVersionsAddUpAndGo(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.publish("--packages", standIns(t, "1.0.0~rc.1"))
	s.publish("--packages", standIns(t, "1.0.0"))
	s.offers("1.0.0", "1.0.0~rc.1")
	if says := s.publish("--packages", standIns(t, "1.0.0")); !strings.Contains(says, "8 packages, 0 of them new") {
		t.Errorf("the same again:\n%s", says)
	}
	s.publish("--packages", standIns(t, "1.1.0"), "--keep", "2")
	s.offers("1.0.0", "1.1.0")

	// What is gone from the index stays for those who have read the one before.
	const gone = "apt/pool/teleport-update_1.0.0~rc.1_amd64.deb"
	if !s.has(gone) {
		t.Error("a package is gone with its entry in the index")
	}
	if says := s.publish(); !s.has(gone) || !strings.Contains(says, gone+" (not published") {
		t.Errorf("two hours later the package is gone, or not told of:\n%s", says)
	}
	indexes := s.files(".xml.gz") + s.files("/by-hash/")
	s.publish("--grace", "30m")
	s.offers("1.0.0", "1.1.0")
	if s.has(gone) || s.has("yum/x86_64/teleport-update-1.0.0~rc.1-1.x86_64.rpm") {
		t.Error("a package stays after its time of grace")
	}
	if now := s.files(".xml.gz") + s.files("/by-hash/"); now >= indexes {
		t.Errorf("there were %d indexes, and after their time of grace %d", indexes, now)
	}

	s.publish("--withdraw", "1.1.0", "--packages", standIns(t, "1.1.0"))
	s.offers("1.0.0")
	s.publish()
	s.offers("1.0.0")
	s.refuses("no version 1.2.3 to withdraw", "--withdraw", "1.2.3")
	s.refuses("no package to publish", "--withdraw", "1.0.0")
}

// files counts those with a word in their path.
func (s *shelf) files(word string) (n int) {
	s.t.Helper()
	check(s.t, filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(path, word) {
			n++
		}
		return err
	}))
	return n
}

// What is published is a function of the packages, the key and the time.
func TestTwoPublicationsAreTheSame(t *testing.T) {
	t.Parallel()
	one, two := newShelf(t), newShelf(t)
	for _, s := range []*shelf{one, two} {
		s.publish("--packages", standIns(t, "1.0.0"), "--valid-for", "48h", "--url", "https://packages.example.com")
		s.publish("--packages", standIns(t, "1.1.0"))
	}
	if visible(t, one.dir) != visible(t, two.dir) {
		t.Error("the same packages give two repositories")
	}
}

func TestOneRunAtATimeWrites(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.publish("--packages", standIns(t, "1.0.0"))
	other, err := os.Open(filepath.Join(s.dir, ".lock"))
	check(t, err)
	defer other.Close()
	check(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))
	s.refuses("is being written by another run", "--packages", standIns(t, "1.1.0"))
	check(t, other.Close())
	s.publish("--packages", standIns(t, "1.1.0"))
	s.offers("1.0.0", "1.1.0")
}

func TestOnlyPackagesThatAreWholeArePublished(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.publish("--packages", standIns(t, "1.0.0"))
	dir := t.TempDir()
	s.refuses("no debs and no rpms", "--packages", dir)
	check(t, os.WriteFile(filepath.Join(dir, "x.deb"), []byte("!<arch>\n"), 0o644))
	s.refuses("dpkg-deb: exit status", "--packages", dir)
	check(t, os.Remove(filepath.Join(dir, "x.deb")))
	rpm, err := os.ReadFile(filepath.Join(standIns(t, "1.1.0"), "standin-1.1.0-amd64.rpm"))
	check(t, err)
	at := bytes.Index(rpm, []byte("a stand-in"))
	for what, damaged := range map[string][]byte{
		"Payload SHA256 digest: BAD": slices.Concat(rpm[:len(rpm)-1], []byte{^rpm[len(rpm)-1]}),
		"Header SHA256 digest: BAD":  slices.Concat(rpm[:at], []byte{^rpm[at]}, rpm[at+1:]),
		"rpm: exit status":           rpm[1:],
		"signature hdr blob":         rpm[:200],
	} {
		check(t, os.WriteFile(filepath.Join(dir, "x.rpm"), damaged, 0o644))
		s.refuses(what, "--packages", dir)
	}
	s.offers("1.0.0")
}

// A version is one thing for ever: hosts may have it.
func TestAPublishedVersionNeverChanges(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.publish("--packages", standIns(t, "1.0.0"))
	for _, format := range []string{"deb", "rpm"} {
		dir := t.TempDir()
		check(t, os.CopyFS(dir, os.DirFS(otherStandIns(t, "1.0.0", Options{Comment: "made once more", Key: signing.Key{File: s.key.secret}}))))
		for _, arch := range Architectures {
			check(t, os.Remove(filepath.Join(dir, "standin-1.0.0-"+arch+"."+map[string]string{"deb": "rpm", "rpm": "deb"}[format])))
		}
		s.refuses("was published with another content", "--packages", dir)
	}
	s.offers("1.0.0")
}

// A repository without a signature in its rpms would be one that hosts refuse.
func TestOnlyRPMsThatATrustedKeySignedArePublished(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.publish("--packages", standIns(t, "1.0.0"))
	const refusal = "not signed by the key given"
	s.refuses(refusal, "--packages", otherStandIns(t, "1.1.0", Options{}))
	s.refuses(refusal, "--packages", standInsBy(t, "1.1.0", 1))
	s.publish("--packages", standInsBy(t, "1.1.0", 1), "--previous-key", keyNumber(t, 1).public)
	s.offers("1.0.0", "1.1.0")
	// What is published already stays as it is, whoever has signed the same once more.
	rpm := "yum/x86_64/teleport-update-1.1.0-1.x86_64.rpm"
	before := s.read(rpm)
	says := s.publish("--packages", standIns(t, "1.1.0"))
	if !strings.Contains(says, ", 0 of them new,") || s.read(rpm) != before {
		t.Errorf("the same, signed by another key:\n%s", says)
	}
}

// The same packages and the same key give the same bytes: a signature is no exception.
func TestTwoBuildsOfAnRPMAreTheSame(t *testing.T) {
	t.Parallel()
	o := Options{Key: signing.Key{File: keyNumber(t, 0).secret}}
	one, two := otherStandIns(t, "1.0.0", o), otherStandIns(t, "1.0.0", o)
	if visible(t, one) != visible(t, two) {
		t.Error("two builds differ")
	}
	if visible(t, one) == visible(t, otherStandIns(t, "1.0.0", Options{})) {
		t.Error("the key changes nothing: nothing is signed")
	}
}

func TestMissingProgramsAreNamed(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.publish("--packages", standIns(t, "1.0.0"))
	for _, missing := range []struct{ program, pkg string }{
		{"apt-ftparchive", "apt-utils"}, {"createrepo_c", "createrepo-c"}, {"rpmkeys", "rpm"},
	} {
		s.env = []string{"PATH=" + without(t, missing.program)}
		s.refuses("not installed: "+missing.program+"; nothing was published: apt-get install "+missing.pkg, "--packages", standIns(t, "1.1.0"))
	}
	s.env = []string{"PATH=/nonexistent"}
	s.refuses("apt-get install apt-utils createrepo-c dpkg rpm", "--packages", standIns(t, "1.1.0"))
}

// without is a folder with all that a publication runs but one.
func without(t *testing.T, missing string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"apt-ftparchive", "createrepo_c", "dpkg-deb", "rpm", "rpmkeys"} {
		program, err := exec.LookPath(name)
		check(t, err)
		if name != missing {
			check(t, os.Symlink(program, filepath.Join(dir, name)))
		}
	}
	return dir
}

// What is gone or damaged cannot be published, and its version can be withdrawn.
func TestADamagedVersionCanBeWithdrawn(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.publish("--packages", standIns(t, "1.0.0"))
	s.publish("--packages", standIns(t, "1.1.0"))
	check(t, os.Remove(filepath.Join(s.dir, "apt/pool/teleport-update_1.1.0_amd64.deb")))
	s.write("yum/x86_64/teleport-update-1.1.0-1.x86_64.rpm", "damaged")
	s.refuses("or --withdraw its version")
	s.publish("--withdraw", "1.1.0")
	s.offers("1.0.0")
}

// The folder may come from a server that was broken into.
func TestOnlyWhatATrustedKeySignedStaysPublished(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.publish("--packages", standIns(t, "1.0.0"))
	foreign := newShelf(t)
	foreign.key = keyNumber(t, 1)
	foreign.publish("--packages", standInsBy(t, "9.0.0", 1))

	// Laid beside what is published, even with a signature of another key.
	for _, name := range []string{"apt/pool/teleport-update_9.0.0_amd64.deb", "yum/x86_64/teleport-update-9.0.0-1.x86_64.rpm"} {
		s.write(name, foreign.read(name))
	}
	says := s.publish("--packages", standIns(t, "1.1.0"))
	s.offers("1.0.0", "1.1.0")
	if strings.Count(says, "9.0.0") != 2 || strings.Count(says, "(not published: it is in the folder") != 2 {
		t.Errorf("what was laid there is not told of:\n%s", says)
	}

	// Exchanged for what is published.
	for _, name := range []string{"apt/pool/teleport-update_1.0.0_amd64.deb", "yum/x86_64/teleport-update-1.0.0-1.x86_64.rpm"} {
		good := s.read(name)
		s.write(name, good+"x")
		s.refuses("which is published: ", "--packages", standIns(t, "1.1.0"))
		check(t, os.Remove(filepath.Join(s.dir, name)))
		s.refuses("which is published: ", "--packages", standIns(t, "1.1.0"))
		s.write(name, good)
	}
	// An index of somebody else's.
	for _, name := range []string{"apt/dists/stable/InRelease", "yum/x86_64/repodata/repomd.xml.asc"} {
		good := s.read(name)
		s.write(name, foreign.read(name))
		s.refuses("is not signed by the key given", "--packages", standIns(t, "1.1.0"))
		s.write(name, strings.Replace(good, "stable", "Stable", 1))
		if s.read(name) != good {
			s.refuses("is not signed by the key given", "--packages", standIns(t, "1.1.0"))
		}
		s.write(name, good)
	}
	s.publish()
	s.offers("1.0.0", "1.1.0")
}

func TestAKeyFollowsAnother(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.publish("--packages", standIns(t, "1.0.0"))
	next := keyNumber(t, 1)
	s.refuses("is not signed by the key given", "--key", next.secret)
	s.publish("--key", next.secret, "--previous-key", s.key.public, "--packages", standInsBy(t, "1.1.0", 1))
	s.key = next
	s.offers("1.0.0", "1.1.0")
	// Hosts get both: the rpm of before is signed with the one of before.
	if n := len(keysIn(t, filepath.Join(s.dir, "teleport-update.asc"))); n != 2 {
		t.Errorf("hosts get %d keys", n)
	}
	s.publish()
	s.offers("1.0.0", "1.1.0")
}

func TestARepositoryThatHasEndedIsRenewed(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	says := s.publish("--packages", standIns(t, "1.0.0"), "--valid-for", "30m")
	if !strings.Contains(says, "the repository ends on ") || !strings.Contains(s.read("apt/dists/stable/InRelease"), "\nValid-Until: ") {
		t.Errorf("the end is not there, or not told of:\n%s", says)
	}
	s.publish("--packages", standIns(t, "1.1.0"))
	s.offers("1.0.0", "1.1.0")
	if strings.Contains(s.read("apt/dists/stable/InRelease"), "Valid-Until") {
		t.Error("without an end asked for, there is one")
	}
	// apt would not take what is older than what it has, without a word.
	s.now = s.now.Add(-3 * time.Hour)
	s.refuses("set the clock")
}

func TestTheSecretKeyIsKeptFromTheServer(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.publish("--packages", standIns(t, "1.0.0"))
	check(t, filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "PRIVATE KEY") {
			t.Errorf("%s holds a secret key", path)
		}
		return err
	}))
	secret, err := os.ReadFile(s.key.secret)
	check(t, err)
	inside := filepath.Join(s.dir, "secret.asc")
	check(t, os.WriteFile(inside, secret, 0o600))
	s.refuses("is in the repository", "--key", inside)
	check(t, os.Remove(inside))
	lax := private(t, s.key.secret)
	check(t, os.Chmod(lax, 0o640))
	s.refuses("chmod 600", "--key", lax)
	s.refuses("it is a public key", "--key", private(t, s.key.public))
	if _, says, err := tryAt(t, begun, "--new-key", s.key.secret); err == nil || !strings.Contains(says, "no key is written over it") {
		t.Errorf("a second key of that name: %v\n%s", err, says)
	}

	// One with a passphrase.
	dir := t.TempDir()
	phrase, locked := filepath.Join(dir, "phrase"), filepath.Join(dir, "locked.asc")
	check(t, os.WriteFile(phrase, []byte("correct horse\n"), 0o600))
	check(t, os.WriteFile(phrase+".wrong", []byte("horse\n"), 0o600))
	runAt(t, begun, "--new-key", locked, "--passphrase-file", phrase)
	s.refuses("say --passphrase-file", "--key", locked)
	s.refuses("the passphrase does not open it", "--key", locked, "--passphrase-file", phrase+".wrong")
	s.publish("--key", locked, "--passphrase-file", phrase, "--previous-key", s.key.public)
}

// private is a copy that only its owner may read.
func private(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	to := filepath.Join(t.TempDir(), filepath.Base(path))
	check(t, os.WriteFile(to, data, 0o600))
	return to
}

// offers asserts which versions each kind of host can get.
func (s *shelf) offers(versions ...string) {
	s.t.Helper()
	view, err := Look(s.dir, s.key.keyring)
	if err != nil {
		s.t.Errorf("%v", err)
		return
	}
	want := View{Yum: map[string][]string{"x86_64": nil, "aarch64": nil}}
	for _, v := range versions {
		want.Apt = append(want.Apt, "apt/pool/teleport-update_"+v+"_amd64.deb", "apt/pool/teleport-update_"+v+"_arm64.deb")
		for arch := range want.Yum {
			want.Yum[arch] = append(want.Yum[arch], "yum/"+arch+"/teleport-update-"+v+"-1."+arch+".rpm")
		}
	}
	if !reflect.DeepEqual(view, want) {
		s.t.Errorf("offered are %v; want %v", view, want)
	}
}

func (s *shelf) has(name string) bool {
	_, err := os.Stat(filepath.Join(s.dir, name))
	return err == nil
}

func (s *shelf) write(name, text string) {
	s.t.Helper()
	check(s.t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644))
}

func keysIn(t testing.TB, path string) openpgp.EntityList {
	t.Helper()
	f, err := os.Open(path)
	check(t, err)
	defer f.Close()
	keys, err := openpgp.ReadArmoredKeyRing(f)
	check(t, err)
	return keys
}

// refuses asserts that nothing is published, and why.
func (s *shelf) refuses(want string, args ...string) {
	s.t.Helper()
	before := visible(s.t, s.dir)
	_, says, err := tryIn(s.t, s.env, s.now.Add(time.Hour), s.args(args...)...)
	if err == nil || !strings.Contains(says, want) {
		s.t.Errorf("mkrepository %q: %v; want %q in\n%s", args, err, want, says)
	}
	if visible(s.t, s.dir) != before {
		s.t.Errorf("mkrepository %q has failed and changed what is served", args)
	}
}

// otherStandIns are those of a version with another content.
func otherStandIns(t testing.TB, version string, o Options) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "packages")
	check(t, StandIns(context.Background(), pack(t), dir, version, o))
	return dir
}
