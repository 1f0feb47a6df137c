package repository

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"teleport-update/integration/signer"
	"teleport-update/packaging"
)

const module = "../.."

// world is what all tests share: a folder and keys, removed at the end.
var world = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "teleport-repository-") })

// cleaned runs tests and removes the world after them.
func cleaned(tests func() int) int {
	code := tests()
	for _, k := range keys {
		if err := k.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = cmp.Or(code, 1)
		}
	}
	if dir, err := world(); err == nil {
		os.RemoveAll(dir)
	}
	return code
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var nfpmOnce = sync.OnceValues(func() (string, error) {
	dir, err := world()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "nfpm")
	return path, packaging.BuildTool(context.Background(), module, path)
})

// standIns is a folder with the stand-ins of a version. Nothing is signed.
func standIns(t testing.TB, version string) string {
	t.Helper()
	standInsOnce.Lock()
	defer standInsOnce.Unlock()
	dir, err := world()
	check(t, err)
	dir = filepath.Join(dir, "packages-"+version)
	if _, err := os.Stat(dir); err != nil {
		makeStandIns(t, dir+".new", version, "")
		check(t, os.Rename(dir+".new", dir))
	}
	return dir
}

var standInsOnce sync.Mutex

// makeStandIns writes the stand-ins of a version with a comment in their program.
func makeStandIns(t testing.TB, dir, version, comment string) {
	t.Helper()
	nfpm, err := nfpmOnce()
	check(t, err)
	check(t, StandIns(context.Background(), nfpm, dir, version, comment))
}

// keyNumber is one of the keys that all tests share, as each takes a second to make.
func keyNumber(t testing.TB, n int) *signer.Key {
	t.Helper()
	keysOnce.Lock()
	defer keysOnce.Unlock()
	for len(keys) <= n {
		k, err := signer.New(module)
		check(t, err)
		keys = append(keys, k)
	}
	return keys[n]
}

var (
	keysOnce sync.Mutex
	keys     []*signer.Key
)
