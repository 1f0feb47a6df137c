package main

import (
	"fmt"
	"os/exec"
)

func (b *bench) update(name, url string) contender {
	return contender{name, []string{b.fetch, "-dir", "DIR/versions", "-version", releaseVersion, "-url", url}, nil}
}

// named is a child under another name than its function's.
func (b *bench) named(name, function string, args ...string) contender {
	c := b.child(function, args...)
	c.name = name
	return c
}

// designs compares whole updates, tarball to published and synced tree.
func (b *bench) designs() error {
	if err := b.serve(); err != nil {
		return err
	}
	b.table.Notes = append(b.table.Notes, b.sizes())
	gzipURL, zstdURL := b.server.url+"/full/release.tar.gz", b.server.url+"/full/release.tar.zst"
	contenders := []contender{
		b.update("update", gzipURL),
		b.child("decompress", b.in.gzip),
		b.child("three-pass", gzipURL, "DIR"),
		b.update("update (zstd)", zstdURL),
		b.named("decompress (zstd)", "decompress", b.in.zstd),
	}
	shell, err := b.shell(gzipURL)
	if err != nil {
		b.table.skip("the shell's way", err)
	} else {
		contenders = append(contenders, shell)
	}
	walls, err := b.interleave(contenders...)
	if err != nil {
		return err
	}
	r := b.table
	r.ratio("gzip: update / decompressing the same file to nowhere", walls["update"], goalDecompress, bound{took: walls["decompress"]})
	r.ratio("gzip: update / three passes", walls["update"], goalThreePass, bound{took: walls["three-pass"]})
	if shell.name != "" {
		r.ratio("gzip: update / `curl \\| tee >(sha256sum) \\| tar xz; sync -f`", walls["update"], goalShell, bound{took: walls[shell.name]})
	}
	// No goal: zstd decompresses faster than two cores can hash and write what
	// comes out of it.
	r.ratio("zstd: update / decompressing the same file to nowhere", walls["update (zstd)"], none, bound{took: walls["decompress (zstd)"]})
	r.ratio("zstd: update / three passes (gzip)", walls["update (zstd)"], goalThreeZstd, bound{took: walls["three-pass"]})
	return nil
}

func (b *bench) shell(url string) (contender, error) {
	for _, program := range []string{"bash", "curl", "tar", "sha256sum"} {
		if _, err := exec.LookPath(program); err != nil {
			return contender{}, err
		}
	}
	script := fmt.Sprintf("set -o pipefail; curl -sf %s | tee >(sha256sum > DIR/sum) | tar xz -C DIR; sync -f DIR", url)
	return contender{"curl | tee | tar; sync", []string{"bash", "-c", script}, nil}, nil
}

// linkRate is in MiB/s.
const linkRate = 100

// link compares updates on a link of a limited rate with the larger of the
// download alone and decompressing alone: on a slow machine the link is not what
// limits.
func (b *bench) link() error {
	if err := b.serve(); err != nil {
		return err
	}
	url := fmt.Sprintf("%s/%d/release.tar", b.server.url, linkRate)
	walls, err := b.interleave(
		b.update("update", url+".gz"), b.child("download", url+".gz"), b.child("decompress", b.in.gzip),
		b.update("update (zstd)", url+".zst"), b.named("download (zstd)", "download", url+".zst"),
		b.named("decompress (zstd)", "decompress", b.in.zstd),
		b.child("three-pass", url+".gz", "DIR"),
	)
	if err != nil {
		return err
	}
	bounds := func(suffix string) []bound {
		return []bound{{"download", walls["download"+suffix]}, {"decompressing", walls["decompress"+suffix]}}
	}
	r := b.table
	const larger = "%s at %d MiB/s: %s / the larger of download alone and decompressing alone"
	r.ratio(fmt.Sprintf(larger, "gzip", linkRate, "update"), walls["update"], goalLink, bounds("")...)
	r.ratio(fmt.Sprintf(larger, "zstd", linkRate, "update"), walls["update (zstd)"], goalLinkZstd, bounds(" (zstd)")...)
	r.ratio(fmt.Sprintf(larger, "gzip", linkRate, "three passes"), walls["three-pass"], none, bounds("")...)
	return nil
}

// diskRate is in MiB/s.
const diskRate = 150

// disk compares an update on a disk of a limited rate with the largest of what
// that rate allows, the download and decompressing.
func (b *bench) disk() error {
	if err := b.serve(); err != nil {
		return err
	}
	slow, err := throttle(b.work, diskRate<<20)
	if err != nil {
		b.table.skip(fmt.Sprintf("a disk of %d MiB/s", diskRate), err)
		return nil
	}
	defer slow.remove()
	b.procs = slow.procs
	defer func() { b.procs = "" }()
	url := b.server.url + "/full/release.tar"
	walls, err := b.interleave(
		b.update("update", url+".gz"), b.child("download", url+".gz"), b.child("decompress", b.in.gzip),
		b.update("update (zstd)", url+".zst"), b.named("download (zstd)", "download", url+".zst"),
		b.named("decompress (zstd)", "decompress", b.in.zstd),
	)
	if err != nil {
		return err
	}
	for _, c := range []struct{ name, suffix string }{{"gzip", ""}, {"zstd", " (zstd)"}} {
		b.table.ratio(fmt.Sprintf("%s, disk of %d MiB/s: update / the largest of bytes / rate, download and decompressing", c.name, diskRate),
			walls["update"+c.suffix], goalDisk, bound{"bytes / rate", secondsFor(b.in.plainN, diskRate<<20)},
			bound{"download", walls["download"+c.suffix]}, bound{"decompressing", walls["decompress"+c.suffix]})
	}
	return nil
}
