package state

import (
	"os"
	"path/filepath"
	"strings"

	"teleport-update/internal/regular"
	"teleport-update/internal/version"
)

// LoadConfig reads updates.yaml. RFD 0169 has no editions in it. If they are missing, the folder
// that the agent's link leads into shows the active version's edition: a version that is not linked
// is not active (RFD 0169 §Filesystem), and the configuration counts as one without an active
// version. Nothing is linked of the previous version: the folder that is there shows its edition.
func (p Paths) LoadConfig() (Config, error) {
	c, _, err := p.LoadConfigOr("")
	return c, err
}

// LoadConfigOr is LoadConfig for a file whose text was recorded; see LoadConfigOr of this package.
func (p Paths) LoadConfigOr(recorded string) (c Config, lost bool, err error) {
	if c, lost, err = LoadConfigOr(p.Config(), recorded); err != nil {
		return c, false, err
	}
	spec, status := &c.Spec, &c.Status
	if spec.ActiveVersion != "" && status.ActiveEdition == "" {
		if status.ActiveEdition = p.editionAt(p.linked(spec.ActiveVersion)); status.ActiveEdition == "" {
			spec.ActiveVersion = ""
		}
	}
	if v := status.PreviousVersion; v != "" && status.PreviousEdition == "" {
		status.PreviousVersion = ""
		for _, folder := range []string{v, v + "_" + string(version.OSS), v + "_" + string(version.Enterprise), v + "_" + string(version.FIPS)} {
			if r := (version.Release{Version: v, Edition: p.editionAt(folder)}); r.Edition != "" && r != c.Active() {
				status.PreviousVersion, status.PreviousEdition = r.Version, r.Edition
				break
			}
		}
	}
	return c, lost, nil
}

// linked returns the folder of a version that the agent's link leads into, empty if it leads into
// none.
func (p Paths) linked(v string) string {
	target, err := os.Readlink(filepath.Join(p.LinkDir, "teleport"))
	if err != nil {
		return ""
	}
	folder := filepath.Base(filepath.Dir(filepath.Dir(target)))
	if folder != v && !strings.HasPrefix(folder, v+"_") {
		return ""
	}
	return folder
}

// editionAt returns the edition that the folder of a version names; empty without one.
func (p Paths) editionAt(folder string) version.Edition {
	if folder == "" {
		return ""
	}
	word, err := regular.Read(filepath.Join(p.Versions(), folder, "edition"), 64, regular.NoLink)
	if err != nil {
		return ""
	}
	e, _ := version.ParseEdition(strings.TrimSuffix(string(word), "\n"))
	return e
}
