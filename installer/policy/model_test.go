package policy

import (
	"crypto/ecdsa"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/versions"
	"teleport-update/versions/archive"
	"teleport-update/versions/fetch"
	"teleport-update/versions/signature"
)

// model says in a few lines what may be installed. It shares no code with the policy: versions
// have ranks, tarballs and keys have names.
type model struct {
	text      string            // of policy.yaml; empty: there is no file
	files     map[string]string // of keys.d
	broken    bool              // the file has a field without a value, or no rule
	minimum   int               // a rank
	withdrawn map[int]bool
	listed    map[int][]string // digests
	mode      Mode             // empty: the file does not say
	trusted   map[string]bool  // the signers whose keys are in NAME.pem
	misnamed  bool             // there is a file of another name in keys.d
}

// offer is a release as a mirror has it.
type offer struct {
	version  string
	tarball  string // its content
	label    archive.Label
	signer   string // whose key made the signature; empty: no good signature of this tarball
	sigFile  []byte // nil: there is none
	digest   string
	wellSaid bool // the label is of the release that was asked for
}

var ranks = map[string]int{"17.1.4": 1, "17.2.0": 2, "17.2.0+b": 2, "17.3.0-rc.1": 3, "17.3.0": 4, "18.0.0": 5}

// readable reports whether the rules can be relied on.
func (m *model) readable() bool {
	switch {
	case m.broken:
		return false
	case len(m.trusted) == 0 && m.misnamed && m.mode != Off:
		return false
	}
	return m.mode != Require || len(m.trusted) > 0
}

func (m *model) requires() bool { return m.mode == Require || m.mode == "" && len(m.trusted) > 0 }

// admits reports whether the version may be switched to as far as rules without signatures say,
// and whether the tarball needs no signature.
func (m *model) admits(o offer) (allowed, listed bool) {
	rank := ranks[o.version]
	if digests := m.listed[rank]; len(digests) > 0 {
		listed = slices.Contains(digests, o.digest)
		return listed, listed
	}
	return rank >= m.minimum && !m.withdrawn[rank], false
}

// mayFetch reports whether the offer may be installed.
func (m *model) mayFetch(o offer) bool {
	allowed, listed := m.admits(o)
	switch {
	case !m.readable() || !allowed:
		return false
	case listed || !m.requires():
		return true
	}
	return m.trusted[o.signer] && o.wellSaid
}

// mayKeep reports whether the offer, once it is on disk with its signature, may be switched to.
func (m *model) mayKeep(o offer) bool {
	allowed, listed := m.admits(o)
	return m.readable() && allowed && (listed || !m.requires() || m.trusted[o.signer])
}

// modelWorld makes owners with their rules, and mirrors with their releases.
type modelWorld struct {
	t      *testing.T
	r      *rand.Rand
	keys   map[string]*ecdsa.PrivateKey
	public map[string]string
	sigs   map[string][]byte // by signer and tarball
}

func (w *modelWorld) version() string {
	return slices.Sorted(maps.Keys(ranks))[w.r.IntN(len(ranks))]
}

func (w *modelWorld) tarball() (content string, label archive.Label) {
	label = archive.Label{Version: w.version(), Top: []string{"teleport", "teleport", "teleport-ent"}[w.r.IntN(3)]}
	return fmt.Sprintf("%+v", label), label
}

func (w *modelWorld) key(m *model, signer, name string) {
	m.files[name] = w.public[signer]
	if strings.HasSuffix(name, ".pem") {
		m.trusted[signer] = true
	} else {
		m.misnamed = true
	}
}

// rules are what an owner may write, each at most once.
func (w *modelWorld) rules() []func(*model) {
	line := func(m *model, format string, args ...any) { m.text += fmt.Sprintf(format+"\n", args...) }
	return []func(*model){
		func(m *model) {
			v := w.version()
			m.minimum = ranks[v]
			line(m, "minimum: %s", v)
		},
		func(m *model) {
			a, b := w.version(), w.version()
			m.withdrawn[ranks[a]], m.withdrawn[ranks[b]] = true, true
			line(m, "withdrawn: [%s, %s]", a, b)
		},
		func(m *model) {
			v := w.version()
			content, _ := w.tarball()
			m.listed[ranks[v]] = []string{digestOf(content), digestA}
			line(m, "releases: {%s: [%s, %s]}", v, digestOf(content), digestA)
		},
		func(m *model) {
			m.mode = []Mode{Require, Warn, Off}[w.r.IntN(3)]
			line(m, "signatures: %s", m.mode)
		},
		func(m *model) { w.key(m, "vendor", "vendor.pem") },
		func(m *model) { w.key(m, "backup", "backup.pem") },
		func(m *model) {
			w.key(m, "stranger", "vendor"+[]string{".bak", ".disabled", ".pem.ucf-old", ".pem~", ".pub"}[w.r.IntN(5)])
		},
		func(m *model) {
			if w.r.IntN(4) == 0 { // not too often: nothing is allowed then
				m.broken = true
				if w.r.IntN(4) == 0 {
					m.text = []string{"{}\n", "# nothing\n", "\n"}[w.r.IntN(3)]
					return
				}
				line(m, "%s", []string{"minimum:", "withdrawn: ~", "releases: null", "signatures:", "signed_from: 17.2.0"}[w.r.IntN(5)])
			}
		},
	}
}

// owner is a host's owner who writes two rules, or a few more.
func (w *modelWorld) owner() *model {
	m := &model{files: map[string]string{}, withdrawn: map[int]bool{}, listed: map[int][]string{}, trusted: map[string]bool{}}
	rules := w.rules()
	for _, n := range w.r.Perm(len(rules))[:2+w.r.IntN(3)] {
		if !m.broken {
			rules[n](m)
		}
	}
	return m
}

func (w *modelWorld) offer() offer {
	o := offer{version: w.version()}
	o.tarball, o.label = w.tarball()
	if w.r.IntN(2) == 0 { // an honest mirror
		o.label = archive.Label{Version: o.version, Top: "teleport"}
		o.tarball = fmt.Sprintf("%+v", o.label)
	}
	o.digest = digestOf(o.tarball)
	o.wellSaid = o.label.Top == "teleport" && o.label.Version == o.version
	switch w.r.IntN(8) {
	case 0, 1:
	case 2:
		o.sigFile = []byte("<html>")
	case 3:
		o.sigFile = w.signature("vendor", "another tarball")
	default:
		o.signer = []string{"vendor", "backup", "stranger"}[w.r.IntN(3)]
		o.sigFile = w.signature(o.signer, o.tarball)
	}
	return o
}

func (w *modelWorld) signature(signer, tarball string) []byte {
	made := w.sigs[signer+tarball]
	if made == nil {
		made = sign(w.t, w.keys[signer], tarball)
		w.sigs[signer+tarball] = made
	}
	return made
}

// Each rule beside each other rule, with releases and signatures of all kinds: nothing is
// installed or kept that the model does not allow, and all that it allows.
func TestThePolicyAgreesWithTheModel(t *testing.T) {
	const seed = 46
	w := &modelWorld{t: t, r: rand.New(rand.NewPCG(seed, seed)), keys: map[string]*ecdsa.PrivateKey{}, public: map[string]string{}, sigs: map[string][]byte{}}
	for _, name := range []string{"vendor", "backup", "stranger"} {
		w.keys[name], w.public[name] = newKey(t)
	}
	dir, tree := folder(t, nil), folder(t, nil)
	installed, kept := 0, 0
	for n := range 2500 {
		m := w.owner()
		must(t, os.RemoveAll(filepath.Join(dir, keysName)))
		must(t, os.RemoveAll(filepath.Join(dir, fileName)))
		if m.text != "" {
			must(t, os.WriteFile(filepath.Join(dir, fileName), []byte(m.text), 0o644))
		}
		if len(m.files) > 0 {
			must(t, os.Mkdir(filepath.Join(dir, keysName), 0o755))
		}
		for name, key := range m.files {
			must(t, os.WriteFile(filepath.Join(dir, keysName, name), []byte(key), 0o644))
		}
		p, err := Load(dir, Seen{})
		if (err == nil) != m.readable() {
			t.Fatalf("owner %d: %v; the model can rely on it: %t\n%s%v", n, err, m.readable(), m.text, slices.Sorted(maps.Keys(m.files)))
		}
		if err != nil {
			continue
		}
		for range 4 { // 10,000 in all
			o := w.offer()
			fetched, stays := fetches(p, o), keeps(t, tree, p, o)
			if (fetched == nil) != m.mayFetch(o) || (stays == nil) != m.mayKeep(o) {
				t.Fatalf("owner %d: fetched: %v; the model: %t; kept: %v; the model: %t\n%s%v\n%+v", n, fetched, m.mayFetch(o), stays, m.mayKeep(o),
					m.text, slices.Sorted(maps.Keys(m.files)), o)
			}
			if fetched == nil {
				installed++
			}
			if stays == nil {
				kept++
			}
		}
	}
	if t.Logf("%d installed, %d kept", installed, kept); installed < 1000 || installed > 9000 || kept < 1000 {
		t.Error("the pairs try too little")
	}
}

// fetches has a mirror offer a release.
func fetches(p Policy, o offer) error {
	v := &Verifier{Policy: p, Log: slog.New(slog.DiscardHandler)}
	tarball := fetch.Tarball{Release: oss(o.version), Name: "teleport.tar.gz", SHA256: o.digest}
	proof, err := v.Admit(tarball, func(suffix string, _ int64) ([]byte, error) {
		if suffix != signature.Suffix || o.sigFile == nil {
			return nil, fetch.ErrNotFound
		}
		return o.sigFile, nil
	})
	if err == nil {
		_, err = v.Confirm(tarball, proof, o.label)
	}
	return err
}

// keeps has the release on disk, as an update finds it.
func keeps(t *testing.T, dir string, p Policy, o offer) error {
	t.Helper()
	tree := versions.Tree{Release: oss(o.version), SHA256: o.digest, Dir: dir}
	must(t, os.RemoveAll(filepath.Join(dir, "signature")))
	if o.sigFile != nil {
		must(t, os.WriteFile(filepath.Join(dir, "signature"), o.sigFile, 0o644))
	}
	if err := p.Floors(tree.Release, tree.SHA256); err != nil {
		return err
	}
	return p.Kept(tree)
}
