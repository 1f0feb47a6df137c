//go:build hosts

package packages

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"

	"teleport-update/integration/host"
	"teleport-update/versions/signature"
)

// Teleport's form is that of cosign's blob signatures with a static key: Debian 13 has the
// program. Any of a host's keys may have signed, so that either can be exchanged.
func TestCosignsSignaturesAreTaken(t *testing.T) {
	if os.Getenv("FAULTS") != "all" {
		t.Skip("this is for the night: `make test-nightly` runs it")
	}
	h := host.MadeForTest(t, host.Options{Plain: true, Suite: "trixie", Packages: []string{"cosign"}})
	const tarball = "what is in the tarball"
	if err := h.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Write("/root/teleport.tar.gz", tarball)
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(tarball)))
	key := func(name string) []signature.Key {
		t.Helper()
		h.Must("sh", "-euc", "cd /root && COSIGN_PASSWORD= cosign generate-key-pair --output-key-prefix "+name)
		keys, err := signature.ParseKeys(name+".pub", []byte(h.Read("/root/"+name+".pub")))
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	sign := func(name string) []byte {
		t.Helper()
		h.Must("sh", "-euc", "cd /root && COSIGN_PASSWORD= cosign sign-blob --yes --tlog-upload=false --key "+name+".key --output-signature "+
			name+".sig teleport.tar.gz")
		return []byte(h.Read("/root/" + name + ".sig"))
	}
	primary, backup, next := key("primary"), key("backup"), key("next")
	before, after := append(primary, backup...), append(backup, next...) // the primary key is exchanged
	for name, want := range map[string]struct{ before, after bool }{"primary": {true, false}, "backup": {true, true}, "next": {false, true}} {
		file := sign(name)
		if !strings.HasPrefix(string(file), "M") {
			t.Errorf("cosign's signature is %q", file)
		}
		_, err := signature.Verify(before, digest, file)
		_, later := signature.Verify(after, digest, file)
		if (err == nil) != want.before || (later == nil) != want.after {
			t.Errorf("signed by %s: %v before the rotation, %v after; want %+v", name, err, later, want)
		}
		if _, err := signature.Verify(before, fmt.Sprintf("%x", sha256.Sum256([]byte("another"))), file); err == nil {
			t.Errorf("signed by %s: taken for another file", name)
		}
	}
}
