package policy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/internal/version"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newKey(t testing.TB) (*ecdsa.PrivateKey, string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	must(t, err)
	return k, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
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
	return []byte(base64.StdEncoding.EncodeToString(der) + "\n")
}

// folder is a policy folder with these files.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	for name, data := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(data), 0o644))
	}
	return dir
}

func oss(v string) version.Release { return version.Release{Version: v, Edition: version.OSS} }

var (
	digestA = strings.Repeat("a", 64)
	digestB = strings.Repeat("12345e67", 8) // which YAML may take for a number
)

func TestAPolicyIsReadStrictly(t *testing.T) {
	for text, want := range map[string]string{ // part of the error; empty: it is read
		"minimum: 17.2.0\nwithdrawn: [17.3.1, v17.3.2]\nsignatures: warn\n":         "",
		"releases: {17.1.4: " + digestA + "}\n":                                     "",
		"releases: {17.1.4: [" + digestA + ", " + strings.ToUpper(digestB) + "]}\n": "",
		"# only a comment\n":                    "it has no rule",
		"":                                      "it is empty",
		"\x00\x00\x00\n":                        "it is empty",
		"\xef\xbb\xbf":                          "it is empty",
		"\xff\xfe\r\x00\n\x00":                  "it is empty",
		"\xef\xbb\xbfminimum: 17.2.0\r\n":       "",
		"{}":                                    "it has no rule",
		"{} # minimum: 17.2.0":                  "it has no rule",
		"---\n":                                 "a field has no value",
		"null":                                  "line 1: a field has no value",
		"signatures: off\nminimum:":             "line 2: a field has no value",
		"minimum: ~":                            "line 1: a field has no value",
		"withdrawn: null":                       "line 1: a field has no value",
		"withdrawn: [17.3.1, ]":                 "",
		"withdrawn: [17.3.1, ~]":                "line 1: a field has no value",
		"releases:\nsignatures: off":            "line 1: a field has no value",
		"signatures: !!null off":                "cannot decode",
		"<<: {minimum: }\nsignatures: off":      "line 1: a field has no value",
		"<<: {}":                                "a field has no value",
		"withdrawn: []":                         "line 1: a field has no value",
		"releases: {}":                          "line 1: a field has no value",
		"minimum: ''":                           "minimum: the version is empty",
		"minimum: 17.2":                         `minimum: version "17.2" is not a semantic version`,
		"minimum: 17":                           "is not a semantic version",
		"minimum: latest":                       "is not a semantic version",
		"minimum: [17.2.0]":                     "line 1",
		"Minimum: 17.2.0":                       "field Minimum not found",
		"minimun: 17.2.0":                       "field minimun not found",
		"minimum: 1.2.3\nminimum: 1.2.4":        "already defined",
		"minimum: 1.2.3\n---\nminimum: 0.0.1\n": "more than one document",
		"withdrawn: 17.3.1":                     "line 1",
		"withdrawn: [17.3]":                     "withdrawn:",
		"releases: {17.1.4: abc}":               `"abc", of version 17.1.4, is not a SHA-256`,
		"releases: {17.1.4: []}":                "a field has no value",
		"releases: {17.1.4: null}":              "line 1: a field has no value",
		"releases: {new: " + digestA + "}":      "releases: version \"new\"",
		"releases: [" + digestA + "]":           "line 1",
		"signatures: on":                        `signatures: "on" is none of require, warn, off`,
		"signatures: Require":                   "is none of",
		"signatures: ''":                        "is none of",
		"signed_from: 17.5.0":                   "field signed_from not found",
		"just words":                            "line 1",
		"\tminimum: 17.2.0":                     "cannot start any token",
	} {
		_, _, err := Parse([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "yaml:") || strings.Contains(err.Error(), "policy.document")) {
			t.Errorf("%q: %v, in the parser's terms", text, err)
		}
	}
}

func TestSignaturesAreRequiredFromTheFirstKeyOn(t *testing.T) {
	_, key := newKey(t)
	for name, tc := range map[string]struct {
		files map[string]string
		seen  Seen
		want  Mode
		err   string
	}{
		"nothing":                  {nil, Seen{}, Off, ""},
		"a key":                    {map[string]string{"keys.d/a.pem": key}, Seen{}, Require, ""},
		"a key of another name":    {map[string]string{"keys.d/primary": key}, Seen{}, "", "only files NAME.pem count, and there is primary"},
		"a key put out of use":     {map[string]string{"keys.d/a.pem": key, "keys.d/b.pem.disabled": "x", "keys.d/README": "see the wiki"}, Seen{}, Require, ""},
		"the key put out of use":   {map[string]string{"keys.d/a.pem.bak": key}, Seen{}, "", "only files NAME.pem count, and there is a.pem.bak"},
		"the same, and off":        {map[string]string{"keys.d/a.pem.bak": key, "policy.yaml": "signatures: off\n"}, Seen{}, Off, ""},
		"a key, and warn":          {map[string]string{"keys.d/a.pem": key, "policy.yaml": "signatures: warn\n"}, Seen{}, Warn, ""},
		"a key, and off":           {map[string]string{"keys.d/a.pem": key, "policy.yaml": "signatures: off\n"}, Seen{}, Off, ""},
		"a key, and a floor":       {map[string]string{"keys.d/a.pem": key, "policy.yaml": "minimum: 1.0.0\n"}, Seen{}, Require, ""},
		"a floor alone":            {map[string]string{"policy.yaml": "minimum: 1.0.0\n"}, Seen{}, Off, ""},
		"hidden files":             {map[string]string{"keys.d/.a.pem": key, "keys.d/.a.pem.swp": "x"}, Seen{}, Off, ""},
		"leftovers":                {map[string]string{"keys.d/a.pem~": "x", "keys.d/a.pem.dpkg-old": "x"}, Seen{}, "", "there is a.pem.dpkg-old, a.pem~"},
		"require without a key":    {map[string]string{"policy.yaml": "signatures: require\n"}, Seen{}, "", "there is no key"},
		"a key that is none":       {map[string]string{"keys.d/a.pem": "none"}, Seen{}, "", "no public key"},
		"a policy that is gone":    {map[string]string{"keys.d/a.pem": key}, Seen{Policy: true}, "", "it is gone"},
		"keys that are gone":       {map[string]string{"policy.yaml": "minimum: 1.0.0\n"}, Seen{Policy: true, Keys: true}, "", "they are gone"},
		"keys that are not needed": {map[string]string{"policy.yaml": "signatures: off\n"}, Seen{Policy: true, Keys: true}, Off, ""},
		"all is there":             {map[string]string{"keys.d/a.pem": key, "policy.yaml": "minimum: 1.0.0\n"}, Seen{Policy: true, Keys: true}, Require, ""},
		"an empty policy":          {map[string]string{"policy.yaml": ""}, Seen{}, "", "it is empty"},
	} {
		p, err := Load(folder(t, tc.files), tc.seen)
		var broken *BrokenError
		if tc.err != "" && (!errors.As(err, &broken) || !strings.Contains(err.Error(), tc.err)) || tc.err == "" && err != nil || p.Signatures != tc.want {
			t.Errorf("%s: %q, %v; want %q, %q", name, p.Signatures, err, tc.want, tc.err)
		}
	}
}

func TestWhatOthersMayWriteIsNoPolicy(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root trusts nobody else")
	}
	_, key := newKey(t)
	whole := map[string]string{"keys.d/a.pem": key, "policy.yaml": "minimum: 1.0.0\n"}
	for name, spoil := range map[string]func(dir string) error{
		"the folder":                    func(dir string) error { return os.Chmod(dir, 0o777) },
		"the folder, and nothing in it": func(dir string) error { return os.Chmod(dir, 0o777) },
		"the file":                      func(dir string) error { return os.Chmod(dir+"/policy.yaml", 0o666) },
		"the file's owner":              func(dir string) error { return os.Chown(dir+"/policy.yaml", 1234, 0) },
		"a link": func(dir string) error {
			return errors.Join(os.Rename(dir+"/policy.yaml", dir+"/x"), os.Symlink("x", dir+"/policy.yaml"))
		},
		"a folder": func(dir string) error {
			return errors.Join(os.Remove(dir+"/policy.yaml"), os.Mkdir(dir+"/policy.yaml", 0o755))
		},
		"the keys' folder":   func(dir string) error { return os.Chmod(dir+"/keys.d", 0o777) },
		"a key":              func(dir string) error { return os.Chmod(dir+"/keys.d/a.pem", 0o666) },
		"a key that is link": func(dir string) error { return os.Symlink("a.pem", dir+"/keys.d/b.pem") },
		"keys.d as a file": func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/keys.d"), os.WriteFile(dir+"/keys.d", nil, 0o644))
		},
	} {
		dir := folder(t, whole)
		if name == "the folder, and nothing in it" {
			dir = folder(t, nil)
		}
		must(t, spoil(dir))
		if p, err := Load(dir, Seen{}); err == nil {
			t.Errorf("%s can be exchanged by others, and it is read: %+v", name, p)
		}
	}
}

func TestFloors(t *testing.T) {
	p := Policy{Minimum: "17.2.0", Withdrawn: []string{"17.3.1", "18.0.0-rc.1"}, Releases: map[string][]string{"17.1.4": {digestA, digestB}, "17.3.1": {digestA},
		"17.4.0+a": {digestA}, "17.4.0+b": {digestB}}}
	for _, tc := range []struct {
		version, digest string
		want            Rule // empty: allowed
	}{
		{"17.2.0", "", ""},
		{"17.2.1", "", ""},
		{"18.0.0", "", ""},
		{"17.2.0+build.1", "", ""},
		{"17.1.9", "", BelowMinimum},
		{"17.2.0-rc.1", "", BelowMinimum},
		{"9.0.0", "", BelowMinimum},
		{"17.3.1", digestB, OtherDigest},
		{"17.3.1+other", digestB, OtherDigest},
		{"17.3.1+other", "", ""},
		{"18.0.0-rc.1+x", "", IsWithdrawn},
		{"18.0.0-rc.1", "", IsWithdrawn},
		{"18.0.0-rc.2", "", ""},
		{"17.1.4", "", ""}, // its digest decides
		{"17.1.4", digestA, ""},
		{"17.1.4", digestB, ""},
		{"17.1.4+x", digestA, ""},
		{"17.1.4", strings.Repeat("c", 64), OtherDigest},
		{"17.4.0", digestA, ""}, // both names are of one version
		{"17.4.0", digestB, ""},
		{"17.3.1", digestA, ""},
	} {
		err := p.Floors(oss(tc.version), tc.digest)
		var r *Refusal
		errors.As(err, &r)
		if (err == nil) != (tc.want == "") || r != nil && r.Rule != tc.want {
			t.Errorf("%s, %.4s: %v; want %q", tc.version, tc.digest, err, tc.want)
		}
	}
	if err := (Policy{}).Floors(oss("0.0.1"), ""); err != nil {
		t.Errorf("without a policy: %v", err)
	}
}

// Root's word is about versions: what can still be read of who signs holds.
func TestWhatRemainsOfAPolicyThatCannotBeReliedOn(t *testing.T) {
	_, key := newKey(t)
	for name, tc := range map[string]struct {
		files map[string]string
		want  Mode
		keys  int
	}{
		"nothing":                     {nil, Off, 0},
		"the keys":                    {map[string]string{"keys.d/a.pem": key}, Require, 1},
		"the keys, and a broken file": {map[string]string{"keys.d/a.pem": key, "policy.yaml": "minimum: newest"}, Require, 1},
		"a broken file":               {map[string]string{"policy.yaml": "minimum: newest"}, Off, 0},
		"the file":                    {map[string]string{"policy.yaml": "minimum: 1.0.0"}, Off, 0},
		"required, and no keys":       {map[string]string{"policy.yaml": "signatures: require"}, Off, 0},
		"a broken key":                {map[string]string{"keys.d/a.pem": "none", "policy.yaml": "signatures: warn"}, Off, 0},
	} {
		if p := Remains(folder(t, tc.files)); p.Signatures != tc.want || len(p.Keys) != tc.keys {
			t.Errorf("%s: signatures %s, %d keys; want %s, %d", name, p.Signatures, len(p.Keys), tc.want, tc.keys)
		}
	}
}

// A host whose owner changed anything asks the mirrors at once.
func TestEachRuleIsInTheDigestOfAPolicy(t *testing.T) {
	_, key := newKey(t)
	_, other := newKey(t)
	known := map[string]int{}
	for n, files := range []map[string]string{
		nil, {"policy.yaml": "signatures: off"}, {"policy.yaml": "minimum: 1.0.0"}, {"policy.yaml": "withdrawn: [1.0.0]"},
		{"policy.yaml": "releases: {1.0.0: " + digestA + "}"}, {"policy.yaml": "releases: {1.0.0: " + digestB + "}"},
		{"keys.d/a.pem": key}, {"keys.d/a.pem": other}, {"keys.d/a.pem": key, "policy.yaml": "signatures: warn"},
	} {
		p, err := Load(folder(t, files), Seen{})
		must(t, err)
		if before, taken := known[p.Digest()]; taken || (p.Digest() == "") != (files == nil) {
			t.Errorf("policy %d has the digest %q, as policy %d", n, p.Digest(), before)
		}
		known[p.Digest()] = n
		again, err := Load(folder(t, files), Seen{})
		must(t, err)
		if again.Digest() != p.Digest() {
			t.Errorf("policy %d has another digest when it is read again", n)
		}
	}
}

func TestTheMinimumIsWrittenBesideWhatIsThere(t *testing.T) {
	for before, want := range map[string]string{
		"-": "minimum: 17.2.0\n",
		"# ours\nminimum: 16.0.0 # old\nwithdrawn: [17.3.1]\n": "# ours\nminimum: 17.2.0\nwithdrawn: [17.3.1]\n",
		"# ours\nsignatures: off\n":                            "# ours\nsignatures: off\nminimum: 17.2.0\n",
		"minimum: 17.2.0 # same\n":                             "minimum: 17.2.0 # same\n",
	} {
		files := map[string]string{"policy.yaml": before}
		if before == "-" {
			files = nil
		}
		dir := filepath.Join(folder(t, nil), "etc")
		if files != nil {
			dir = folder(t, files)
		}
		must(t, SetMinimum(dir, "v17.2.0"))
		got, err := os.ReadFile(filepath.Join(dir, "policy.yaml"))
		must(t, err)
		p, _, err := Parse(got)
		if err != nil || p.Minimum != "17.2.0" {
			t.Errorf("%q became %q, %v", before, got, err)
		}
		if string(got) != want {
			t.Errorf("%q became %q; want %q", before, got, want)
		}
	}
	for _, broken := range []string{"broken: yes\n", "", "# no rule\n", "minimum:\n"} {
		if err := SetMinimum(folder(t, map[string]string{"policy.yaml": broken}), "17.2.0"); err == nil {
			t.Errorf("a policy that cannot be read was written over: %q", broken)
		}
	}
	dir := folder(t, nil)
	for _, v := range []string{"", "17", "../x"} {
		if err := SetMinimum(dir, v); err == nil {
			t.Errorf("%q is taken for a version", v)
		}
	}
}

func TestKeysAreCopiedAllOrNone(t *testing.T) {
	_, key := newKey(t)
	_, other := newKey(t)
	from := folder(t, map[string]string{"a.pem": key, "b.pem": key, "bad.pem": "none", ".hidden.pem": key, "a.pub": key, "other/a.pem": other, "same/a.pem": key})
	dir := filepath.Join(folder(t, nil), "etc")
	for _, bad := range []string{"bad.pem", ".hidden.pem", "a.pub", "other/a.pem", "missing"} {
		if err := AddKeys(dir, []string{from + "/a.pem", from + "/" + bad}); err == nil {
			t.Errorf("%s is taken", bad)
		}
		if left, _ := os.ReadDir(dir + "/keys.d"); len(left) > 0 {
			t.Errorf("%s: written are %v", bad, left)
		}
	}
	must(t, AddKeys(dir, []string{from + "/a.pem", from + "/b.pem", from + "/same/a.pem"}))
	if err := AddKeys(dir, []string{from + "/other/a.pem"}); err == nil || !strings.Contains(err.Error(), "two keys of this file name") {
		t.Errorf("a key that would replace another: %v", err)
	}
	if p, err := Load(dir, Seen{}); err != nil || len(p.Keys) != 2 || p.Signatures != Require {
		t.Errorf("%+v, %v", p, err)
	}
}

// FuzzParse: what is read is a policy with clean versions and digests; and no panic.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"minimum: 17.2.0\n", "releases: {17.1.4: " + digestA + "}", "withdrawn: [1.2.3]\nsignatures: warn", "a: &a [*a]", "{}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, _, err := Parse(data)
		if err != nil {
			return
		}
		for _, v := range append([]string{p.Minimum}, p.Withdrawn...) {
			if clean, err := version.Parse(v); v != "" && (err != nil || clean != v) {
				t.Errorf("%q was taken for a version", v)
			}
		}
		for v, digests := range p.Releases {
			for _, d := range digests {
				if len(d) != 64 {
					t.Errorf("%q was taken for a digest of %s", d, v)
				}
			}
		}
	})
}
