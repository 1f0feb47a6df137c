// Package policy has the rules by which the owner of a host limits the versions of the agent that may run on it: a find server and a mirror
// are believed within these rules, and no further.
//
// # The file
//
// Only root may write /etc/teleport-update/policy.yaml. It is read strictly: an unknown field, a value of the wrong kind, a field without a
// value, and a file without a field are errors, because a template that was filled in with nothing must not lift a rule. Each field may be
// missing.
//
//	minimum: 17.2.0            # no version below it is switched to
//	withdrawn: [17.3.1]        # nor one of these
//	releases:                  # versions with the SHA-256 of their tarballs, one or a list:
//	  17.1.4: 5f3a…            # accepted, whatever else is said here, and no other of 17.1.4
//	signatures: require        # or warn, or off
//
// If signatures are required, only releases admits an unsigned tarball.
//
// Versions are ordered as semantic versions are, and compared without their build metadata.
// Without the field signatures, signatures are required if there is a key, and else off.
//
// # Keys
//
// The files NAME.pem in /etc/teleport-update/keys.d hold public keys in PEM (see package
// versions/signature), and are root's alone, too. Files of other names are ignored and named:
// a key that somebody put out of use as NAME.pem.bak must not be trusted.
//
// # What is remembered
//
// updates.yaml records that a policy and keys were there. If one is missing later, or cannot be read, that is an error which stops changes
// of the version, and nothing else: the agent goes on, and an open transaction is closed as if there were no policy. updates.yaml also
// records the names of the rules in the file: the loss of a rule is reported, and stops nothing.
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

// Mode says how a release without a good signature is treated.
type Mode string

const (
	Require Mode = "require" // it is refused
	Warn    Mode = "warn"    // it is used, and the log and reports say that it would be refused
	Off     Mode = "off"     // signatures are not looked at
)

// Policy are the rules of a host. The zero Policy allows everything.
type Policy struct {
	Minimum    string
	Withdrawn  []string
	Releases   map[string][]string // by version, digests of tarballs
	Signatures Mode
	Keys       []signature.Key

	File    bool     // there is a policy.yaml
	Ignored []string // files in keys.d that are not NAME.pem
	off     bool     // policy.yaml says that signatures are off
}

// Seen is the record of a policy in updates.yaml.
type Seen struct {
	Policy bool     // there was a policy.yaml
	Keys   bool     // there were keys, and signatures were looked at
	Rules  []string // of policy.yaml, by the names of their fields
}

// Seen returns the record of a policy.
func (p Policy) Seen() Seen {
	return Seen{Policy: p.File, Keys: len(p.Keys) > 0 && p.Signatures != Off, Rules: p.rules()}
}

// rules names the fields of policy.yaml without which more versions would be allowed. The field signatures is not among them: without it,
// the keys decide.
func (p Policy) rules() (names []string) {
	if p.Minimum != "" {
		names = append(names, string(BelowMinimum))
	}
	if len(p.Withdrawn) > 0 {
		names = append(names, string(IsWithdrawn))
	}
	if len(p.Releases) > 0 {
		names = append(names, string(OtherDigest))
	}
	return names
}

// Gone names the rules that were seen and that the policy no longer has.
func (p Policy) Gone(seen Seen) (names []string) {
	has := p.rules()
	for _, rule := range seen.Rules {
		if !slices.Contains(has, rule) {
			names = append(names, rule)
		}
	}
	return names
}

// BrokenError is a policy that cannot be relied on: it is missing although it was there, or cannot be read. A host without a policy is not
// broken.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string {
	return fmt.Sprintf("the policy of this host cannot be relied on: %v", e.Err)
}
func (e *BrokenError) Unwrap() error { return e.Err }

// Load reads the policy in a folder, /etc/teleport-update on a host. A *BrokenError says why it cannot be read, or what is missing that was
// seen before.
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

// Remains returns the readable part of a policy that cannot be relied on, if root goes on in spite of that: all of it if it is only
// incomplete, else its keys. If there are keys, signatures are required.
func Remains(dir string) Policy {
	p, err := load(dir)
	if err == nil {
		return p
	}
	if keys, _, err := loadKeys(filepath.Join(dir, keysName)); err == nil && len(keys) > 0 {
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
	keysDir := filepath.Join(dir, keysName)
	if p.Keys, p.Ignored, err = loadKeys(keysDir); err != nil {
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
	if len(p.Keys) > 0 {
		return p, nil
	}
	if misnamed := p.misnamed(); len(misnamed) > 0 && !p.off {
		return Policy{}, fmt.Errorf("%s holds no key: only files NAME.pem count, and there is %s; "+
			"rename a public key to NAME.pem, and move anything else away", keysDir, strings.Join(misnamed, ", "))
	}
	if p.Signatures == Require {
		return Policy{}, fmt.Errorf("%s requires signatures, and there is no key in %s; put the vendor's key there, as "+
			"`teleport-update enable --release-key FILE` does, or have the file say `signatures: off`", fileName, keysDir)
	}
	return p, nil
}

// misnamed returns the ignored files that somebody may take for keys: programs make hidden files.
func (p Policy) misnamed() (names []string) {
	for _, name := range p.Ignored {
		if !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names
}

// missing returns an error if a policy or keys were there before and are gone.
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

// loadKeys reads the keys of a folder, sorted by the names of their files, and names the files that are ignored. Without the folder there
// are no keys.
func loadKeys(dir string) (keys []signature.Key, ignored []string, err error) {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if !info.IsDir() {
		return nil, nil, fmt.Errorf("%s is not a folder", dir)
	}
	if open := trust.Path(dir); open != nil {
		return nil, nil, fmt.Errorf("%w; give %s to root alone", open, dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	if len(entries) > maxKeys {
		return nil, nil, fmt.Errorf("%s holds more than %d files", dir, maxKeys)
	}
	for _, e := range entries {
		if !isKeyFile(e.Name()) {
			ignored = append(ignored, e.Name())
			continue
		}
		data, err := regular.Read(filepath.Join(dir, e.Name()), signature.MaxKeys, regular.NoLink|regular.Sealed)
		if err != nil {
			return nil, nil, fmt.Errorf("read a key: %w", err)
		}
		found, err := signature.ParseKeys(filepath.Join(dir, e.Name()), data)
		if err != nil {
			return nil, nil, fmt.Errorf("read a key: %w", err)
		}
		keys = append(keys, found...)
	}
	return keys, ignored, nil
}

// isKeyFile reports whether a name is NAME.pem: leftovers of editors and package managers, and keys that an administrator put out of use,
// have another ending or begin with a dot.
func isKeyFile(name string) bool {
	return strings.HasSuffix(name, ".pem") && !strings.HasPrefix(name, ".")
}

// digestsOf returns the tarballs of a version that the owner listed.
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

// Digest returns the same text for the same rules and keys, and "" if there are none.
func (p Policy) Digest() string {
	if !p.Any() {
		return ""
	}
	rules := sha256.New()
	fmt.Fprintf(rules, "%q %q %q %q", p.Minimum, p.Withdrawn, p.Releases, p.Signatures)
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
	return strings.Join(rules, "; ")
}
