package packaging

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"teleport-update/systemd"
	"teleport-update/versions"
)

// stage lays out the files for nfpm.yaml: the unchanged files of the program's folder,
// and generated ones beside them.
func (o Options) stage(ctx context.Context, dir, program, arch string) error {
	source := filepath.Join(o.Module, "packaging", program)
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		return err
	}
	publisher, err := readPublisher(o.Module)
	if err != nil {
		return err
	}
	if err := publisher.fill(dir); err != nil {
		return err
	}
	if err := o.compile(ctx, filepath.Join(dir, program), program, arch); err != nil {
		return err
	}
	if err := o.document(ctx, dir, program, arch, publisher); err != nil {
		return err
	}
	if program == "teleport-update" {
		return stageUnits(filepath.Join(dir, "units"))
	}
	return nil
}

// compile builds a program for hosts of any age: static, without paths.
func (o Options) compile(ctx context.Context, path, program, arch string) error {
	cmd, err := o.goCommand(ctx, arch, "build", "-trimpath", "-buildvcs=false", "-tags=urfave_cli_no_docs,"+versions.StampTag(o.Version),
		"-ldflags=-s -w -X main.releaseVersion="+o.Version+" -X main.version="+o.Version, "-o", path, "./cmd/"+program)
	if err != nil {
		return err
	}
	return run(cmd, "build "+program)
}

// goCommand runs the toolchain of go.mod, for hosts of an architecture.
func (o Options) goCommand(ctx context.Context, arch string, args ...string) (*exec.Cmd, error) {
	toolchain, err := Toolchain(o.Module)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = o.Module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=",
		"GOTOOLCHAIN="+toolchain)
	return cmd, nil
}

// stageUnits writes the units that the updater itself writes on hosts without a
// package. Only the path of their program differs.
func stageUnits(dir string) error {
	files, err := systemd.Units{Binary: "/usr/bin/teleport-update"}.Files()
	if err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.Content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// document makes the manual page and the files that a distribution wants in
// /usr/share/doc.
func (o Options) document(ctx context.Context, dir, program, arch string, publisher publisher) error {
	page := program + ".8"
	manual, err := os.ReadFile(filepath.Join(dir, page))
	if err != nil {
		return err
	}
	manual = bytes.ReplaceAll(manual, []byte("@VERSION@"), []byte(o.Version))
	manual = bytes.ReplaceAll(manual, []byte("@DATE@"), []byte(o.Date.UTC().Format(time.DateOnly)))
	changes, err := os.ReadFile(filepath.Join(o.Module, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(o.Module, "LICENSE"))
	if err != nil {
		return err
	}
	notices, err := o.notices(ctx, program, arch)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		page + ".gz":          manual,
		"CHANGELOG.md.gz":     changes,
		"changelog.Debian.gz": o.debianChangelog(program, publisher),
	} {
		if err := writeCompressed(filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), license, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "NOTICES"), notices, 0o644)
}

func (o Options) debianChangelog(program string, publisher publisher) []byte {
	return fmt.Appendf(nil, "%s (%s) stable; urgency=medium\n\n  * See /usr/share/doc/%s/CHANGELOG.md.gz.\n\n -- %s  %s\n",
		program, packageVersion(o.Version), program, publisher.Maintainer, o.Date.UTC().Format("Mon, 02 Jan 2006 15:04:05 -0700"))
}

// writeCompressed compresses as Debian requires: as well as gzip can, without a name or
// a time.
func writeCompressed(path string, text []byte) error {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// notices collects the licenses of all modules in the program, as these licenses
// require.
func (o Options) notices(ctx context.Context, program, arch string) ([]byte, error) {
	cmd, err := o.goCommand(ctx, arch, "list", "-deps", "-tags=urfave_cli_no_docs",
		"-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/"+program)
	if err != nil {
		return nil, err
	}
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list what %s is made of: %w", program, err)
	}
	if cmd, err = o.goCommand(ctx, arch, "env", "GOVERSION", "GOROOT"); err != nil {
		return nil, err
	}
	toolchain, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("find Go's license: %w", err)
	}
	release, root, _ := strings.Cut(strings.TrimSpace(string(toolchain)), "\n")
	lines := append([]string{"Go " + release + "\t" + root}, strings.Split(strings.TrimSpace(string(list)), "\n")...)
	out := fmt.Appendf(nil, "%s is distributed under the Apache License 2.0. It contains:\n", program)
	seen := map[string]bool{}
	for _, line := range lines {
		name, dir, _ := strings.Cut(line, "\t")
		if name == "" || seen[name] {
			continue
		}
		seen[name] = true
		texts, err := licenses(os.DirFS(dir))
		if err != nil {
			return nil, fmt.Errorf("license of %s: %w", name, err)
		}
		out = fmt.Appendf(out, "\n==== %s\n\n%s\n", name, bytes.TrimSpace(texts))
	}
	return out, nil
}

func licenses(dir fs.FS) (texts []byte, err error) {
	for _, pattern := range []string{"LICENSE*", "LICENCE*", "COPYING*", "NOTICE*"} {
		names, err := fs.Glob(dir, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if info, err := fs.Stat(dir, name); err != nil || info.IsDir() {
				continue
			}
			text, err := fs.ReadFile(dir, name)
			if err != nil {
				return nil, err
			}
			texts = append(append(texts, text...), '\n')
		}
	}
	if texts == nil {
		return nil, fs.ErrNotExist
	}
	return texts, nil
}
