//go:build ignore

// Command pack makes one package from nfpm.yaml in the current folder, and signs an rpm
// if a key is named. Package packaging builds it with tools.mod: the ignored file keeps
// the dependencies of nfpm out of go.mod, and so out of the programs.
//
// nfpm's own command also signs rpms, but with the present time and some salt, so that
// no two builds are the same, and in a form that yum of RHEL 7 and rpm 4.14 refuse.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"

	"teleport-update/packaging/signing"
)

func main() {
	var key signing.Key
	format := flag.String("packager", "", "`format`: deb or rpm")
	target := flag.String("target", "", "`file` to write")
	flag.StringVar(&key.File, "key", "", "`file` with the secret key that signs an rpm")
	flag.StringVar(&key.PassphraseFile, "passphrase-file", "", "`file` whose first line opens the key")
	flag.StringVar(&key.GPG, "gpg-key", "", "`fingerprint` of a key of gpg's that signs an rpm")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := pack(ctx, *format, *target, key); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func pack(ctx context.Context, format, target string, key signing.Key) error {
	config, err := nfpm.ParseFile("nfpm.yaml")
	if err != nil {
		return err
	}
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if key.Named() {
		signer, err := open(ctx, key)
		if err != nil {
			return err
		}
		info.RPM.Signature.SignFn = func(r io.Reader) ([]byte, error) {
			data, err := io.ReadAll(r)
			if err != nil {
				return nil, err
			}
			return signer.Detached(data, 0)
		}
	}
	f, err := os.Create(target)
	if err != nil {
		return err
	}
	defer f.Close()
	info.Target = target
	if err := packager.Package(info, f); err != nil {
		return err
	}
	return f.Close()
}

// open returns a signer whose signatures have the time of the package.
func open(ctx context.Context, key signing.Key) (signing.Signer, error) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return key.At(ctx, time.Unix(seconds, 0))
}
