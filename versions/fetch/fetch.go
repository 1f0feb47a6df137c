package fetch

import (
	"context"
	"errors"
	"fmt"

	"teleport-update/versions"
)

// Fetch returns the release as a complete tree, on stable storage.
//
// A present tree is compared with its manifest. An intact tree is
// returned as it is, without asking any server: only with Replace a release that was published
// again under the same version is noticed. A damaged tree is
// replaced as if Replace had been set. A process that runs from the
// replaced tree goes on, but its executable is then a deleted file.
//
// Mirrors are tried in order. One error names each mirror that failed and the reason; it
// matches ErrNotFound, *ChecksumError and so on if one of them failed so.
// *space.Error, and any other error of this host, ends the attempt at once.
// After any failure, nothing is left behind but a kept download.
func (f *Fetcher) Fetch(ctx context.Context, req Request) (versions.Tree, error) {
	if err := req.Release.Check(); err != nil {
		return versions.Tree{}, fmt.Errorf("fetch: %w", err)
	}
	if tree, ok, err := f.intact(ctx, req); ok || err != nil {
		return tree, err
	}
	mirrors, err := f.mirrorsOf(req.Release, req.Sources)
	if err != nil {
		return versions.Tree{}, err
	}
	f.Progress.Start(req.Release.String())
	defer f.Progress.End()

	return fromMirrors(ctx, f, "fetch", req, mirrors, func(d *download) (versions.Tree, error) { return f.receive(ctx, d, req) })
}

// fromMirrors gives take one download after the other, until it succeeds with one. A mirror that
// fails is left for the next one, but is asked once more if pieces of two downloads did not fit.
func fromMirrors[T any](
	ctx context.Context, f *Fetcher, verb string, req Request, mirrors []mirror, take func(*download) (T, error),
) (T, error) {
	var none T
	failed := &failures{release: req.Release}
	for restarts := 0; len(mirrors) > 0; {
		d, err := f.begin(ctx, mirrors, req.ExpectSHA256, failed)
		if err != nil {
			return none, err
		}
		got, err := take(d)
		if err == nil {
			return got, nil
		}
		if ctx.Err() != nil {
			return none, fmt.Errorf("%s version %s: %w", verb, req.Release, context.Cause(ctx))
		}
		if local, ok := errors.AsType[*versions.HostError](err); ok {
			return none, fmt.Errorf("%s version %s: %w", verb, req.Release, local.Err)
		}
		if errors.Is(err, error(failed)) {
			return none, failed
		}
		mirrors = d.mirrors
		_, again := errors.AsType[*restartError](err)
		if (again || d.stitched) && restarts < maxRestarts {
			// Pieces of two tarballs, or a bad kept piece: once more, whole.
			restarts++
			f.Log.Warn("starting the download again", "url", mirrors[0].name, "error", err)
			continue
		}
		failed.add(mirrors[0].name, err)
		mirrors = mirrors[1:]
	}
	return none, failed
}

// Checksum returns the SHA-256 that the sources announce for a release's tarball: the first
// answer, as 64 hex digits in lower case. Each source is asked once: this look is not worth
// waiting for.
func (f *Fetcher) Checksum(ctx context.Context, r versions.Release, sources []*Template) (string, error) {
	if err := r.Check(); err != nil {
		return "", fmt.Errorf("read the checksum: %w", err)
	}
	mirrors, err := f.mirrorsOf(r, sources)
	if err != nil {
		return "", err
	}
	failed := &failures{release: r}
	for _, m := range mirrors {
		digest, err := m.checksum(ctx)
		if err == nil {
			return digest, nil
		}
		failed.add(m.name, err)
	}
	return "", failed
}

// maxRestarts is how often one fetch may begin again from its first byte.
const maxRestarts = 3

// intact returns the tree of the release if it is here and good enough.
func (f *Fetcher) intact(ctx context.Context, req Request) (versions.Tree, bool, error) {
	tree, ok, err := f.Store.Lookup(req.Release)
	if err != nil || !ok || req.Replace || tree.Origin != "" {
		return versions.Tree{}, false, err
	}
	if req.ExpectSHA256 != "" && tree.SHA256 != req.ExpectSHA256 {
		return versions.Tree{}, false, nil
	}
	err = tree.Verify(ctx)
	if damaged, ok := errors.AsType[*versions.DamagedError](err); ok {
		f.Log.Warn("the version on disk is damaged; fetching it again", "version", req.Release.Version, "error", damaged)
		return versions.Tree{}, false, nil
	}
	return tree, err == nil, err
}
