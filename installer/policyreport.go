package installer

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/installer/policy"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/versions"
)

// PolicyReport is what the policy of the host's owner says, and which versions on disk it
// allows.
type PolicyReport struct {
	Folder     string              `json:"folder"`
	File       bool                `json:"file"` // there is a policy.yaml
	Minimum    *string             `json:"minimum"`
	Withdrawn  []string            `json:"withdrawn"`
	Releases   map[string][]string `json:"releases"`
	Signatures policy.Mode         `json:"signatures"`
	SignedFrom *string             `json:"signed_from"`
	Keys       []PolicyKey         `json:"keys"`
	Remembered bool                `json:"remembered"` // if it is gone later, that is an error
	Versions   []PolicyVersion     `json:"versions"`
}

// PolicyKey is a key by which releases may be signed.
type PolicyKey struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"` // of the key's DER
}

// PolicyVersion is a version on disk, and whether it may be switched to.
type PolicyVersion struct {
	Version string  `json:"version"`
	Edition string  `json:"edition"`
	Active  bool    `json:"active"`
	Refused *string `json:"refused"` // by which rule, and what to do; null: it is allowed
}

// PolicyReport reads the policy and changes nothing.
func (i *Installer) PolicyReport() (PolicyReport, error) {
	c, err := i.Paths.LoadConfig()
	if err != nil {
		return PolicyReport{}, err
	}
	p, err := i.ownerPolicy(c)
	if err != nil {
		return PolicyReport{}, refusedByOwner(err)
	}
	entries, err := i.Store.List()
	if err != nil {
		return PolicyReport{}, err
	}
	r := PolicyReport{
		Folder: i.Paths.PolicyDir, File: p.File, Minimum: known(p.Minimum), Withdrawn: append([]string{}, p.Withdrawn...),
		Releases: p.Releases, Signatures: p.Signatures, SignedFrom: known(p.SignedFrom), Keys: []PolicyKey{}, Versions: []PolicyVersion{},
		Remembered: c.Status.PolicySeen != nil,
	}
	for _, k := range p.Keys {
		r.Keys = append(r.Keys, PolicyKey{File: k.Name, SHA256: k.ID()})
	}
	for _, e := range entries {
		if e.Kind == versions.Complete {
			r.Versions = append(r.Versions, policyVersion(p, c, e.Tree))
		}
	}
	return r, nil
}

func policyVersion(p policy.Policy, c state.Config, t versions.Tree) PolicyVersion {
	v := PolicyVersion{Version: t.Release.Version, Edition: string(t.Release.Edition), Active: t.Release == c.Active()}
	err := p.Floors(t.Release, t.SHA256)
	if err == nil {
		err = p.Kept(t)
	}
	if err != nil {
		v.Refused = known(err.Error())
	}
	return v
}

// Text writes the report for a person.
func (r PolicyReport) Text(w io.Writer) {
	line := lines(w, "%-12s %v\n")
	line("Policy", map[bool]string{true: filepath.Join(r.Folder, "policy.yaml"), false: "none in " + r.Folder}[r.File])
	line("Minimum", textOr(r.Minimum, "none"))
	line("Withdrawn", strings.Join(r.Withdrawn, ", "))
	for _, v := range slices.Sorted(maps.Keys(r.Releases)) {
		line("Listed", v+" "+strings.Join(r.Releases[v], ", "))
	}
	signatures := string(r.Signatures)
	if r.SignedFrom != nil {
		signatures += ", of releases from " + *r.SignedFrom + " on"
	}
	line("Signatures", signatures)
	for _, k := range r.Keys {
		line("Key", k.File+" "+k.SHA256)
	}
	for _, v := range r.Versions {
		text := v.Version + " (" + v.Edition + ")"
		if v.Active {
			text += ", active"
		}
		line("Version", text+": "+textOr(v.Refused, "allowed"))
	}
}

// ForgetPolicy has updates.yaml forget that there was a policy: root's way out where it is
// gone for good. One that is there is remembered again by the next run.
func (i *Installer) ForgetPolicy(ctx context.Context) error {
	unlock, err := i.LockUpdates(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := i.Paths.LoadConfig()
	if err != nil {
		return err
	}
	if c.Status.PolicySeen == nil {
		i.Log.Info("no policy is remembered; nothing to do")
		return nil
	}
	c.Status.PolicySeen = nil
	if err := c.Save(i.Paths.Config()); err != nil {
		return failure.Unchanged("forget the policy: %w", err)
	}
	i.Log.Info("the policy is forgotten; if there is one now, it holds, and the next run remembers it", "folder", i.Paths.PolicyDir)
	return nil
}

// makePolicy writes what enable was told of a policy.
func (i *Installer) makePolicy(opts EnableOptions) error {
	if opts.Minimum == "" && len(opts.ReleaseKeys) == 0 {
		return nil
	}
	if i.Paths.PolicyDir == "" {
		return failure.Unchanged("this host has no folder for a policy")
	}
	if opts.Minimum != "" {
		if err := policy.SetMinimum(i.Paths.PolicyDir, opts.Minimum); err != nil {
			return failure.Unchanged("--minimum: %w", err)
		}
	}
	if len(opts.ReleaseKeys) > 0 {
		if err := policy.AddKeys(i.Paths.PolicyDir, opts.ReleaseKeys); err != nil {
			return fmt.Errorf("--release-key: %w; no other key was added, and the agent is as it was", err)
		}
	}
	return nil
}
