package policy

import (
	"errors"
	"fmt"
	"slices"

	"teleport-update/internal/version"
)

// Rule names a part of the policy.
type Rule string

const (
	BelowMinimum  Rule = "minimum"
	IsWithdrawn   Rule = "withdrawn"
	OtherDigest   Rule = "releases"
	BadSignature  Rule = "signatures"
	NotTheRelease Rule = "release" // the tarball or its program names another release
)

// Refusal is a release that the policy does not allow.
type Refusal struct {
	Rule    Rule
	Release version.Release
	Text    string // the problem, its possible reasons, and what to do
	SHA256  string // of the tarball, if the digest decided; else empty
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("the policy of this host (%s) refuses version %s: %s", r.Rule, r.Release.Short(), r.Text)
}

// Refuses reports whether the policy made an error, and the digest by which it decided.
func Refuses(err error) (by bool, digest string) {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return true, r.SHA256
	}
	_, broken := errors.AsType[*BrokenError](err)
	return broken, ""
}

// Reason returns the text of a refusal alone, or the text of any other error.
func Reason(err error) string {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Text
	}
	return err.Error()
}

func refuse(rule Rule, r version.Release, format string, args ...any) *Refusal {
	return &Refusal{Rule: rule, Release: r, Text: fmt.Sprintf(format, args...)}
}

// Floors returns a *Refusal unless the rules that need no signature allow a release: minimum, withdrawn, releases. digest is the SHA-256 of
// its tarball, empty while it is unknown: then a version that the owner listed is allowed for now.
func (p Policy) Floors(r version.Release, digest string) error {
	listed, refusal := p.listing(r, digest)
	switch {
	case refusal != nil:
		return refusal
	case listed, digest == "" && len(p.digestsOf(r.Version)) > 0:
		return nil
	}
	switch {
	case p.withdrawn(r.Version):
		return refuse(IsWithdrawn, r, "the owner of this host withdrew the version; "+
			"the cluster may not have heard of that yet, or somebody who controls the find server wants a version that is known to be bad; "+
			"have the cluster name another version, or take this one out of withdrawn: in policy.yaml")
	case p.Minimum != "" && version.Compare(r.Version, p.Minimum) < 0:
		return refuse(BelowMinimum, r, "it is below %s, the oldest that this host may run; "+
			"the cluster may want an older version on purpose, or somebody who controls the find server wants one that is known to be vulnerable; "+
			"have the cluster name a newer version, or lower minimum: in policy.yaml", p.Minimum)
	}
	return nil
}

func (p Policy) withdrawn(v string) bool {
	return slices.ContainsFunc(p.Withdrawn, func(w string) bool { return version.Compare(w, v) == 0 })
}

// listing reports whether the owner listed this very tarball for the version, and refuses a tarball that is not on its version's list,
// whatever the other rules say. digest is empty while it is unknown, or if the version came from no tarball.
func (p Policy) listing(r version.Release, digest string) (listed bool, _ *Refusal) {
	digests := p.digestsOf(r.Version)
	if len(digests) > 0 && digest != "" && !slices.Contains(digests, digest) {
		refusal := refuse(OtherDigest, r, "its tarball has sha256 %s, and policy.yaml lists others for this version; "+
			"the list may lack an edition or an architecture, or somebody replaced the tarball on the mirror; "+
			"compare the checksum with the vendor's, and add it to releases: if it is right", digest)
		refusal.SHA256 = digest
		return false, refusal
	}
	return len(digests) > 0 && digest != "", nil
}
