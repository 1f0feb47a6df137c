package signature

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newPair is a private key, and the public one as hosts have it.
func newPair(t testing.TB, name string) (*ecdsa.PrivateKey, Key) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	keys, err := ParseKeys(name, public(t, &k.PublicKey))
	must(t, err)
	return k, keys[0]
}

func public(t testing.TB, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func digestOf(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:])
}

func sign(t testing.TB, k *ecdsa.PrivateKey, data string) []byte {
	t.Helper()
	sum := sha256.Sum256([]byte(data))
	der, err := ecdsa.SignASN1(rand.Reader, k, sum[:])
	must(t, err)
	return []byte(base64.StdEncoding.EncodeToString(der))
}

func TestEitherKeyMayHaveSigned(t *testing.T) {
	k1, primary := newPair(t, "primary.pem")
	k2, backup := newPair(t, "backup.pem")
	for signer, want := range map[*ecdsa.PrivateKey]string{k1: "primary.pem", k2: "backup.pem"} {
		for _, end := range []string{"", "\n", "\r\n"} {
			key, err := Verify([]Key{primary, backup}, digestOf("tarball"), append(sign(t, signer, "tarball"), end...))
			if err != nil || key.Name != want {
				t.Errorf("with the end %q: %q, %v; want %s", end, key.Name, err, want)
			}
		}
	}
}

// Each of these must be refused, and say why.
func TestWhatIsNoSignatureOfTheTarballIsRefused(t *testing.T) {
	k, key := newPair(t, "primary.pem")
	stranger, _ := newPair(t, "stranger")
	good := string(sign(t, k, "tarball"))
	der, err := base64.StdEncoding.DecodeString(good)
	must(t, err)
	encode := base64.StdEncoding.EncodeToString
	for name, tc := range map[string]struct {
		file string
		want string
	}{
		"of another file":              {string(sign(t, k, "another")), "none of the keys made this signature of this tarball: primary.pem"},
		"of another key":               {string(sign(t, stranger, "tarball")), "none of the keys"},
		"empty":                        {"", "it is empty"},
		"a line end":                   {"\n", "it is empty"},
		"two line ends":                {good + "\n\n", "more than one line"},
		"two signatures":               {good + "\n" + good + "\n", "more than one line"},
		"a space before":               {" " + good, "not base64"},
		"a space behind":               {good + " ", "not base64"},
		"broken into lines":            {good[:40] + "\n" + good[40:], "more than one line"},
		"without its padding":          {strings.TrimRight(encode(append(der, 0)[:70]), "="), ""},
		"base64 of URLs":               {base64.URLEncoding.EncodeToString([]byte{0xff, 0xfe, 0xfd}), "not base64"},
		"hexadecimal":                  {hex.EncodeToString(der), ""},
		"raw DER":                      {string(der), ""},
		"a page of HTML":               {"<html>404</html>", "not base64"},
		"a JSON bundle":                {`{"base64Signature":"` + good + `"}`, "not base64"},
		"oversized":                    {strings.Repeat("A", MaxFile+1), "more than 512 bytes"},
		"long base64":                  {strings.Repeat("AAAA", 100), "longer than a signature"},
		"a byte too few":               {encode(der[:len(der)-1]), "none of the keys"},
		"a byte too many":              {encode(append(append([]byte{}, der...), 0)), ""},
		"integers of zero":             {encode([]byte{0x30, 6, 2, 1, 0, 2, 1, 0}), "none of the keys"},
		"the order of the curve":       {encode(append([]byte{0x30, 38, 2, 33, 0}, append(elliptic.P256().Params().N.Bytes(), 2, 1, 1)...)), "none of the keys"},
		"bits left over in its base64": {"MEUCIQ==", "none of the keys"},
	} {
		got, err := Verify([]Key{key}, digestOf("tarball"), []byte(tc.file))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %q, %v; want %q", name, got.Name, err, tc.want)
		}
	}
	if _, err := Verify(nil, digestOf("tarball"), []byte(good)); err == nil {
		t.Error("without a key everything is taken")
	}
	// A digest that is cut short could be signed as well.
	short, err := ecdsa.SignASN1(rand.Reader, k, []byte{0xab, 0xcd})
	must(t, err)
	if _, err := Verify([]Key{key}, "abcd", []byte(encode(short))); err == nil {
		t.Error("a signature of two bytes is taken")
	}
	if _, err := Verify([]Key{key}, "not a digest", []byte(good)); err == nil {
		t.Error("a digest that is none is taken")
	}
	var foreign *ForeignError
	if _, err := Verify([]Key{key}, digestOf("x"), []byte(good)); !errors.As(err, &foreign) {
		t.Errorf("%T; want a *ForeignError", err)
	}
}

func TestOnlyPublicKeysThatSignReleasesAreTaken(t *testing.T) {
	k, _ := newPair(t, "a")
	good := public(t, &k.PublicKey)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	edwards, _, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(k)
	must(t, err)
	for name, tc := range map[string]struct {
		file []byte
		want string // part of the error; empty: taken
	}{
		"one key":                {good, ""},
		"two keys":               {append(append([]byte{}, good...), good...), ""},
		"with a byte order mark": {append([]byte("\xef\xbb\xbf"), good...), ""},
		"with empty lines":       {append([]byte("\n\n"), append(good, "\n\n"...)...), ""},
		"nothing":                {nil, "no public key"},
		"an RSA key":             {public(t, &other.PublicKey), "not an ECDSA key on the curve P-256"},
		"a P-384 key":            {public(t, &p384.PublicKey), "not an ECDSA key on the curve P-256"},
		"an Ed25519 key":         {public(t, edwards), "not an ECDSA key on the curve P-256"},
		"a private key":          {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), "private key"},
		"a certificate":          {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), "not a PUBLIC KEY"},
		"a damaged key":          {pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}), "damaged"},
		"a key and a stranger":   {append(append([]byte{}, good...), public(t, &other.PublicKey)...), "P-256"},
		"a key and a torso":      {append(append([]byte{}, good...), good[:60]...), "damaged PEM block"},
		"a torso and a key":      {append(append([]byte{}, good[:60]...), append([]byte("\n"), good...)...), "damaged PEM block"},
		"a comment above":        {append([]byte("# of the release team\n"), good...), ""},
		"a comment below":        {append(append([]byte{}, good...), "# of the release team, until 2030\n"...), ""},
		"a comment between":      {append(append(append([]byte{}, good...), "the backup:\n"...), good...), ""},
		"far too long":           {[]byte(strings.Repeat(string(good), 1000)), "more than"},
		"text":                   {[]byte("see the wiki"), "no public key"},
	} {
		keys, err := ParseKeys("key.pem", tc.file)
		if tc.want == "" && (err != nil || len(keys) == 0) || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %d keys, %v; want %q", name, len(keys), err, tc.want)
		}
	}
}

// openssl is what people sign their own mirrors with.
func TestASignatureByOpensslIsTaken(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not here")
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "tarball"), []byte("tarball"), 0o644))
	script := `openssl ecparam -name prime256v1 -genkey -noout -out key.pem &&
		openssl ec -in key.pem -pubout -out key.pub 2>/dev/null &&
		openssl dgst -sha256 -sign key.pem tarball | base64 -w0 > tarball.sig &&
		openssl pkey -pubin -in key.pub -outform DER | sha256sum | cut -d' ' -f1 > id`
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		return data
	}
	keys, err := ParseKeys("key.pub", read("key.pub"))
	must(t, err)
	if _, err := Verify(keys, digestOf("tarball"), read("tarball.sig")); err != nil {
		t.Error(err)
	}
	// A key that openssl writes with the curve's name before it is private all the same, and a public key below one is taken.
	for _, script := range []string{"openssl ecparam -name prime256v1 -genkey -out both.pem", "openssl ecparam -name prime256v1 -out named.pem; cat key.pub >> named.pem"} {
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = dir
		must(t, cmd.Run())
	}
	if _, err := ParseKeys("both.pem", read("both.pem")); err == nil || !strings.Contains(err.Error(), "it holds a private key") {
		t.Errorf("curve and private key: %v", err)
	}
	if keys, err := ParseKeys("named.pem", read("named.pem")); err != nil || len(keys) != 1 {
		t.Errorf("curve and public key: %d keys, %v", len(keys), err)
	}
	if id := strings.TrimSpace(string(read("id"))); keys[0].ID() != id {
		t.Errorf("the key's id is %s; openssl says %s", keys[0].ID(), id)
	}
}

// FuzzVerify: whatever a mirror sends, nothing is taken but what the key made; and no panic.
func FuzzVerify(f *testing.F) {
	k, key := newPair(f, "a")
	good := string(sign(f, k, "tarball"))
	for _, seed := range []string{good, good + "\n", "", "AAAA", "MAYCAQACAQA=", "MEUCIQ==", "<html>"} {
		f.Add([]byte(seed), "tarball")
	}
	f.Fuzz(func(t *testing.T, file []byte, content string) {
		_, err := Verify([]Key{key}, digestOf(content), file)
		taken := strings.TrimSuffix(strings.TrimSuffix(string(file), "\n"), "\r") == good && content == "tarball"
		if (err == nil) != taken {
			t.Errorf("%q of %q: %v", file, content, err)
		}
	})
}

// FuzzParseKeys: what is taken has keys, each with an id.
func FuzzParseKeys(f *testing.F) {
	k, _ := newPair(f, "a")
	f.Add(public(f, &k.PublicKey))
	f.Add([]byte("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := ParseKeys("a", data)
		if err == nil && len(keys) == 0 {
			t.Error("no keys and no error")
		}
		for _, k := range keys {
			if len(k.ID()) != 64 {
				t.Errorf("a key has the id %q", k.ID())
			}
		}
	})
}
