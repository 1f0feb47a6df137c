package faults

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"teleport-update/integration/release"
)

// Versions that there are releases of. They differ in what an update changes:
// content, unit, and which programs there are.
const (
	V1 = "1.0.0"
	V2 = "1.1.0" // has one program more and one less than the others
	V3 = "1.2.0"
)

// content is what the tree of a version must hold: the digest of each file, by
// its path in the tree. It is read from the tarball, so that nothing of the
// updater's own has a say in it.
type content map[string]string

// buildReleases makes the tarballs and notes what a tree made of each must hold.
func (w *World) buildReleases() error {
	for i, v := range []string{V1, V2, V3} {
		agent := filepath.Join(w.Dir, "agent-"+v)
		// The rest of the file, its stamp, is not read by the shell.
		script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = version ] && echo 'Teleport v%s git:v%s-0-gabc1234'\nexit 0\n", v, v)
		if err := os.WriteFile(agent, []byte(script), 0o755); err != nil {
			return err
		}
		spec := release.Spec{
			Version: v, Agent: agent,
			Unit: release.Unit{LinkDir: w.Links, RestartDelay: time.Duration(i+1) * time.Second},
		}
		if v == V2 {
			spec.Omit = []string{"tbot"}
			spec.Files = []release.File{{Name: "fdpass-teleport", Data: []byte("#!/bin/sh\nexit 0\n")}}
		}
		tarball, digest, err := release.Build(w.releases(), spec)
		if err != nil {
			return err
		}
		if w.catalog[v], err = contentOf(tarball); err != nil {
			return err
		}
		w.catalog[v]["edition"] = digestOf([]byte("oss\n"))
		w.catalog[v]["sha256"] = digestOf([]byte(digest + "\n"))
	}
	return nil
}

// contentOf reads what of a tarball goes into a tree, and where to.
func contentOf(tarball string) (content, error) {
	f, err := os.Open(tarball)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	files := content{}
	for archive := tar.NewReader(unpacked); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		_, name, _ := strings.Cut(h.Name, "/")
		switch {
		case name == "examples/systemd/teleport.service":
			name = "etc/systemd/teleport.service"
		case name == "examples/systemd/fips/teleport.service":
			name = "etc/systemd/teleport-fips.service"
		case h.Typeflag == tar.TypeReg && path.Dir(name) == "." && h.Mode&0o100 != 0 && name != "install":
			name = "bin/" + name
		default:
			continue
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, archive); err != nil {
			return nil, err
		}
		files[name] = hex.EncodeToString(sum.Sum(nil))
	}
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// whole says what a version's folder lacks of being that version, whole; nil if
// nothing.
func (w *World) whole(v string) []string {
	want, known := w.catalog[v]
	if !known {
		return []string{"there is no version " + v}
	}
	entries, err := readTree(filepath.Join(w.Versions(), v))
	programs, err2 := readTree(filepath.Join(w.Programs, v))
	if err := errors.Join(err, err2); err != nil {
		return []string{fmt.Sprintf("version %s cannot be read: %v", v, err)}
	}
	var problems []string
	missing := maps.Clone(want)
	for _, e := range append(entries, programs...) {
		switch {
		case !e.mode.IsRegular() || e.path == "manifest" || strings.HasPrefix(e.path, "backup/"):
			continue
		case want[e.path] == "":
			problems = append(problems, fmt.Sprintf("version %s has %s too much", v, e.path))
		case want[e.path] != e.digest:
			problems = append(problems, fmt.Sprintf("version %s: the content of %s is wrong", v, e.path))
		}
		delete(missing, e.path)
	}
	for name := range missing {
		problems = append(problems, fmt.Sprintf("version %s lacks %s", v, name))
	}
	return problems
}

// unitOf is the digest of a version's unit.
func (c content) unit() string { return c["etc/systemd/teleport.service"] }

// links are what the links of a version lead to, by name.
func (w *World) linksOf(v string) map[string]string {
	links := map[string]string{}
	for name := range w.catalog[v] {
		if program, ok := strings.CutPrefix(name, "bin/"); ok {
			links[program] = filepath.Join(w.Programs, v, name)
		}
	}
	return links
}
