// Package policy has the rules by which the owner of a host says which versions of the agent
// may run on it, whoever names them: a find server and a mirror are believed within these
// rules, and no further.
//
// # The file
//
// /etc/teleport-update/policy.yaml is root's alone to write, and read strictly: a field that is
// not known, a value that is not of its kind, and an empty file are errors. Each field may be
// missing.
//
//	minimum: 17.2.0            # no version below it is switched to
//	withdrawn: [17.3.1]        # nor one of these
//	releases:                  # versions with the SHA-256 of their tarballs, one or a list:
//	  17.1.4: 5f3a…            # accepted, whatever else is said here, and no other of 17.1.4
//	signatures: require        # or warn, or off
//	signed_from: 17.5.0        # releases below it need no signature
//
// Versions are ordered as semantic versions are, and compared without their build metadata.
// Without the field signatures, they are required if there is a key, and else off.
//
// # Keys
//
// The files in /etc/teleport-update/keys.d hold public keys in PEM (see package
// versions/signature), and are root's alone, too. Names that begin with a dot, and what editors
// and package managers leave (~, .dpkg-*, .rpm*), are no keys.
//
// # What is remembered
//
// That a policy and keys were there is remembered in updates.yaml. If one is missing later, or
// cannot be read, that is an error which stops changes of the version, and nothing else: the
// agent goes on, and an open transaction is closed as if there were no policy.
package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/internal/regular"
	"teleport-update/internal/trust"
	"teleport-update/internal/version"
	"teleport-update/versions/signature"
)

const (
	fileName = "policy.yaml"
	keysName = "keys.d"
	maxFile  = 256 << 10 // bytes
	maxKeys  = 64        // files
)

// Mode says what becomes of a release without a good signature.
type Mode string

const (
	Require Mode = "require" // it is refused
	Warn    Mode = "warn"    // it is used, and the log and reports say that it would be refused
	Off     Mode = "off"     // nobody looks
)

// Policy are the rules of a host. The zero Policy allows everything.
type Policy struct {
	Minimum    string
	Withdrawn  []string
	Releases   map[string][]string // by version, digests of tarballs
	Signatures Mode
	SignedFrom string
	Keys       []signature.Key

	File bool // there is a policy.yaml
	off  bool // and it says that signatures are off
}

// Seen is what updates.yaml remembers of a policy.
type Seen struct {
	Policy bool // there was a policy.yaml
	Keys   bool // there were keys, and signatures were looked at
}

// Seen is what there is to remember of a policy.
func (p Policy) Seen() Seen {
	return Seen{Policy: p.File, Keys: len(p.Keys) > 0 && p.Signatures != Off}
}

// BrokenError is a policy that cannot be relied on: it is missing although it was there, or
// cannot be read. It is not the absence of one.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string {
	return fmt.Sprintf("the policy of this host cannot be relied on: %v", e.Err)
}
func (e *BrokenError) Unwrap() error { return e.Err }

// Load reads the policy in a folder, /etc/teleport-update on a host. A *BrokenError says why
// that cannot be done, or what is missing of what was seen before.
func Load(dir string, seen Seen) (Policy, error) {
	p, err := load(dir)
	if err == nil {
		err = p.missing(dir, seen)
	}
	if err != nil {
		return Policy{}, &BrokenError{err}
	}
	return p, nil
}

// Remains is what can still be read of a policy that cannot be relied on, where root goes on in
// spite of that: all of it if only its loss is the matter, else its keys. Signatures are required
// by the keys that are there.
func Remains(dir string) Policy {
	p, err := load(dir)
	if err == nil {
		return p
	}
	if keys, err := loadKeys(filepath.Join(dir, keysName)); err == nil && len(keys) > 0 {
		return Policy{Keys: keys, Signatures: Require}
	}
	return Policy{Signatures: Off}
}

func load(dir string) (p Policy, err error) {
	if open := trust.Path(dir); open != nil {
		return Policy{}, fmt.Errorf("%w; give %s to root alone", open, dir)
	}
	var signatures *Mode
	data, err := regular.Read(filepath.Join(dir, fileName), maxFile, regular.NoLink|regular.Sealed)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return Policy{}, err
	default:
		if p, signatures, err = Parse(data); err != nil {
			return Policy{}, fmt.Errorf("%s: %w", filepath.Join(dir, fileName), err)
		}
		p.File = true
	}
	if p.Keys, err = loadKeys(filepath.Join(dir, keysName)); err != nil {
		return Policy{}, err
	}
	switch {
	case signatures != nil:
		p.Signatures = *signatures
		p.off = p.Signatures == Off
	case len(p.Keys) > 0:
		p.Signatures = Require
	default:
		p.Signatures = Off
	}
	if p.Signatures == Require && len(p.Keys) == 0 {
		return Policy{}, fmt.Errorf("%s requires signatures, and there is no key in %s; put the vendor's key there, as "+
			"`teleport-update enable --release-key FILE` does, or have the file say `signatures: off`", fileName, filepath.Join(dir, keysName))
	}
	return p, nil
}

// missing says what was there before and is not any more.
func (p Policy) missing(dir string, seen Seen) error {
	const wayOut = "put it back or, if it is to be gone for good, `teleport-update policy --forget`"
	if seen.Policy && !p.File {
		return fmt.Errorf("there was a %s, and it is gone; %s", filepath.Join(dir, fileName), wayOut)
	}
	if seen.Keys && len(p.Keys) == 0 && !p.off {
		return fmt.Errorf("there were keys in %s, and they are gone; %s", filepath.Join(dir, keysName), wayOut)
	}
	return nil
}

// loadKeys reads all keys of a folder, sorted by their names. Without the folder there are none.
func loadKeys(dir string) ([]signature.Key, error) {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder", dir)
	}
	if open := trust.Path(dir); open != nil {
		return nil, fmt.Errorf("%w; give %s to root alone", open, dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return isLeftover(e.Name()) })
	if len(entries) > maxKeys {
		return nil, fmt.Errorf("%s holds more than %d files", dir, maxKeys)
	}
	var keys []signature.Key
	for _, e := range entries {
		data, err := regular.Read(filepath.Join(dir, e.Name()), signature.MaxKeys, regular.NoLink|regular.Sealed)
		if err != nil {
			return nil, fmt.Errorf("read a key: %w", err)
		}
		found, err := signature.ParseKeys(filepath.Join(dir, e.Name()), data)
		if err != nil {
			return nil, fmt.Errorf("read a key: %w", err)
		}
		keys = append(keys, found...)
	}
	return keys, nil
}

// isLeftover reports whether a name is what an editor or a package manager leaves.
func isLeftover(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") {
		return true
	}
	_, kind, _ := strings.Cut(filepath.Ext(name), ".")
	return strings.HasPrefix(kind, "dpkg-") || strings.HasPrefix(kind, "rpm")
}

// digestsOf are the tarballs of a version that the owner listed.
func (p Policy) digestsOf(v string) (all []string) {
	for listed, digests := range p.Releases {
		if version.Compare(listed, v) == 0 { // several differ in their build metadata
			all = append(all, digests...)
		}
	}
	return all
}

// Any reports whether there is any rule.
func (p Policy) Any() bool { return p.File || len(p.Keys) > 0 }

// Digest is the same for the same rules and keys, and empty if there are none.
func (p Policy) Digest() string {
	if !p.Any() {
		return ""
	}
	rules := sha256.New()
	fmt.Fprintf(rules, "%q %q %q %q %q", p.Minimum, p.Withdrawn, p.Releases, p.Signatures, p.SignedFrom)
	for _, k := range p.Keys {
		fmt.Fprintf(rules, " %s", k.ID())
	}
	return hex.EncodeToString(rules.Sum(nil))
}

// String names the rules on one line.
func (p Policy) String() string {
	var rules []string
	if p.Minimum != "" {
		rules = append(rules, "minimum "+p.Minimum)
	}
	if len(p.Withdrawn) > 0 {
		rules = append(rules, "withdrawn "+strings.Join(p.Withdrawn, ", "))
	}
	if len(p.Releases) > 0 {
		rules = append(rules, fmt.Sprintf("%d releases listed by digest", len(p.Releases)))
	}
	rules = append(rules, fmt.Sprintf("signatures %s, %d keys", p.Signatures, len(p.Keys)))
	if p.SignedFrom != "" {
		rules = append(rules, "signed from "+p.SignedFrom)
	}
	return strings.Join(rules, "; ")
}
