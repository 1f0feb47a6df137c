package repository

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
)

// keyFile is where hosts get the key.
const keyFile = "teleport-update.asc"

// content is all that a client will be able to see and that is not there yet.
type content struct {
	plain    map[string][]byte // files that are replaced: the key, the configuration of hosts
	packages []*pkg
	indexes  []aptIndex
	// The signed files, below aptSuite.
	release, releaseGPG, inRelease []byte
	// yum has the files of repodata by their names, for each architecture.
	yum map[string]map[string][]byte
}

func (o *Options) content(packages []*pkg, report *Report) (*content, error) {
	c := &content{packages: packages, plain: configuration(o.URL), yum: make(map[string]map[string][]byte)}
	var err error
	if c.plain[keyFile], err = publicKeys(o.keys()); err != nil {
		return nil, err
	}
	c.indexes = aptIndexes(packages)
	c.release = release(c.indexes, report.Date, report.ValidUntil)
	if c.inRelease, err = o.Signer.Clearsigned(c.release); err != nil {
		return nil, err
	}
	signature, err := o.Signer.Detached(c.release, 0)
	if err != nil {
		return nil, err
	}
	c.releaseGPG = armored(openpgp.SignatureType, signature)
	for _, arch := range architectures {
		if c.yum[arch.rpm], err = o.repodata(packages, arch.rpm, report.Date); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (o *Options) repodata(packages []*pkg, arch string, date time.Time) (map[string][]byte, error) {
	indexes, err := yumIndexes(packages, arch)
	if err != nil {
		return nil, err
	}
	text, err := repomd(indexes, date)
	if err != nil {
		return nil, err
	}
	// dnf knows no end of a repository, but that of a signature.
	signature, err := o.Signer.Detached(text, o.ValidFor)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{repomdName: text, repomdName + ".asc": armored(openpgp.SignatureType, signature)}
	for _, i := range indexes {
		files[i.name()] = i.data
	}
	return files, nil
}

// names reports whether a client that reads the new indexes asks for a file.
func (c *content) names(name string) bool {
	for arch, files := range c.yum {
		if file, ok := strings.CutPrefix(name, path.Join(yumFolder, arch, repodata)+"/"); ok {
			return files[file] != nil
		}
	}
	return slices.ContainsFunc(c.packages, func(p *pkg) bool { return p.path == name }) ||
		slices.ContainsFunc(c.indexes, func(i aptIndex) bool { return i.byHash() == name })
}

// configuration is what hosts need besides the key.
func configuration(address string) map[string][]byte {
	files := make(map[string][]byte)
	if address == "" {
		return files
	}
	address = strings.TrimRight(address, "/")
	files["teleport-update.sources"] = fmt.Appendf(nil, `Types: deb
URIs: %s/apt
Suites: stable
Components: %s
Signed-By: /etc/apt/keyrings/%s
`, address, component, keyFile)
	files["teleport-update.repo"] = fmt.Appendf(nil, `[teleport-update]
name=teleport-update
baseurl=%s/yum/$basearch
enabled=1
gpgcheck=1
repo_gpgcheck=1
gpgkey=file:///etc/pki/rpm-gpg/%s
`, address, keyFile)
	return files
}
