package versions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path/filepath"

	"teleport-update/internal/regular"
	"teleport-update/internal/trust"
	"teleport-update/internal/version"
	"teleport-update/internal/webclient"
)

// folder is the source of file URLs: media, a share, a folder of this host.
type folder struct{}

func (folder) check(u *url.URL) error {
	if u.Host != "" && u.Host != "localhost" || u.User != nil || u.RawQuery != "" || !filepath.IsAbs(u.Path) {
		return fmt.Errorf("%s: a file URL is file:// and an absolute path", webclient.Redact(u.String()))
	}
	return nil
}

// Exposed returns an error when somebody other than root can exchange what the template
// leads to on this host: a checksum beside a tarball protects from nobody who can write
// both. It is nil for other places.
func (t *Template) Exposed() error {
	for _, e := range []version.Edition{version.OSS, version.Enterprise, version.FIPS} {
		u, err := t.url(Release{Version: "1.2.3", Edition: e})
		if err != nil || u.Scheme != "file" {
			continue
		}
		if err := trust.Path(filepath.Dir(u.Path)); err != nil {
			return err
		}
	}
	return nil
}

func (s folder) size(ctx context.Context, f *Fetcher, m mirror) (int64, error) {
	p, err := s.open(ctx, f, m, 0, validator{})
	if err != nil {
		return -1, err
	}
	return p.total, p.body.Close()
}

func (folder) open(_ context.Context, _ *Fetcher, m mirror, offset int64, _ validator) (*part, error) {
	f, info, err := regular.Open(m.url.Path, 0)
	if odd, ok := errors.AsType[*regular.OddError](err); ok {
		return nil, unusable("%v", odd)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, m.url.Path)
	}
	if err != nil {
		return nil, err
	}
	if info.Size() < offset {
		err = errChanged
	} else {
		_, err = f.Seek(offset, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &part{body: f, offset: offset, total: info.Size(), local: true}, nil
}
