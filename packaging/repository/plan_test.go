package repository

import (
	"path"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	today = time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	day   = 24 * time.Hour
)

// aPublication replaces 1.0.0, which is published, by 1.1.0; 0.9.0 is not named any
// more since a while.
func aPublication() (now tree, before *published, next *content) {
	const (
		old   = aptPool + "/teleport-update_1.0.0_amd64.deb"
		newer = aptPool + "/teleport-update_1.1.0_amd64.deb"
		gone  = aptPool + "/teleport-update_0.9.0_amd64.deb"
	)
	index := aptIndex{"main/binary-amd64/Packages", []byte("Package: x\n")}
	now = tree{
		old: today.Add(-100 * day), gone: today.Add(-8 * day),
		aptPool + "/teleport-update_0.9.1_amd64.deb":     today.Add(-6 * day),
		aptSuite + "/InRelease":                          today.Add(-100 * day),
		aptSuite + "/main/binary-amd64/by-hash/SHA256/0": today.Add(-100 * day),
		aptSuite + "/main/binary-amd64/Packages":         today.Add(-100 * day),
		"yum/x86_64/repodata/repomd.xml":                 today.Add(-100 * day),
		"yum/x86_64/repodata/0-primary.xml.gz":           today.Add(-8 * day),
		"somebody's notes":                               today.Add(-1000 * day),
	}
	before = &published{
		packages: map[string]string{old: "0"}, indexes: map[string]bool{aptSuite + "/main/binary-amd64/by-hash/SHA256/0": true},
	}
	next = &content{
		plain:    map[string][]byte{keyFile: []byte("key")},
		packages: []*pkg{{path: newer, arch: "amd64", isNew: true}}, indexes: []aptIndex{index},
		release: []byte("release"), releaseGPG: []byte("signature"), inRelease: []byte("signed"),
		yum: map[string]map[string][]byte{"x86_64": {repomdName: []byte("repomd")}, "aarch64": {repomdName: []byte("repomd")}},
	}
	return now, before, next
}

func TestThePlanIsInOrder(t *testing.T) {
	now, before, next := aPublication()
	var got []string
	for _, c := range plan(now, before, next, today, 7*day) {
		got = append(got, string(c.verb)+" "+c.path)
	}
	index := next.indexes[0]
	want := []string{
		"write teleport-update.asc",
		"write apt/pool/teleport-update_1.1.0_amd64.deb",
		"write " + index.byHash(),
		"mark apt/dists/stable/main/binary-amd64/by-hash/SHA256/0",
		"mark apt/pool/teleport-update_1.0.0_amd64.deb",
		"write apt/dists/stable/main/binary-amd64/Packages",
		"write apt/dists/stable/Release.gpg",
		"write apt/dists/stable/Release",
		"write apt/dists/stable/InRelease",
		"exchange yum/x86_64/repodata",
		"exchange yum/aarch64/repodata",
		"remove apt/pool/teleport-update_0.9.0_amd64.deb",
		"remove yum/x86_64/repodata/0-primary.xml.gz",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the plan is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Only what the repository itself has written goes, and nothing that is named.
func TestWhatIsPerishable(t *testing.T) {
	for name, want := range map[string]bool{
		"apt/pool/teleport-update_1.0.0_amd64.deb":                     true,
		"yum/x86_64/teleport-update-1.0.0-1.x86_64.rpm":                true,
		"apt/dists/stable/main/binary-amd64/by-hash/SHA256/0123":       true,
		"yum/aarch64/repodata/0123-other.xml.gz":                       true,
		"yum/aarch64/repodata/repomd.xml":                              false,
		"apt/dists/stable/InRelease":                                   false,
		"apt/dists/stable/main/binary-amd64/Packages.gz":               false,
		"teleport-update.asc":                                          false,
		"x.deb":                                                        false,
		"apt/pool/notes":                                               false,
		path.Join(yumFolder, "x86_64/drpms/teleport-update-1.0.0.rpm"): false,
	} {
		if got := perishable(name); got != want {
			t.Errorf("%s: %v; want %v", name, got, want)
		}
	}
}

func TestNewestKeepsVersionsOfEachPackage(t *testing.T) {
	var all []*pkg
	for _, v := range []string{"1.9.0", "1.10.0", "1.10.0-rc.1", "0.1.0"} {
		for _, arch := range []string{"amd64", "arm64"} {
			all = append(all, &pkg{path: aptPool + "/" + v + arch, name: "teleport-update", version: v, arch: arch})
		}
	}
	all = append(all, &pkg{path: aptPool + "/find", name: "teleport-find", version: "0.1.0", arch: "amd64"})
	var got []string
	for _, p := range newest(all, 2) {
		got = append(got, p.name+" "+p.version+" "+p.arch)
	}
	want := []string{
		"teleport-update 1.10.0 amd64", "teleport-update 1.10.0 arm64",
		"teleport-update 1.10.0-rc.1 amd64", "teleport-update 1.10.0-rc.1 arm64", "teleport-find 0.1.0 amd64",
	}
	if !slices.Equal(got, want) {
		t.Errorf("kept are %q; want %q", got, want)
	}
}
