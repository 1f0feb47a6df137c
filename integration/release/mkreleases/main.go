// Command mkreleases builds release tarballs from the stand-in agent.
//
//	mkreleases --agent FILE --out DIR [flags] VERSION[:VARIANT]…
//
// The flags hold for every release of one run.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "mkreleases: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	var spec release.Spec
	out := flag.String("out", ".", "`DIR` to write the tarballs and checksums to; created if missing")
	edition := flag.String("edition", string(version.OSS), "oss, enterprise or enterprise-fips")
	zstd := flag.Bool("zstd", false, "compress with zstd instead of gzip")
	flag.StringVar(&spec.Agent, "agent", "", "the built stand-in agent `FILE`")
	flag.IntVar(&spec.Schema, "schema", 1, "schema `NUMBER` of the database")
	flag.Int64Var(&spec.Pad, "pad", 0, "`BYTES` of noise to add to the binary")
	flag.DurationVar(&spec.Unit.RestartDelay, "restart-sec", 0, "RestartSec of the unit (default 5s)")
	flag.DurationVar(&spec.Unit.StopTimeout, "stop-timeout", 0, "TimeoutStopSec of the unit (default systemd's)")
	flag.Parse()
	if spec.Agent == "" || flag.NArg() == 0 {
		return fmt.Errorf("usage: mkreleases --agent FILE --out DIR [flags] VERSION[:VARIANT]…")
	}
	var err error
	if spec.Edition, err = version.ParseEdition(*edition); err != nil {
		return err
	}
	if *zstd {
		spec.Compression = release.Zstd
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	for _, arg := range flag.Args() {
		number, variant, _ := strings.Cut(arg, ":")
		if spec.Version, err = version.Parse(number); err != nil {
			return err
		}
		if spec.Variant, err = stamp.ParseVariant(variant); err != nil {
			return err
		}
		path, digest, err := release.Build(*out, spec)
		if err != nil {
			return err
		}
		fmt.Printf("%s  %s\n", digest, path)
	}
	return nil
}
