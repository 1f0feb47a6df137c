package policy

import (
	"errors"
	"fmt"
	"log/slog"

	"teleport-update/internal/version"
	"teleport-update/versions"
	"teleport-update/versions/archive"
	"teleport-update/versions/fetch"
	"teleport-update/versions/signature"
)

// Verifier asks a policy about tarballs that are to be fetched.
type Verifier struct {
	Policy Policy
	// NoFloors leaves out minimum and withdrawn, because root said so.
	NoFloors bool
	// Has is the digest of the active version's tarball, if that version is fetched again: a version that runs already is allowed. Empty: it
	// is another version.
	Has string
	Log *slog.Logger
}

// Admit is called once a mirror has announced a tarball. The error is a *Refusal, or an error of the mirror.
func (v *Verifier) Admit(t fetch.Tarball, sibling fetch.Sibling) (fetch.Proof, error) {
	if v.Has == "" || v.Has != t.SHA256 {
		return v.admit(t, sibling)
	}
	return fetch.Proof{By: "the version that is active"}, nil
}

// admit is Admit for a tarball that does not run here already.
func (v *Verifier) admit(t fetch.Tarball, sibling fetch.Sibling) (fetch.Proof, error) {
	p := v.Policy
	listed, refusal := p.listing(t.Release, t.SHA256)
	switch {
	case refusal != nil:
		return fetch.Proof{}, refusal
	case listed:
		return fetch.Proof{By: fileName + ", releases"}, nil
	}
	if !v.NoFloors {
		if err := p.Floors(t.Release, t.SHA256); err != nil {
			return fetch.Proof{}, err
		}
	}
	proof, refusal, err := v.verify(t, sibling)
	if err != nil {
		return fetch.Proof{}, err
	}
	return proof, v.tolerate(refusal)
}

// verify looks for the signature of a tarball. The mode decides about a refusal.
func (v *Verifier) verify(t fetch.Tarball, sibling fetch.Sibling) (fetch.Proof, *Refusal, error) {
	p := v.Policy
	if p.Signatures == Off {
		return fetch.Proof{}, nil, nil
	}
	file, err := sibling(signature.Suffix, signature.MaxFile)
	switch oversized, tooLong := errors.AsType[*fetch.OversizedError](err); {
	case errors.Is(err, fetch.ErrNotFound):
		return fetch.Proof{}, noSignature(t), nil
	case tooLong:
		return fetch.Proof{}, badForm(t, fmt.Sprintf("it is no signature: it has more than %d bytes", oversized.Limit)), nil
	case err != nil && p.Signatures == Warn:
		return fetch.Proof{}, refuse(BadSignature, t.Release, "its signature cannot be read: %v", err), nil
	case err != nil:
		return fetch.Proof{}, nil, fmt.Errorf("the signature cannot be read: %w", err)
	}
	key, mismatch := signature.Verify(p.Keys, t.SHA256, file)
	if _, form := errors.AsType[*signature.FormError](mismatch); form {
		return fetch.Proof{}, badForm(t, mismatch.Error()), nil
	}
	if mismatch != nil {
		return fetch.Proof{}, foreign(t, mismatch), nil
	}
	return fetch.Proof{By: key.Name, Signature: file}, nil, nil
}

// Confirm is called when the tarball is here: a signature does not cover the version and the edition, so the tarball's own label has to
// fit.
func (v *Verifier) Confirm(t fetch.Tarball, p fetch.Proof, says archive.Label) (fetch.Proof, error) {
	if p.Signature == nil {
		return p, nil
	}
	refusal := mislabelled(t.Release, says)
	if refusal == nil {
		return p, nil
	}
	return fetch.Proof{}, v.tolerate(refusal)
}

// tolerate returns a refusal if signatures are required. Else the tarball is used, and the log says what it lacks.
func (v *Verifier) tolerate(refusal *Refusal) error {
	switch {
	case refusal == nil:
		return nil
	case v.Policy.Signatures == Require:
		return refusal
	}
	v.Log.Warn("the version is used although it would be refused if signatures were required",
		"version", refusal.Release.Version, "error", refusal.Text)
	return nil
}

// mislabelled says how a tarball's own label differs from the release that was asked for, nil if it does not.
func mislabelled(r version.Release, says archive.Label) *Refusal {
	const why = "; the mirror may have a file under a wrong name, or somebody offers an older or another release, " +
		"well signed, under this name; compare the file with the vendor's"
	top := "teleport"
	if r.Edition.Enterprise() {
		top = "teleport-ent"
	}
	switch own, err := version.Parse(says.Version); {
	case says.Version == "":
		return refuse(NotTheRelease, r, "the tarball is well signed, and holds no VERSION that says of which version it is"+why)
	case err != nil || own != r.Version:
		return refuse(NotTheRelease, r, "the tarball is well signed, and its file VERSION says %.80q%s", says.Version, why)
	case says.Top != top:
		return refuse(NotTheRelease, r, "the tarball is well signed, and its top folder is %s, not %s as that of the edition%s",
			says.Top, top, why)
	}
	return nil
}

// Kept returns nil if a tree on disk may be run as far as its digest and its signature go; a *Refusal means that its release has to be
// fetched again. Floors checks minimum and withdrawn.
func (p Policy) Kept(t versions.Tree) error {
	if t.Origin != "" {
		return nil
	}
	listed, refusal := p.listing(t.Release, t.SHA256)
	if refusal != nil {
		return refusal
	}
	if listed || p.Signatures != Require {
		return nil
	}
	file, err := t.Signature()
	if err != nil {
		return err
	}
	if file == nil {
		return refuse(BadSignature, t.Release, "it was fetched before signatures were required, and has none on disk; "+
			"an update to this version fetches it again, with its signature, a rollback fetches nothing")
	}
	if _, mismatch := signature.Verify(p.Keys, t.SHA256, file); mismatch != nil {
		return refuse(BadSignature, t.Release, "the signature that came with it is not by a key that this host trusts now: %v; "+
			"the key may have been replaced, or withdrawn because it was stolen; "+
			"an update to this version fetches it again, with its signature, a rollback fetches nothing", mismatch)
	}
	return nil
}

func noSignature(t fetch.Tarball) *Refusal {
	return refuse(BadSignature, t.Release, "there is no signature %s%s; the mirror may not carry signatures, or the release is from before "+
		"there were any, or somebody offers a tarball that the vendor did not sign; fill the mirror with `teleport-find mirror`, "+
		"or list the release in policy.yaml by its digest (releases:)", t.Name, signature.Suffix)
}

func badForm(t fetch.Tarball, what string) *Refusal {
	return refuse(BadSignature, t.Release, "what lies at %s%s cannot be used: %s; "+
		"the mirror may answer with a page of its own or a damaged file, "+
		"or somebody put something else there; look at the file, and fill the mirror again", t.Name, signature.Suffix, what)
}

func foreign(t fetch.Tarball, err error) *Refusal {
	return refuse(BadSignature, t.Release, "%v; the signature may be of another file or by a key that is newer than those of this host, "+
		"or somebody replaced the tarball and its checksum; compare the tarball with the vendor's, "+
		"and put the vendor's present key into keys.d", err)
}

// CheckEdition compares a program's own edition with the edition of the release that was asked for.
func CheckEdition(r version.Release, says version.Edition) error {
	if says != r.Edition {
		return refuse(NotTheRelease, r, "its program says that it is of edition %s, and the cluster wants %s; "+
			"the URL template may lack the part of the edition ({{if .Enterprise}}-ent{{end}}, {{if .FIPS}}-fips{{end}}), the mirror "+
			"may have a file "+
			"under a wrong name, or somebody offers another edition under this name; compare template and file with the vendor's", says, r.Edition)
	}
	return nil
}
