package view

import (
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/installer/policy"
)

// PolicyReport describes the policy of the host's owner, and which versions on disk it allows.
type PolicyReport struct {
	Folder     string              `json:"folder"`
	File       bool                `json:"file"` // there is a policy.yaml
	Minimum    *string             `json:"minimum"`
	Withdrawn  []string            `json:"withdrawn"`
	Releases   map[string][]string `json:"releases"`
	Signatures policy.Mode         `json:"signatures"`
	Keys       []PolicyKey         `json:"keys"`
	Ignored    []string            `json:"ignored"`    // files in keys.d that are not NAME.pem
	Remembered bool                `json:"remembered"` // its later loss is an error
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

// Text writes the report for a person.
func (r PolicyReport) Text(w io.Writer) {
	line := lines(w, "%-12s %v\n")
	line("Policy", map[bool]string{true: filepath.Join(r.Folder, "policy.yaml"), false: "none in " + r.Folder}[r.File])
	line("Minimum", textOr(r.Minimum, "none"))
	line("Withdrawn", strings.Join(r.Withdrawn, ", "))
	for _, v := range slices.Sorted(maps.Keys(r.Releases)) {
		line("Listed", v+" "+strings.Join(r.Releases[v], ", "))
	}
	line("Signatures", string(r.Signatures))
	for _, k := range r.Keys {
		line("Key", k.File+" "+k.SHA256)
	}
	if len(r.Ignored) > 0 {
		line("Ignored", strings.Join(r.Ignored, ", ")+": only files NAME.pem are keys")
	}
	for _, v := range r.Versions {
		text := v.Version + " (" + v.Edition + ")"
		if v.Active {
			text += ", active"
		}
		line("Version", text+": "+textOr(v.Refused, "allowed"))
	}
}
