package fetch_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"teleport-update/integration/tarball"
	"teleport-update/internal/version"
	"teleport-update/versions"
	"teleport-update/versions/archive"
	"teleport-update/versions/fetch"
)

// published is a folder with a release in it, and the template that finds it.
func published(v string, more ...tarball.Item) (dir, template string) {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	data := tarball.Gzip(tarball.Of(append(tarball.Sound(v), more...)...))
	path := filepath.Join(dir, "teleport-v"+v+".tar.gz")
	sum := fmt.Sprintf("%x  %s\n", sha256.Sum256(data), filepath.Base(path))
	if err := errors.Join(os.WriteFile(path, data, 0o644), os.WriteFile(path+".sha256", []byte(sum), 0o644)); err != nil {
		panic(err)
	}
	return dir, "file://" + dir + "/teleport-v{{.Version}}.tar.gz"
}

// A release comes from a mirror into the store: checked, unpacked, and on stable
// storage when Fetch returns. A client for https comes from package webclient.
func ExampleFetcher_Fetch() {
	dir, text := published("15.1.1")
	defer os.RemoveAll(dir)

	template, err := fetch.ParseTemplate(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	store := versions.NewStore(filepath.Join(dir, "versions"))
	fetcher := fetch.New(store, nil, slog.New(slog.DiscardHandler))
	tree, err := fetcher.Fetch(context.Background(), fetch.Request{
		Release: versions.Release{Version: "15.1.1", Edition: version.OSS},
		Sources: []*fetch.Template{template}, // the primary first, then its mirrors
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	programs, err := tree.Binaries()
	fmt.Println(tree.Release, programs, err)
	// Output: 15.1.1 (oss) [tctl teleport tsh] <nil>
}

// A store is looked at without a lock: every entry has a kind, and a complete one a
// tree, which can be verified.
func Example() {
	dir, text := published("15.1.1")
	defer os.RemoveAll(dir)
	template, err := fetch.ParseTemplate(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	store := versions.NewStore(filepath.Join(dir, "versions"))
	release := versions.Release{Version: "15.1.1", Edition: version.OSS}
	tree, err := fetch.New(store, nil, slog.New(slog.DiscardHandler)).
		Fetch(context.Background(), fetch.Request{Release: release, Sources: []*fetch.Template{template}})
	if err != nil {
		fmt.Println(err)
		return
	}
	// A power cut, a bad disk, a person:
	if err := errors.Join(os.Truncate(tree.Binary("tsh"), 0), os.Mkdir(filepath.Join(store.Dir, "15.2.0"), 0o755)); err != nil {
		fmt.Println(err)
		return
	}

	entries, err := store.List()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range entries {
		switch e.Kind {
		case versions.Complete:
			err := e.Tree.Verify(context.Background())
			if damaged, ok := errors.AsType[*versions.DamagedError](err); ok {
				fmt.Println(e.Release, "is damaged:", damaged.Files)
			}
		case versions.Incomplete:
			fmt.Println(e.Name, "is incomplete:", e.Why)
		default:
			fmt.Println(e.Name, "is", e.Kind)
		}
	}
	// Output:
	// 15.1.1 (oss) is damaged: [bin/tsh: content changed]
	// 15.2.0 is incomplete: edition is missing
	// partial is reserved
}

// A template is tried for every edition when it is parsed, so that a wrong one fails
// where somebody reads the error. What is secret in it is never shown.
func ExampleParseTemplate() {
	template, err := fetch.ParseTemplate("https://mirror.example.com/teleport{{if .Enterprise}}-ent{{end}}-v{{.Version}}-{{.OS}}-{{.Arch}}.tar.gz?key=secret")
	if err != nil {
		fmt.Println(err)
		return
	}
	u, err := template.For("linux", "arm64").URL(versions.Release{Version: "15.1.1", Edition: version.Enterprise})
	fmt.Println(u.Path, err)
	fmt.Println(template)
	_, err = fetch.ParseTemplate("https://mirror.example.com/teleport-{{.Release}}.tar.gz")
	fmt.Println(err)
	// Output:
	// /teleport-ent-v15.1.1-linux-arm64.tar.gz <nil>
	// https://mirror.example.com/teleport{{if .Enterprise}}-ent{{end}}-v{{.Version}}-{{.OS}}-{{.Arch}}.tar.gz?key=xxxxx
	// URL template "https://mirror.example.com/teleport-{{.Release}}.tar.gz": .Release is not known (known are .Version, .Edition, .OS, .Arch, .Enterprise and .FIPS)
}

// Before a tarball is published, every reason for which hosts would refuse it.
func ExampleCheckArchive() {
	dir, _ := published("15.1.1", tarball.Item{Name: "teleport/tsh", Mode: 0o4755}, tarball.Item{Name: "README"})
	defer os.RemoveAll(dir)
	violations, err := fetch.CheckArchive(filepath.Join(dir, "teleport-v15.1.1.tar.gz"), archive.DefaultLimits())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range violations {
		fmt.Println(v.Text)
	}
	// Output:
	// entry "teleport/tsh" has mode 04755: no setuid, setgid or sticky files
	// entry "teleport/tsh" comes twice
	// entry "README" is not in a folder teleport or teleport-ent
}
