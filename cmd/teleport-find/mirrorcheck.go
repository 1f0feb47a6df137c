package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"teleport-update/find/server/files"
	"teleport-update/internal/regular"
	"teleport-update/versions/archive"
	"teleport-update/versions/fetch"
	"teleport-update/versions/signature"
)

// checkMirror says of each tarball whether hosts would take it: of the named ones, or
// of all in the folder.
func checkMirror(c *cli.Context, log *slog.Logger, paths []string) (err error) {
	named := len(paths) > 0
	if !named {
		if paths, err = tarballsIn(c.String("to")); err != nil {
			return err
		}
	}
	keys, err := releaseKeys(c)
	if err != nil {
		return err
	}
	refused := 0
	progress := watch(c, "checking tarballs", 0)
	defer progress.End()
	for i, path := range paths {
		progress.Step("checking " + filepath.Base(path))
		progress.Done(int64(i), int64(len(paths)))
		found, err := fetch.CheckArchive(path, archive.DefaultLimits(), keys...)
		if err != nil {
			log.Error("not checked to the end", "file", path, "error", err)
		}
		lines := make([]string, 0, len(found)+1)
		for _, v := range found {
			lines = append(lines, v.Text)
		}
		// A named tarball may not be in its folder yet.
		if _, err := os.Lstat(path + ".sha256"); !named && errors.Is(err, fs.ErrNotExist) {
			lines = append(lines, "it has no checksum file; hosts that read the folder themselves need one")
		}
		checked, text := mirrored{File: path, Is: "ok", Problems: lines}, []string{path + ": ok"}
		if err != nil || len(lines) > 0 {
			refused++
			checked.Is, text = "refused", nil // without a line, the log has the reason
			for _, line := range lines {
				text = append(text, path+": "+line)
			}
		}
		if err := printItem(c, checked, text...); err != nil {
			return err
		}
	}
	if refused > 0 {
		return fmt.Errorf("%d of %d tarballs would be refused by hosts", refused, len(paths))
	}
	return nil
}

// releaseKeys returns the keys from --release-key: one of them must have signed each tarball.
func releaseKeys(c *cli.Context) (keys []signature.Key, err error) {
	for _, file := range c.StringSlice("release-key") {
		data, err := regular.Read(file, signature.MaxKeys, 0)
		if err != nil {
			return nil, fmt.Errorf("--release-key: %w", err)
		}
		found, err := signature.ParseKeys(file, data)
		if err != nil {
			return nil, fmt.Errorf("--release-key: %w", err)
		}
		keys = append(keys, found...)
	}
	return keys, nil
}

// signedBy admits only tarballs with a signature by one of its keys.
type signedBy []signature.Key

func (keys signedBy) Admit(t fetch.Tarball, sibling fetch.Sibling) (fetch.Proof, error) {
	file, err := sibling(signature.Suffix, signature.MaxFile)
	if err != nil {
		return fetch.Proof{}, fmt.Errorf("the signature of %s: %w", t.Name, err)
	}
	key, err := signature.Verify(keys, t.SHA256, file)
	if err != nil {
		return fetch.Proof{}, fmt.Errorf("the signature of %s: %w", t.Name, err)
	}
	return fetch.Proof{By: key.Name, Signature: file}, nil
}

func (signedBy) Confirm(_ fetch.Tarball, p fetch.Proof, _ archive.Label) (fetch.Proof, error) {
	return p, nil
}

// tarballsIn lists the files of a folder that a find server would serve.
func tarballsIn(dir string) (paths []string, err error) {
	if dir == "" {
		return nil, usageErrorf("which tarballs? Name them, or their folder with --to")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if files.IsTarball(e.Name()) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("there is no tarball in %s", dir)
	}
	return paths, nil
}
