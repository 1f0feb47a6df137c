package policy

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/integration/tarball"
	"teleport-update/internal/version"
	"teleport-update/versions"
	"teleport-update/versions/fetch"
)

// mirror serves one tarball under every name, and whatever it says of it.
type mirror struct {
	tarball   []byte
	signature func(http.ResponseWriter) // nil: there is none
	requests  []string
}

func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.requests = append(m.requests, filepath.Ext(r.URL.Path))
	switch filepath.Ext(r.URL.Path) {
	case ".sha256":
		fmt.Fprintln(w, digestOf(string(m.tarball)))
	case ".sig":
		if m.signature == nil {
			http.NotFound(w, r)
			return
		}
		m.signature(w)
	default:
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(m.tarball)))
	}
}

func text(data []byte) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.Write(data) }
}

// bring fetches a release from a mirror through a verifier, into a store of its own.
func bring(t *testing.T, m *mirror, v *Verifier, r version.Release) (versions.Tree, *versions.Store, error) {
	t.Helper()
	return bringWithin(t, m, v, r, time.Hour) // a loaded machine is no mirror that stalls
}

// bringWithin is bring from a mirror that is given up if it stalls for a window.
func bringWithin(t *testing.T, m *mirror, v *Verifier, r version.Release, window time.Duration) (versions.Tree, *versions.Store, error) {
	t.Helper()
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	template, err := fetch.ParseTemplate(server.URL + "/teleport-v{{.Version}}.tar.gz")
	must(t, err)
	store := versions.NewStore(filepath.Join(t.TempDir(), "versions"))
	f := fetch.New(store, server.Client(), slog.New(slog.DiscardHandler))
	f.Patience.Tries, f.Patience.Backoff, f.Patience.MaxBackoff = 2, time.Millisecond, time.Millisecond
	f.Patience.StallWindow, f.Patience.StallBytes = window, 1<<10
	f.Verifier = v
	v.Log = slog.New(slog.DiscardHandler)
	tree, err := f.Fetch(t.Context(), fetch.Request{Release: r, Sources: []*fetch.Template{template}})
	return tree, store, err
}

func sound(v string) []byte { return tarball.Gzip(tarball.Of(tarball.Sound(v)...)) }

func enterprise(v string) []byte {
	return tarball.Gzip(tarball.Of(tarball.Under("teleport-ent", tarball.Sound(v))...))
}

func withVersion(text string) []byte {
	items := tarball.Without(tarball.Sound("17.3.0"), "teleport/VERSION")
	if text != "" {
		items = append(items, tarball.Item{Name: "teleport/VERSION", Mode: 0o644, Data: text})
	}
	return tarball.Gzip(tarball.Of(items...))
}

// keysOf is a policy of these keys, as Load reads it.
func keysOf(t *testing.T, files ...string) Policy {
	t.Helper()
	named := map[string]string{}
	for n, f := range files {
		named[fmt.Sprintf("keys.d/%d.pem", n)] = f
	}
	p, err := Load(folder(t, named), Seen{})
	must(t, err)
	return p
}

// Each attack leaves nothing that could be executed, and its error says what was found, what
// harmless and what hostile reason it may have, and what to do.
func TestAMirrorThatLiesBringsNothingOntoTheHost(t *testing.T) {
	ours, pub := newKey(t)
	theirs, _ := newKey(t)
	p := keysOf(t, pub)
	good := sound("17.3.0")
	signed := func(k *ecdsa.PrivateKey, data []byte) func(http.ResponseWriter) {
		return text(sign(t, k, string(data)))
	}
	floor := p
	floor.Minimum, floor.Withdrawn = "17.2.0", []string{"17.3.0"}
	listed := p
	listed.Releases = map[string][]string{"17.3.0": {digestA}}
	off, warn := listed, listed
	off.Signatures, warn.Signatures = Off, Warn
	for name, tc := range map[string]struct {
		m       *mirror
		p       Policy
		r       version.Release
		want    string
		benign  string
		hostile string
	}{
		"another program under a good name": {&mirror{tarball: enterprise("17.3.0"), signature: signed(ours, good)}, p, oss("17.3.0"),
			"none of the keys made this signature", "newer than those of this host", "somebody replaced the tarball"},
		"signed by another key": {&mirror{tarball: good, signature: signed(theirs, good)}, p, oss("17.3.0"),
			"none of the keys made this signature", "newer than", "somebody replaced"},
		"without a signature": {&mirror{tarball: good}, p, oss("17.3.0"),
			"there is no signature teleport-v17.3.0.tar.gz.sig", "the mirror may not carry signatures", "did not sign"},
		"an older one under this name": {&mirror{tarball: sound("17.2.9"), signature: signed(ours, sound("17.2.9"))}, p, oss("17.3.0"),
			`its file VERSION says "17.2.9"`, "under a wrong name", "an older or another release"},
		"a prerelease under this name": {&mirror{tarball: sound("17.3.0-rc.1"), signature: signed(ours, sound("17.3.0-rc.1"))}, p, oss("17.3.0"),
			`its file VERSION says "17.3.0-rc.1"`, "wrong name", "somebody"},
		"another edition under this name": {&mirror{tarball: enterprise("17.3.0"), signature: signed(ours, enterprise("17.3.0"))}, p, oss("17.3.0"),
			"its top folder is teleport-ent, not teleport", "wrong name", "somebody"},
		"the community's as the enterprise edition": {&mirror{tarball: good, signature: signed(ours, good)}, p, version.Release{Version: "17.3.0", Edition: version.Enterprise},
			"its top folder is teleport, not teleport-ent", "wrong name", "somebody"},
		"without a VERSION": {&mirror{tarball: withVersion(""), signature: signed(ours, withVersion(""))}, p, oss("17.3.0"),
			"holds no VERSION", "wrong name", "somebody"},
		"a VERSION that goes on": {&mirror{tarball: withVersion("17.3.0 17.2.0"), signature: signed(ours, withVersion("17.3.0 17.2.0"))}, p, oss("17.3.0"),
			"its file VERSION says", "wrong name", "somebody"},
		"an empty signature":     {&mirror{tarball: good, signature: text(nil)}, p, oss("17.3.0"), "it is empty", "damaged file", "somebody put something else"},
		"a page":                 {&mirror{tarball: good, signature: text([]byte("<html>"))}, p, oss("17.3.0"), "not base64", "a page of its own", "somebody"},
		"an oversized signature": {&mirror{tarball: good, signature: text(append(sign(t, ours, string(good)), make([]byte, 4<<10)...))}, p, oss("17.3.0"), "more than 512 bytes", "damaged file", "somebody"},
		"an endless signature": {&mirror{tarball: good, signature: func(w http.ResponseWriter) {
			for block := make([]byte, 32<<10); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}}, p, oss("17.3.0"), "more than 512 bytes", "damaged file", "somebody"},
		"a version that was withdrawn":               {&mirror{tarball: good, signature: signed(ours, good)}, floor, oss("17.3.0"), "withdrew the version", "may not have heard", "known to be bad"},
		"an old version, well signed":                {&mirror{tarball: sound("17.1.9"), signature: signed(ours, sound("17.1.9"))}, floor, oss("17.1.9"), "below 17.2.0", "on purpose", "known to be vulnerable"},
		"another tarball than the listed":            {&mirror{tarball: good}, off, oss("17.3.0"), "policy.yaml lists others", "lack an edition", "somebody replaced"},
		"the same, if signatures are only warned of": {&mirror{tarball: good}, warn, oss("17.3.0"), "policy.yaml lists others", "lack an edition", "somebody replaced"},
		"the same, well signed":                      {&mirror{tarball: good, signature: signed(ours, good)}, listed, oss("17.3.0"), "policy.yaml lists others", "lack an edition", "somebody replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			tree, store, err := bring(t, tc.m, &Verifier{Policy: tc.p}, tc.r)
			if err == nil {
				t.Fatalf("it is on disk as %+v", tree)
			}
			var refusal *Refusal
			if !errors.As(err, &refusal) || refusal.Rule == "" {
				t.Errorf("%T %v; want a *Refusal", err, err)
			}
			for _, part := range []string{tc.want, tc.benign, tc.hostile} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v; want %q in it", err, part)
				}
			}
			entries, err := store.List()
			must(t, err)
			for _, e := range entries {
				if e.Kind != versions.Reserved {
					t.Errorf("left behind: %+v", e)
				}
			}
		})
	}
}

// A signature that comes too slowly ends the attempt, not the host's patience.
func TestASignatureThatDoesNotComeIsGivenUp(t *testing.T) {
	t.Parallel() // it waits
	_, pub := newKey(t)
	stop := make(chan struct{})
	defer close(stop) // before the server waits for its handlers
	m := &mirror{tarball: sound("17.3.0"), signature: func(w http.ResponseWriter) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		<-stop
	}}
	_, _, err := bringWithin(t, m, &Verifier{Policy: keysOf(t, pub)}, oss("17.3.0"), 2*time.Second)
	if err == nil || !strings.Contains(err.Error(), "the signature cannot be read") || !strings.Contains(err.Error(), "too little") {
		t.Errorf("%v", err)
	}
}

func TestWhatThePolicyAllowsIsFetched(t *testing.T) {
	ours, pub := newKey(t)
	backup, pub2 := newKey(t)
	p := keysOf(t, pub, pub2)
	good := sound("17.3.0")
	vVersion := withVersion("v17.3.0\n")
	ent := enterprise("17.3.0")
	warn, off, listed, floor := p, p, p, p
	warn.Signatures, off.Signatures = Warn, Off
	listed.Minimum, listed.Releases = "18.0.0", map[string][]string{"17.3.0": {digestA, digestOf(string(good))}}
	floor.Minimum = "17.3.0"
	for name, tc := range map[string]struct {
		m        *mirror
		v        Verifier
		r        version.Release
		signed   bool
		requests string
	}{
		"signed by the primary key":    {&mirror{tarball: good, signature: text(sign(t, ours, string(good)))}, Verifier{Policy: p}, oss("17.3.0"), true, ".sha256 .sig .gz"},
		"signed by the backup key":     {&mirror{tarball: good, signature: text(sign(t, backup, string(good)))}, Verifier{Policy: p}, oss("17.3.0"), true, ".sha256 .sig .gz"},
		"a VERSION with v":             {&mirror{tarball: vVersion, signature: text(sign(t, ours, string(vVersion)))}, Verifier{Policy: p}, oss("17.3.0"), true, ".sha256 .sig .gz"},
		"the enterprise edition":       {&mirror{tarball: ent, signature: text(sign(t, ours, string(ent)))}, Verifier{Policy: p}, version.Release{Version: "17.3.0", Edition: version.Enterprise}, true, ".sha256 .sig .gz"},
		"the FIPS edition":             {&mirror{tarball: ent, signature: text(sign(t, ours, string(ent)))}, Verifier{Policy: p}, version.Release{Version: "17.3.0", Edition: version.FIPS}, true, ".sha256 .sig .gz"},
		"the floor itself":             {&mirror{tarball: good, signature: text(sign(t, ours, string(good)))}, Verifier{Policy: floor}, oss("17.3.0"), true, ".sha256 .sig .gz"},
		"unsigned, and only warned of": {&mirror{tarball: good}, Verifier{Policy: warn}, oss("17.3.0"), false, ".sha256 .sig .gz"},
		"mislabelled, and warned of":   {&mirror{tarball: ent, signature: text(sign(t, ours, string(ent)))}, Verifier{Policy: warn}, oss("17.3.0"), false, ".sha256 .sig .gz"},
		"nobody looks":                 {&mirror{tarball: good}, Verifier{Policy: off}, oss("17.3.0"), false, ".sha256 .gz"},
		"listed by its digest":         {&mirror{tarball: good}, Verifier{Policy: listed}, oss("17.3.0"), false, ".sha256 .gz"},
		"below the floor, by root":     {&mirror{tarball: good, signature: text(sign(t, ours, string(good)))}, Verifier{Policy: func() Policy { p := p; p.Minimum = "18.0.0"; return p }(), NoFloors: true}, oss("17.3.0"), true, ".sha256 .sig .gz"},
		"what the host has already":    {&mirror{tarball: good}, Verifier{Policy: p, Has: digestOf(string(good))}, oss("17.3.0"), false, ".sha256 .gz"},
	} {
		t.Run(name, func(t *testing.T) {
			tree, _, err := bring(t, tc.m, &tc.v, tc.r)
			must(t, err)
			sig, err := tree.Signature()
			if err != nil || (sig != nil) != tc.signed {
				t.Errorf("the tree keeps the signature %q, %v; want one: %v", sig, err, tc.signed)
			}
			if got := strings.Join(tc.m.requests, " "); got != tc.requests {
				t.Errorf("requests %q; want %q", got, tc.requests)
			}
			strict := p
			strict.Signatures = Require
			if kept := strict.Kept(tree) == nil; kept != tc.signed {
				t.Errorf("it may be run later where signatures are required: %v; want %v", kept, tc.signed)
			}
		})
	}
}

// What was fetched under an old key has to be allowed by the keys of today.
func TestAKeptVersionIsVerifiedByTheKeysOfToday(t *testing.T) {
	ours, pub := newKey(t)
	_, other := newKey(t)
	good := sound("17.3.0")
	tree, store, err := bring(t, &mirror{tarball: good, signature: text(sign(t, ours, string(good)))}, &Verifier{Policy: keysOf(t, pub)}, oss("17.3.0"))
	must(t, err)
	for name, tc := range map[string]struct {
		p    func() Policy
		want string
	}{
		"the same key":          {func() Policy { return keysOf(t, pub) }, ""},
		"the old and a new key": {func() Policy { return keysOf(t, other, pub) }, ""},
		"the new key alone":     {func() Policy { return keysOf(t, other) }, "not by a key that this host trusts now"},
		"the new key, and a list": {func() Policy {
			p := keysOf(t, other)
			p.Releases = map[string][]string{"17.3.0": {tree.SHA256}}
			return p
		}, ""},
		"the new key, and warn": {func() Policy { p := keysOf(t, other); p.Signatures = Warn; return p }, ""},
	} {
		err := tc.p().Kept(tree)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
	}
	// A record that says another digest than the one that was signed.
	found, _, err := store.Lookup(oss("17.3.0"))
	must(t, err)
	found.SHA256 = digestA
	if err := keysOf(t, pub).Kept(found); err == nil {
		t.Error("a signature of another tarball will do")
	}
	must(t, os.WriteFile(tree.Dir+"/signature", []byte("AAAA\n"), 0o644))
	if err := keysOf(t, pub).Kept(tree); err == nil {
		t.Error("a signature that was exchanged will do")
	}
	must(t, os.Remove(tree.Dir+"/signature"))
	if err := keysOf(t, pub).Kept(tree); err == nil || !strings.Contains(err.Error(), "has none on disk") {
		t.Errorf("without its signature: %v", err)
	}
	if err := keysOf(t, pub).Kept(versions.Tree{Release: oss("17.3.0"), Origin: "deb teleport 17.3.0"}); err != nil {
		t.Errorf("what a package brought: %v", err)
	}
}

func TestAProgramsOwnWordForItsEdition(t *testing.T) {
	editions := []version.Edition{version.OSS, version.Enterprise, version.FIPS}
	for _, asked := range editions {
		for _, says := range editions {
			err := CheckEdition(version.Release{Version: "17.3.0", Edition: asked}, says)
			if (err == nil) != (asked == says) {
				t.Errorf("asked for %s, it says %s: %v", asked, says, err)
			}
		}
	}
}

// The next mirror has its turn where one is refused.
func TestAMirrorWithoutSignaturesGivesWayToTheNext(t *testing.T) {
	ours, pub := newKey(t)
	good := sound("17.3.0")
	bare, whole := httptest.NewServer(&mirror{tarball: good}), httptest.NewServer(&mirror{tarball: good, signature: text(sign(t, ours, string(good)))})
	defer bare.Close()
	defer whole.Close()
	var sources []*fetch.Template
	for _, s := range []*httptest.Server{bare, whole} {
		template, err := fetch.ParseTemplate(s.URL + "/teleport-v{{.Version}}.tar.gz")
		must(t, err)
		sources = append(sources, template)
	}
	log := slog.New(slog.DiscardHandler)
	f := fetch.New(versions.NewStore(filepath.Join(t.TempDir(), "versions")), http.DefaultClient, log)
	f.Verifier = &Verifier{Policy: keysOf(t, pub), Log: log}
	_, err := f.Fetch(t.Context(), fetch.Request{Release: oss("17.3.0"), Sources: sources})
	must(t, err)
}
