package files

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"testing"

	"teleport-update/internal/version"
)

func TestCompleteChoosesFromTheFolder(t *testing.T) {
	const oss, ent, fips = version.OSS, version.Enterprise, version.FIPS
	name := func(v, prefix, suffix string) string {
		return "teleport" + prefix + "-v" + v + "-linux-amd64" + suffix + "-bin.tar.gz"
	}
	for _, tc := range []struct {
		name    string
		files   []string
		version string
		edition version.Edition
		want    string
	}{
		{"nothing there", nil, "", "", " "},
		{"the newest by version, not by name", []string{name("15.9.0", "", ""), name("15.10.0", "", ""), name("15.10.0-rc.1", "", "")}, "", "", "15.10.0 oss"},
		{"the edition of the newest", []string{name("15.1.0", "", ""), name("15.1.1", "-ent", "")}, "", "", "15.1.1 enterprise"},
		{"a FIPS build", []string{name("15.1.1", "-ent", "-fips")}, "", "", "15.1.1 enterprise-fips"},
		{"the newest of an edition", []string{name("15.1.0", "", ""), name("15.1.1", "-ent", "")}, "", oss, "15.1.0 oss"},
		{"several systems", []string{"teleport-v15.1.1-linux-amd64-bin.tar.gz", "teleport-v15.1.1-linux-arm64-bin.tar.gz"}, "", "", "15.1.1 oss"},
		{"one architecture of a new version", []string{"teleport-v15.1.0-linux-amd64-bin.tar.gz", "teleport-v15.1.0-linux-arm64-bin.tar.gz", "teleport-v15.1.1-linux-amd64-bin.tar.gz"}, "", "", "15.1.0 oss"},
		{"an edition of one architecture beside one of two", []string{"teleport-v15.1.0-linux-amd64-bin.tar.gz", "teleport-v15.1.0-linux-arm64-bin.tar.gz", name("15.1.1", "-ent", "")}, "", "", "15.1.1 enterprise"},
		{"no version has all", []string{"teleport-v15.1.0-linux-arm64-bin.tar.gz", "teleport-v15.1.1-linux-amd64-bin.tar.gz"}, "", "", "15.1.1 oss"},
		{"two editions", []string{name("15.1.1", "", ""), name("15.1.1", "-ent", "")}, "", "", "error"},
		{"two editions, one chosen", []string{name("15.1.1", "", ""), name("15.1.1", "-ent", "")}, "", ent, "15.1.1 enterprise"},
		{"the edition of a version", []string{name("15.1.0", "-ent", "-fips"), name("15.1.1", "", "")}, "15.1.0", "", "15.1.0 enterprise-fips"},
		{"a version that is not there", []string{name("15.1.1", "", "")}, "16.0.0", "", "16.0.0 "},
		{"all is said", nil, "16.0.0", fips, "16.0.0 enterprise-fips"},
		{"dashes in a version", []string{name("16.0.0-dev-2.x-y", "", "")}, "", "", "16.0.0-dev-2.x-y oss"},
		{"other files", []string{"teleport-v15.1-linux-amd64-bin.tar.gz", "teleport-v15.1.1-bin.tar.gz", "teleport-15.1.1-linux-amd64-bin.tar.gz",
			name("15.1.1", "", "-fips"), "teleport-v15.1.1-linux-amd64-bin.tar.gz.sha256", "other-v15.1.1-linux-amd64-bin.tar.gz", "teleport-v15.1.1-linux-amd64-bin.zip"}, "", "", " "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range tc.files {
				write(t, dir, file, nil)
				write(t, dir, file+".sha256", nil)
			}
			releases, err := OpenReleases(dir, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer releases.Close()
			v, e, err := releases.Complete(tc.version, tc.edition)
			got := v + " " + string(e)
			if err != nil {
				got = "error"
			}
			if got != tc.want {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
			if tc.files != nil && v != "" && e != "" && !releases.Has(v, e) {
				t.Errorf("%s is not there", got)
			}
		})
	}
	if _, err := OpenReleases("/nonexistent", slog.New(slog.DiscardHandler)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// A copy that is in progress is no release, whatever its name says.
func TestAReleaseCountsOnceItsChecksumIsThere(t *testing.T) {
	dir := t.TempDir()
	releases, err := OpenReleases(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer releases.Close()
	const old, fresh = "teleport-v15.1.0-linux-amd64-bin.tar.gz", "teleport-ent-v15.2.0-linux-amd64-bin.tar.gz"
	check := func(want string, has bool, unchecked ...string) {
		t.Helper()
		v, e, err := releases.Complete("", "")
		if got := v + " " + string(e); got != want || err != nil {
			t.Errorf("the newest is %s, %v; want %s", got, err, want)
		}
		if got := releases.Has("15.2.0", version.Enterprise); got != has {
			t.Errorf("15.2.0 is there: %v; want %v", got, has)
		}
		if got, err := releases.Unchecked(); err != nil || !slices.Equal(got, unchecked) {
			t.Errorf("unchecked are %q, %v; want %q", got, err, unchecked)
		}
	}
	write(t, dir, old, nil)
	check(" ", false, old)
	write(t, dir, old+".sha256", nil)
	check("15.1.0 oss", false)
	write(t, dir, fresh, nil)
	check("15.1.0 oss", false, fresh)
	// Who names the version is told its edition all the same.
	if e, err := releases.EditionOf("15.2.0"); e != version.Enterprise || err != nil {
		t.Errorf("the edition is %s, %v", e, err)
	}
	write(t, dir, fresh+".sha256", nil)
	check("15.2.0 enterprise", true)
}
