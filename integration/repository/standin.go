// Package repository tries the apt and yum repositories of packaging/publish.sh with
// those who read them: apt of three Debians, dnf, rpm, gpgv, cloud-init, over HTTP from
// "teleport-find serve --repository". What a publication that is cut off leaves is
// looked at wherever it can be cut off.
package repository

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Architectures of the stand-ins, as Go names them.
var Architectures = []string{"amd64", "arm64"}

// standIn is a package of the updater's name that holds one script of a few bytes:
// nobody needs megabytes to tell a whole repository from a half one.
const standIn = `name: teleport-update
arch: %[1]s
platform: linux
version: %[2]s
version_schema: none
section: net
priority: optional
maintainer: nobody <nobody@example.com>
homepage: https://example.com
license: Apache-2.0
description: |
  a stand-in for the updater
  It says which version it is: <"%[2]s">.
recommends: [ca-certificates]
provides: [updater]
contents:
  - {src: program, dst: /usr/bin/teleport-update, file_info: {mode: 0755, mtime: 2026-01-02T03:04:05Z}}
  - {src: program, dst: /etc/default/teleport-update, type: config, file_info: {mode: 0644, mtime: 2026-01-02T03:04:05Z}}
  - {dst: /usr/share/teleport-update, type: dir, file_info: {mode: 0755, mtime: 2026-01-02T03:04:05Z}}
scripts: {postinstall: post}
rpm: {summary: a stand-in, buildhost: localhost, packager: nobody <nobody@example.com>, group: Tests}
`

// StandIns makes, with nfpm, a deb and an rpm of a version for each architecture in dir. The program has a comment.
// packageVersion is written as packages do, with "~" in place of the first "-".
func StandIns(ctx context.Context, nfpm, dir, packageVersion, comment string) error {
	stage, err := os.MkdirTemp("", "stand-in-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	program := "#!/bin/sh\necho teleport-update " + packageVersion + " \"(stand-in)\"\n# " + comment + "\n"
	for name, text := range map[string]string{"program": program, "post": "#!/bin/sh\nexit 0\n"} {
		if err := os.WriteFile(filepath.Join(stage, name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	for _, arch := range Architectures {
		if err := os.WriteFile(filepath.Join(stage, "nfpm.yaml"), fmt.Appendf(nil, standIn, arch, packageVersion), 0o644); err != nil {
			return err
		}
		for _, format := range []string{"deb", "rpm"} {
			cmd := exec.CommandContext(ctx, nfpm, "package", "--packager", format, "--target", dir)
			cmd.Dir = stage
			cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1767323045")
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("nfpm: %w\n%s", err, out)
			}
		}
	}
	return nil
}
