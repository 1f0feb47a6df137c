package version

import "fmt"

// Edition is a build of a version; the words are from RFD 0169 (§REST Endpoints).
type Edition string

const (
	OSS        Edition = "oss"             // the community's
	Enterprise Edition = "enterprise"      // the commercial one
	FIPS       Edition = "enterprise-fips" // the commercial one with FIPS 140 cryptography
)

// ParseEdition takes exactly the three words above.
func ParseEdition(s string) (Edition, error) {
	switch e := Edition(s); e {
	case OSS, Enterprise, FIPS:
		return e, nil
	}
	return "", fmt.Errorf("edition %.40q is not one of %s, %s, %s", s, OSS, Enterprise, FIPS)
}

// Enterprise reports whether the edition is one of the enterprise builds.
func (e Edition) Enterprise() bool { return e == Enterprise || e == FIPS }

// FIPS reports whether the edition is the FIPS build.
func (e Edition) FIPS() bool { return e == FIPS }
