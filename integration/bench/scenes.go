package main

import (
	"fmt"
	"os"
	"os/exec"
)

func (b *bench) update(name, url string) contender {
	return contender{name, []string{b.fetch, "-dir", "DIR/versions", "-version", releaseVersion, "-url", url}}
}

// designs compares whole updates, tarball to published and synced tree.
func (b *bench) designs() error {
	gzipURL, zstdURL := b.server.url+"/full/release.tar.gz", b.server.url+"/full/release.tar.zst"
	contenders := []contender{
		b.update("update", gzipURL),
		b.child("decompress", b.in.gzip),
		b.child("three-pass", gzipURL, "DIR"),
		b.update("update (zstd)", zstdURL),
	}
	zstdAlone := b.child("decompress", b.in.zstd)
	zstdAlone.name = "decompress (zstd)"
	contenders = append(contenders, zstdAlone)
	shell, err := b.shell(gzipURL)
	if err != nil {
		b.report.skip("the shell's way", err)
	} else {
		contenders = append(contenders, shell)
	}
	walls, err := b.interleave(contenders...)
	if err != nil {
		return err
	}
	r := b.report
	r.ratio("gzip: update / decompressing the same file to nowhere", walls["update"], walls["decompress"], goalDecompress)
	r.ratio("gzip: update / three passes", walls["update"], walls["three-pass"], goalThreePass)
	if shell.name != "" {
		r.ratio("gzip: update / `curl \\| tee >(sha256sum) \\| tar xz; sync -f`", walls["update"], walls[shell.name], goalShell)
	}
	// No goal: zstd decompresses faster than two cores can hash and write what
	// comes out of it.
	r.ratio("zstd: update / decompressing the same file to nowhere", walls["update (zstd)"], walls["decompress (zstd)"], 0)
	r.ratio("zstd: update / three passes (gzip)", walls["update (zstd)"], walls["three-pass"], goalThreeZstd)
	return nil
}

func (b *bench) shell(url string) (contender, error) {
	for _, program := range []string{"bash", "curl", "tar", "sha256sum"} {
		if _, err := exec.LookPath(program); err != nil {
			return contender{}, err
		}
	}
	script := fmt.Sprintf("set -o pipefail; curl -sf %s | tee >(sha256sum > DIR/sum) | tar xz -C DIR; sync -f DIR", url)
	return contender{"curl | tee | tar; sync", []string{"bash", "-c", script}}, nil
}

// linkRate is in MiB/s.
const linkRate = 100

// link compares updates with the download alone on a link of a limited rate.
func (b *bench) link() error {
	url := fmt.Sprintf("%s/%d/release.tar", b.server.url, linkRate)
	alone, aloneZstd := b.child("download", url+".gz"), b.child("download", url+".zst")
	aloneZstd.name = "download (zstd)"
	walls, err := b.interleave(
		b.update("update", url+".gz"), alone,
		b.update("update (zstd)", url+".zst"), aloneZstd,
		b.child("three-pass", url+".gz", "DIR"),
	)
	if err != nil {
		return err
	}
	r := b.report
	r.ratio("gzip at 100 MiB/s: update / download alone", walls["update"], walls["download"], goalLink)
	r.ratio("zstd at 100 MiB/s: update / download alone", walls["update (zstd)"], walls["download (zstd)"], goalLinkZstd)
	r.ratio("gzip at 100 MiB/s: three passes / download alone", walls["three-pass"], walls["download"], 0)
	return nil
}

// diskRate is in MiB/s.
const diskRate = 150

// disk compares an update on a disk of a limited rate with what that rate
// allows.
func (b *bench) disk() error {
	slow, err := throttle(b.work, diskRate<<20)
	if err != nil {
		b.report.skip(fmt.Sprintf("a disk of %d MiB/s", diskRate), err)
		return nil
	}
	defer slow.remove()
	b.procs = slow.procs
	defer func() { b.procs = "" }()
	walls, err := b.interleave(b.update("update", b.server.url+"/full/release.tar.gz"), b.update("update (zstd)", b.server.url+"/full/release.tar.zst"))
	if err != nil {
		return err
	}
	allowed := secondsFor(b.in.plainN, diskRate<<20)
	b.report.ratio("gzip, disk of 150 MiB/s: update / (bytes / rate)", walls["update"], allowed, goalDisk)
	b.report.ratio("zstd, disk of 150 MiB/s: update / (bytes / rate)", walls["update (zstd)"], allowed, goalDisk)
	return nil
}

// updater measures the whole program, where it can work beside the machine's
// own systemd: not at all.
func (b *bench) updater() error {
	gz, zst := b.update("update", b.server.url+"/full/release.tar.gz"), b.update("update", b.server.url+"/full/release.tar.zst")
	for _, m := range []struct {
		what string
		c    contender
		goal float64
	}{{"version store alone, gzip: peak memory", gz, goalMemory}, {"version store alone, zstd: peak memory", zst, goalMemoryZstd}} {
		kib, err := b.memories(m.c, 3)
		if err != nil {
			return err
		}
		b.report.value(m.what, float64(kib)/1024, "MiB", m.goal)
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		b.report.skip("the whole updater", fmt.Errorf("systemd runs here; run this in a container"))
		return nil
	}
	return b.wholeUpdater()
}
