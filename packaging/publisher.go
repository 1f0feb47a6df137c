package packaging

import (
	"bytes"
	"fmt"
	"net/mail"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// publisherFile names the publisher of the packages.
const publisherFile = "packaging/PUBLISHER"

// publisher is in every package: an address to write to, and the project's page.
type publisher struct{ Maintainer, Homepage string }

// readPublisher reads the file below the module's folder, with lines "NAME: VALUE" and
// comments.
func readPublisher(module string) (p publisher, err error) {
	path := filepath.Join(module, publisherFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return p, err
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); name {
		case "Maintainer":
			p.Maintainer = value
		case "Homepage":
			p.Homepage = value
		}
	}
	if address, err := mail.ParseAddress(p.Maintainer); err != nil || address.Name == "" {
		return p, fmt.Errorf("%s: the maintainer %q is not of the form NAME <ADDRESS>", path, p.Maintainer)
	}
	if u, err := url.Parse(p.Homepage); err != nil || u.Scheme != "https" || u.Host == "" {
		return p, fmt.Errorf("%s: the homepage %q is not an https:// URL", path, p.Homepage)
	}
	return p, nil
}

// fill puts the publisher into the staged files that name it.
func (p publisher) fill(dir string) error {
	for _, name := range []string{"nfpm.yaml", "copyright"} {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte("@MAINTAINER@"), []byte(p.Maintainer))
		text = bytes.ReplaceAll(text, []byte("@HOMEPAGE@"), []byte(p.Homepage))
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
