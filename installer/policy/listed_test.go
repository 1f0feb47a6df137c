package policy

import (
	"errors"
	"strings"
	"testing"

	"teleport-update/versions"
)

// Root's word for an old version, and the repair of the active one, are about versions: neither
// takes another tarball than the listed, or an unsigned one.
func TestNoTarballIsExemptBecauseItsVersionIs(t *testing.T) {
	_, pub := newKey(t)
	keys := keysOf(t, pub)
	list := Policy{Signatures: Off, Releases: map[string][]string{"17.3.0": {digestA}}}
	for name, tc := range map[string]struct {
		v    Verifier
		want string
	}{
		"listed, by root's word":            {Verifier{Policy: list, NoFloors: true}, "lists others"},
		"listed, a repair":                  {Verifier{Policy: list, NoFloors: true, Has: digestA}, "lists others"},
		"signatures, by root's word":        {Verifier{Policy: keys, NoFloors: true}, "there is no signature"},
		"signatures, a repair":              {Verifier{Policy: keys, NoFloors: true, Has: digestA}, "there is no signature"},
		"signatures, a repair from nowhere": {Verifier{Policy: keys, NoFloors: true, Has: ""}, "there is no signature"},
	} {
		if tree, _, err := bring(t, &mirror{tarball: sound("17.3.0")}, &tc.v, oss("17.3.0")); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %+v, %v; want %q", name, tree, err, tc.want)
		}
	}
}

// The owner's list holds for what is on disk, too, whatever is said of signatures: a mirror may
// have answered with another tarball before the version was listed.
func TestAKeptVersionIsHeldToItsListedDigest(t *testing.T) {
	ours, pub := newKey(t)
	good := sound("17.3.0")
	tree, _, err := bring(t, &mirror{tarball: good, signature: text(sign(t, ours, string(good)))}, &Verifier{Policy: keysOf(t, pub)}, oss("17.3.0"))
	must(t, err)
	for _, mode := range []Mode{Require, Warn, Off} {
		p := keysOf(t, pub)
		p.Signatures = mode
		p.Releases = map[string][]string{"17.3.0": {digestA}}
		var refusal *Refusal
		if err := p.Kept(tree); !errors.As(err, &refusal) || refusal.Rule != OtherDigest {
			t.Errorf("%s: %v; want a refusal by releases", mode, err)
		}
		p.Releases["17.3.0"] = append(p.Releases["17.3.0"], tree.SHA256)
		if err := p.Kept(tree); err != nil {
			t.Errorf("%s, on the list: %v", mode, err)
		}
	}
	p := Policy{Signatures: Off, Releases: map[string][]string{"17.3.0": {digestA}}}
	if err := p.Kept(versions.Tree{Release: oss("17.3.0"), Origin: "deb teleport 17.3.0"}); err != nil {
		t.Errorf("what a package brought has no tarball: %v", err)
	}
}
