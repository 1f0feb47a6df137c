package version

import "fmt"

// Release names a release that can be fetched and run: a version (without "v") in an edition. The
// zero Release names none.
type Release struct {
	Version string  `json:"version"`
	Edition Edition `json:"edition"`
}

func (r Release) String() string {
	if r.Edition == "" {
		return r.Version
	}
	return r.Version + " (" + string(r.Edition) + ")"
}

// Short names the release for a person, the edition only if it is not OSS.
func (r Release) Short() string {
	if r.Edition == OSS {
		return r.Version
	}
	return r.String()
}

// Check refuses a release that must not become a path or part of a URL.
func (r Release) Check() error {
	if v, err := Parse(r.Version); err != nil {
		return err
	} else if v != r.Version {
		return fmt.Errorf("version %q must be given as %q", r.Version, v)
	}
	_, err := ParseEdition(string(r.Edition))
	return err
}
