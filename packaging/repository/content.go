package repository

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"

	"teleport-update/packaging/signing"
)

// keyFile is the name of the public key for hosts.
const keyFile = "teleport-update.asc"

// content is everything that will be visible to clients and is not there yet.
type content struct {
	plain    map[string][]byte // files that are replaced: the key, the configuration of hosts
	packages []*pkg
	indexes  []aptIndex
	// The signed files, below aptSuite.
	release, releaseGPG, inRelease []byte
	// yum has the files of repodata by name, for each architecture.
	yum map[string]map[string][]byte
}

func (o *Options) content(ctx context.Context, s *stage, packages []*pkg, date time.Time) (*content, error) {
	c := &content{packages: packages, plain: configuration(o.URL), yum: make(map[string]map[string][]byte)}
	var err error
	if c.plain[keyFile], err = signing.PublicKeys(o.keys()); err != nil {
		return nil, err
	}
	if c.indexes, err = s.aptIndexes(ctx, packages); err != nil {
		return nil, err
	}
	if c.release, err = s.release(ctx, c.indexes, date, o.ValidFor); err != nil {
		return nil, err
	}
	if c.inRelease, err = o.Signer.Clearsigned(c.release); err != nil {
		return nil, err
	}
	signature, err := o.Signer.Detached(c.release, 0)
	if err != nil {
		return nil, err
	}
	c.releaseGPG = signing.Armored(openpgp.SignatureType, signature)
	for _, arch := range architectures {
		if c.yum[arch.rpm], err = o.repodata(ctx, s, packages, arch.rpm, date); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (o *Options) repodata(ctx context.Context, s *stage, packages []*pkg, arch string, date time.Time) (map[string][]byte, error) {
	files, err := s.yumIndexes(ctx, packages, arch, date)
	if err != nil {
		return nil, err
	}
	// For dnf only a signature can expire, not a repository.
	signature, err := o.Signer.Detached(files[repomdName], o.ValidFor)
	if err != nil {
		return nil, err
	}
	files[repomdName+".asc"] = signing.Armored(openpgp.SignatureType, signature)
	return files, nil
}

// names reports whether a client with the new indexes may ask for a file.
func (c *content) names(name string) bool {
	for arch, files := range c.yum {
		if file, ok := strings.CutPrefix(name, path.Join(yumFolder, arch, repodata)+"/"); ok {
			return files[file] != nil
		}
	}
	return slices.ContainsFunc(c.packages, func(p *pkg) bool { return p.path == name }) ||
		slices.ContainsFunc(c.indexes, func(i aptIndex) bool { return i.byHash() == name })
}

// configuration returns the files that hosts need besides the key.
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
