// Package packaging builds the deb and rpm packages of teleport-update and
// teleport-find.
//
// The folder of a program defines its packages: nfpm.yaml, the maintainer scripts, the
// manual page, the completions. The updater's units come from package systemd, which
// writes the same ones on hosts without a package.
//
// A package is a function of the commit: programs are built without paths and without
// the version control's stamp, and every time in it is the commit's. Two builds give
// the same bytes, wherever they run. sign.sh signs them, and publish.sh publishes them.
package packaging

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// Options are the settings of a build.
type Options struct {
	Module   string    // the module's folder
	Out      string    // the folder for the packages
	Version  string    // semver without "v", see Commit
	Date     time.Time // all times in the packages
	Arch     []string  // of Go: "amd64", "arm64"
	Formats  []string  // "deb", "rpm", "program": the program alone, for hosts without a package manager
	Programs []string  // nil: both
	// Step, unless it is nil, gets what is done next, and how many of all steps are done.
	Step func(what string, done, all int64)

	done int64
}

// The programs with packages, which have the same names.
var programs = []string{"teleport-update", "teleport-find"}

// Build builds the packages and returns their paths.
func Build(ctx context.Context, o Options) (paths []string, err error) {
	if err := checkVersion(o.Version); err != nil {
		return nil, err
	}
	out, err := filepath.Abs(o.Out)
	if err != nil {
		return nil, err
	}
	// Programs and packages are built in different folders, so paths must be absolute.
	if o.Module, err = filepath.Abs(o.Module); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	if o.Programs == nil {
		o.Programs = programs
	}
	o.step("build nfpm")
	// It runs in another folder than the module's, so it is a file.
	tool := filepath.Join(o.Module, "build", "tools", "nfpm")
	if err := BuildTool(ctx, o.Module, tool); err != nil {
		return nil, err
	}
	for _, program := range o.Programs {
		for _, arch := range o.Arch {
			built, err := o.buildOne(ctx, tool, out, program, arch)
			if err != nil {
				return nil, fmt.Errorf("package %s for %s: %w", program, arch, err)
			}
			paths = append(paths, built...)
		}
	}
	return paths, nil
}

// step says what is done next. The first step builds the tool, and each program of each architecture is compiled and packed.
func (o *Options) step(what string) {
	if o.Step != nil {
		o.Step(what, o.done, 1+int64(len(o.Programs)*len(o.Arch)*(1+len(o.Formats))))
	}
	o.done++
}

func (o *Options) buildOne(ctx context.Context, tool, out, program, arch string) (paths []string, err error) {
	// No file contains the folder's name, so it may differ each time.
	stage, err := os.MkdirTemp(out, ".stage-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(stage)
	o.step("build " + program + " for " + arch)
	if err := o.stage(ctx, stage, program, arch); err != nil {
		return nil, err
	}
	for _, format := range o.Formats {
		name := fileName(program, o.Version, arch, format)
		o.step("make " + name)
		if err := o.pack(ctx, tool, stage, program, name, arch, format); err != nil {
			return nil, err
		}
		path := filepath.Join(out, name)
		if err := os.Rename(filepath.Join(stage, name), path); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func (o Options) pack(ctx context.Context, tool, stage, program, name, arch, format string) error {
	if format == "program" {
		return os.Link(filepath.Join(stage, program), filepath.Join(stage, name))
	}
	cmd := exec.CommandContext(ctx, tool, "package", "--packager", format, "--target", name)
	cmd.Dir = stage
	cmd.Env = append(os.Environ(), "ARCH="+arch, "VERSION="+packageVersion(o.Version),
		"SOURCE_DATE_EPOCH="+strconv.FormatInt(o.Date.Unix(), 10))
	return run(cmd, "make the package")
}

// run returns an error with the output of a program that fails.
func run(cmd *exec.Cmd, doing string) error {
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", doing, err, text)
	}
	return nil
}

// fileName returns the name in the form of package managers and mirrors.
func fileName(program, version, arch, format string) string {
	if format == "program" {
		return fmt.Sprintf("%s-%s-linux-%s", program, version, arch)
	}
	if format == "rpm" {
		arch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
		return fmt.Sprintf("%s-%s-1.%s.rpm", program, packageVersion(version), arch)
	}
	return fmt.Sprintf("%s_%s_%s.deb", program, packageVersion(version), arch)
}

// BuildTool builds nfpm, which makes one package from an nfpm.yaml.
func BuildTool(ctx context.Context, module, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-modfile=tools.mod", "-trimpath", "-o", path, "github.com/goreleaser/nfpm/v2/cmd/nfpm")
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return run(cmd, "build nfpm")
}
