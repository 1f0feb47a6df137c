package repository

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// View is what a repository offers.
type View struct {
	// Apt is the debs of all architectures, Yum the rpms of each, by their paths.
	Apt []string
	Yum map[string][]string
}

// Look reads a repository as apt and dnf do, but as strictly as neither: every
// signature with gpgv, every file that is named with its size and digest. It shares
// no code with what made the repository. keyring is gpgv's.
func Look(dir, keyring string) (View, error) {
	v := View{Yum: make(map[string][]string)}
	l := looker{dir, keyring}
	var err error
	if v.Apt, err = l.apt(); err != nil {
		return v, fmt.Errorf("apt: %w", err)
	}
	for _, arch := range []string{"x86_64", "aarch64"} {
		if v.Yum[arch], err = l.yum(arch); err != nil {
			return v, fmt.Errorf("yum for %s: %w", arch, err)
		}
	}
	return v, nil
}

type looker struct{ dir, keyring string }

// apt takes indexes by their digests alone, as apt does where Release says so.
func (l looker) apt() (packages []string, err error) {
	const suite = "apt/dists/stable"
	release, err := l.gpgv("--output", "-", suite+"/InRelease")
	if err != nil {
		return nil, err
	}
	if !strings.Contains("\n"+release, "\nAcquire-By-Hash: yes\n") {
		return nil, errors.New("indexes are not there by their digests")
	}
	_, list, _ := strings.Cut(release, "\nSHA256:\n")
	indexes := 0
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if len(f) != 3 {
			return nil, fmt.Errorf("line %q", line)
		}
		indexes++
		index, err := l.read(path.Join(suite, path.Dir(f[2]), "by-hash/SHA256", f[0]), f[1], f[0])
		if err != nil {
			return nil, err
		}
		if path.Ext(f[2]) != "" {
			continue
		}
		for paragraph := range strings.SplitSeq(strings.TrimSpace(string(index)), "\n\n") {
			fields := make(map[string]string)
			for line := range strings.Lines(paragraph) {
				name, value, _ := strings.Cut(line, ":")
				fields[name] = strings.TrimSpace(value)
			}
			if len(fields) <= 1 {
				continue
			}
			name := "apt/" + fields["Filename"]
			if _, err := l.read(name, fields["Size"], fields["SHA256"]); err != nil {
				return nil, err
			}
			packages = append(packages, name)
		}
	}
	if indexes != 4 {
		return nil, fmt.Errorf("%d indexes are named; want two for each architecture", indexes)
	}
	return slices.Sorted(slices.Values(packages)), nil
}

func (l looker) yum(arch string) (packages []string, err error) {
	folder := path.Join("yum", arch)
	if _, err := l.gpgv(folder+"/repodata/repomd.xml.asc", folder+"/repodata/repomd.xml"); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(l.dir, folder, "repodata/repomd.xml"))
	if err != nil {
		return nil, err
	}
	var repomd struct {
		Data []struct {
			Type     string `xml:"type,attr"`
			Checksum string `xml:"checksum"`
			Open     string `xml:"open-checksum"`
			Size     string `xml:"size"`
			Location struct {
				Href string `xml:"href,attr"`
			} `xml:"location"`
		} `xml:"data"`
	}
	if err := xml.Unmarshal(text, &repomd); err != nil {
		return nil, err
	}
	if len(repomd.Data) != 3 {
		return nil, fmt.Errorf("repomd.xml names %d indexes", len(repomd.Data))
	}
	for _, d := range repomd.Data {
		zipped, err := l.read(path.Join(folder, d.Location.Href), d.Size, d.Checksum)
		if err != nil {
			return nil, err
		}
		unzipped, err := gzip.NewReader(bytes.NewReader(zipped))
		if err != nil {
			return nil, err
		}
		index, err := io.ReadAll(unzipped)
		if err != nil {
			return nil, err
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(index)); got != d.Open {
			return nil, fmt.Errorf("%s unpacked has digest %s; want %s", d.Location.Href, got, d.Open)
		}
		if d.Type != "primary" {
			continue
		}
		var primary struct {
			Packages []struct {
				Checksum string `xml:"checksum"`
				Size     struct {
					Package string `xml:"package,attr"`
				} `xml:"size"`
				Location struct {
					Href string `xml:"href,attr"`
				} `xml:"location"`
			} `xml:"package"`
		}
		if err := xml.Unmarshal(index, &primary); err != nil {
			return nil, err
		}
		for _, p := range primary.Packages {
			name := path.Join(folder, p.Location.Href)
			if _, err := l.read(name, p.Size.Package, p.Checksum); err != nil {
				return nil, err
			}
			packages = append(packages, name)
		}
	}
	return slices.Sorted(slices.Values(packages)), nil
}

// read returns a file that has this size and digest.
func (l looker) read(name, size, digest string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil {
		return nil, err
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(data)); strconv.Itoa(len(data)) != size || got != digest {
		return nil, fmt.Errorf("%s has %d bytes and digest %s; want %s and %s", name, len(data), got, size, digest)
	}
	return data, nil
}

func (l looker) gpgv(args ...string) (string, error) {
	cmd := exec.Command("gpgv", append([]string{"--quiet", "--keyring", l.keyring}, args...)...)
	cmd.Dir = l.dir
	var out, says bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &says
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("gpgv %s: %w\n%s", strings.Join(args, " "), err, says.Bytes())
	}
	return out.String(), nil
}
