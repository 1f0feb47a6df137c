package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path/filepath"

	"teleport-update/internal/regular"
	"teleport-update/internal/webclient"
)

// folder is the source of file URLs: media, a share, a folder of this host.
type folder struct{}

func checkFolder(u *url.URL) error {
	here := u.Host == "" || u.Host == "localhost"
	plain := u.User == nil && u.RawQuery == "" && filepath.IsAbs(u.Path)
	if !here || !plain {
		return fmt.Errorf("%s: a file URL is file:// and an absolute path", webclient.Redact(u.String()))
	}
	return nil
}

func (s folder) size(ctx context.Context, at place) (int64, error) {
	p, err := s.open(ctx, at, 0, validator{})
	if err != nil {
		return -1, err
	}
	return p.total, p.body.Close()
}

func (folder) open(_ context.Context, at place, offset int64, _ validator) (*part, error) {
	f, info, err := regular.Open(at.url.Path, 0)
	if unsuitable, ok := errors.AsType[*regular.UnsuitableError](err); ok {
		return nil, unusable("%v", unsuitable)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, at.url.Path)
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
