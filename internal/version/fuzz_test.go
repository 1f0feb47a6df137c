package version

import (
	"path"
	"strings"
	"testing"
)

// FuzzParse: what is taken for a version is one element of a path, and of a URL,
// and itself when read again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"15.1.1", "v15.1.1", "16.0.0-rc.1+build5", "1.0.0/../x", "1.0", "vv1.0.0", "1.0.0+../x", "01.0.0", "1.0.0-\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := Parse(s)
		if err != nil {
			return
		}
		if path.Base(v) != v || strings.HasPrefix(v, ".") || strings.ContainsAny(v, "/\\%?#@: \x00") || len(v) > MaxLength {
			t.Errorf("%q was taken for %q", s, v)
		}
		if again, err := Parse(v); again != v || err != nil {
			t.Errorf("%q became %q, %v", v, again, err)
		}
		if Compare(v, v) != 0 {
			t.Errorf("%q is not equal to itself", v)
		}
	})
}

// FuzzParseEdition: three words, nothing else.
func FuzzParseEdition(f *testing.F) {
	for _, seed := range []string{"oss", "enterprise", "enterprise-fips", "OSS", "oss\n", "", "../oss"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := ParseEdition(s)
		if err == nil && (string(e) != s || e != OSS && e != Enterprise && e != FIPS) {
			t.Errorf("%q was taken for %q", s, e)
		}
	})
}
