package installer

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

// publish puts a release whose program is a script into a folder, and returns its
// template.
func publish(t *testing.T, script string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, content := range map[string]string{"teleport/teleport": script, "teleport/tsh": script, "teleport/examples/systemd/teleport.service": "[Service]\n"} {
		must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}))
		_, err := w.Write([]byte(content))
		must(t, err)
	}
	must(t, errors.Join(w.Close(), z.Close()))
	path := filepath.Join(t.TempDir(), "release.tar.gz")
	must(t, os.WriteFile(path, b.Bytes(), 0o600))
	must(t, os.WriteFile(path+".sha256", fmt.Appendf(nil, "%x\n", sha256.Sum256(b.Bytes())), 0o600))
	return "file://" + path
}

// The retention of another run knows nothing of what this one has just published: that
// says nothing against the version.
func TestAVersionThatAnotherRunRemovedIsNotBlamed(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		blamed bool
	}{
		"it does not run":                 {"#!/bin/sh\nexit 1\n", true},
		"its tree goes while it is tried": {"#!/bin/sh\n/bin/rm -rf \"${0%/bin/teleport}\"\nexit 1\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			c := state.EmptyConfig()
			c.Spec.URLTemplates = []string{publish(t, tc.script)}
			writeFile(t, i.Paths.Config(), "")
			must(t, c.Save(i.Paths.Config()))
			_, err := i.obtain(t.Context(), wanted{Release: version.Release{Version: "1.1.0", Edition: version.OSS}, Config: c, Spec: c.Spec})
			if _, blamed := errors.AsType[*SmokeError](err); err == nil || blamed != tc.blamed {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}
