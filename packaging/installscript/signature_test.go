package installscript

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	gpgsigner "teleport-update/integration/signer"
)

const signedPackage = "teleport-update_1.2.3_amd64.deb"

// signer is a key, what its file holds, and what its signatures are called.
type signer struct {
	public []byte
	suffix string
	sign   func(data []byte) []byte
}

// pgpSigner has its key in gpg's form, or armored.
func pgpSigner(t *testing.T, form ...string) signer {
	t.Helper()
	key, err := gpgsigner.New("../..")
	must(t, err)
	t.Cleanup(func() { must(t, key.Close()) })
	public, err := key.GPG(append(form, "--export")...)
	must(t, err)
	return signer{[]byte(public), ".asc", func(data []byte) []byte {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, signedPackage), data, 0o644))
		must(t, key.Sign(dir))
		signature, err := os.ReadFile(filepath.Join(dir, signedPackage+".asc"))
		must(t, err)
		return signature
	}}
}

// ecdsaSigner signs as cosign and Teleport's releases do.
func ecdsaSigner(t *testing.T) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	must(t, err)
	return signer{pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), ".sig", func(data []byte) []byte {
		sum := sha256.Sum256(data)
		signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
		must(t, err)
		return []byte(base64.StdEncoding.EncodeToString(signature) + "\n")
	}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// verified runs the script's check over a package of the server's folder, with a key.
func verified(t *testing.T, shell []string, key, offered, path string) (said string, ok bool) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700)) // as mktemp's; gpgv warns of others
	content, err := os.ReadFile(filepath.Join(offered, signedPackage))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, signedPackage), content, 0o644))
	functions := strings.TrimSuffix(script, "{ main \"$@\"; exit; }\n")
	if functions == script {
		t.Fatal("the script's last line is another one")
	}
	// Instead of over the network.
	functions += "\nfetch() { cp \"" + offered + "/${1##*/}\" \"$2\" 2>/dev/null; }\n" +
		"dir='" + dir + "' server=https://find.example.com package_key='" + key + "'\ncheck_signature " + signedPackage + "\n"
	cmd := exec.Command(shell[0], append(shell[1:], "-c", functions)...)
	if path != "" {
		cmd.Path, err = exec.LookPath(shell[0])
		must(t, err)
		cmd.Env = []string{"PATH=" + path}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// A package is installed if the key that a person named has signed these bytes; every other
// state of its signature ends the script with the reason.
func TestAPackageIsSignedByTheKeyThatAPersonNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("it signs packages with several programs")
	}
	for _, program := range []string{"gpgv", "gpg", "openssl"} {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
	}
	pgp, otherPGP, armored := pgpSigner(t), pgpSigner(t), pgpSigner(t, "--armor")
	kinds := map[string]struct{ right, wrong signer }{
		"OpenPGP": {pgp, otherPGP}, "OpenPGP, armored": {armored, otherPGP}, "ECDSA": {ecdsaSigner(t), ecdsaSigner(t)},
	}
	const content, otherContent = "what is in the package", "something else"
	for kind, keys := range kinds {
		right, wrong := keys.right, keys.wrong
		for _, tc := range []struct {
			name      string
			signature []byte
			says      string // empty: it is verified
		}{
			{"of the key", right.sign([]byte(content)), ""},
			{"of another key", wrong.sign([]byte(content)), "is not signed by the key in"},
			{"of another file", right.sign([]byte(otherContent)), "is not signed by the key in"},
			{"missing", nil, "has no signature"},
			{"empty", []byte{}, "is not signed by the key in"},
			{"noise", []byte("\x00\xff noise"), "is not signed by the key in"},
		} {
			offered := t.TempDir()
			key := filepath.Join(offered, "key")
			must(t, os.WriteFile(key, right.public, 0o644))
			must(t, os.WriteFile(filepath.Join(offered, signedPackage), []byte(content), 0o644))
			if tc.signature != nil {
				must(t, os.WriteFile(filepath.Join(offered, signedPackage+right.suffix), tc.signature, 0o644))
			}
			for name, shell := range shells(t) {
				said, ok := verified(t, shell, key, offered, "")
				if ok != (tc.says == "") || !strings.Contains(said, tc.says) {
					t.Errorf("%s, %s, a signature %s: verified is %v:\n%s", kind, name, tc.name, ok, said)
				}
			}
		}
	}
}

// Each program that verifies does so alone, and without any the script says so and stops.
func TestAnyProgramThatIsThereVerifiesPackages(t *testing.T) {
	offered := t.TempDir()
	key := filepath.Join(offered, "key")
	pgp := pgpSigner(t)
	must(t, os.WriteFile(key, pgp.public, 0o644))
	must(t, os.WriteFile(filepath.Join(offered, signedPackage), []byte("x"), 0o644))
	must(t, os.WriteFile(filepath.Join(offered, signedPackage+".asc"), pgp.sign([]byte("x")), 0o644))
	for _, verifier := range []string{"gpgv", "gpg", "sqv", ""} {
		bin := t.TempDir()
		for _, name := range append(strings.Fields("grep sed base64 cat cp id printf"), verifier) {
			path, err := exec.LookPath(name)
			if name == "" || err != nil {
				continue
			}
			must(t, os.Symlink(path, filepath.Join(bin, name)))
		}
		if _, err := os.Lstat(filepath.Join(bin, verifier)); verifier != "" && err != nil {
			t.Logf("NOT TESTED with %s: it is not installed", verifier)
			continue
		}
		said, ok := verified(t, []string{"dash"}, key, offered, bin)
		if ok != (verifier != "") || !ok && !strings.Contains(said, "cannot be verified") {
			t.Errorf("with %q: verified is %v:\n%s", verifier, ok, said)
		}
	}
}
