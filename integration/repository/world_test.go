package repository

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/armor"

	"teleport-update/packaging"
	"teleport-update/packaging/signing"
)

const module = "../.."

// world is what all tests share: a folder, removed at the end.
var world = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "teleport-repository-") })

// cleaned runs tests and removes the world after them.
func cleaned(tests func() int) int {
	defer func() {
		if dir, err := world(); err == nil {
			os.RemoveAll(dir)
		}
	}()
	return tests()
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// program is mkrepository.
var program = sync.OnceValues(func() (string, error) {
	dir, err := world()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "mkrepository")
	cmd := exec.Command("go", "build", "-o", path, "./packaging/mkrepository")
	cmd.Dir, cmd.Env = module, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

var packOnce = sync.OnceValues(func() (string, error) {
	dir, err := world()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "pack")
	return path, packaging.BuildPack(context.Background(), module, path)
})

// pack is the program that makes packages.
func pack(t testing.TB) string {
	t.Helper()
	path, err := packOnce()
	check(t, err)
	return path
}

// standIns is a folder with the stand-ins of a version, signed by the first key.
func standIns(t testing.TB, version string) string {
	t.Helper()
	return standInsBy(t, version, 0)
}

func standInsBy(t testing.TB, version string, number int) string {
	t.Helper()
	key := keyNumber(t, number)
	standInsOnce.Lock()
	defer standInsOnce.Unlock()
	dir, err := world()
	check(t, err)
	dir = filepath.Join(dir, fmt.Sprintf("packages-%s-%d", version, number))
	if _, err := os.Stat(dir); err != nil {
		check(t, StandIns(context.Background(), pack(t), dir+".new", version, Options{Key: signing.Key{File: key.secret}}))
		check(t, os.Rename(dir+".new", dir))
	}
	return dir
}

var standInsOnce sync.Mutex

// key is one that signs, in files.
type key struct{ secret, public, keyring string }

// keyNumber is one of the keys that all tests share, as each takes a second to make.
func keyNumber(t testing.TB, n int) key {
	t.Helper()
	keysOnce.Lock()
	defer keysOnce.Unlock()
	for len(keys) <= n {
		dir, err := world()
		check(t, err)
		keys = append(keys, newKey(t, filepath.Join(dir, fmt.Sprintf("key-%d", len(keys)))))
	}
	return keys[n]
}

var (
	keysOnce sync.Mutex
	keys     []key
)

// newKey makes a key without a passphrase, with the command that the guide names.
func newKey(t testing.TB, dir string) key {
	t.Helper()
	check(t, os.Mkdir(dir, 0o755))
	k := key{filepath.Join(dir, "secret.asc"), filepath.Join(dir, "public.asc"), filepath.Join(dir, "public.gpg")}
	out := runAt(t, begun, "--new-key", k.secret, "--user-id", "Example Inc. <ops@example.com>")
	check(t, os.WriteFile(k.public, []byte(out), 0o644))
	check(t, os.WriteFile(k.keyring, unarmored(t, out), 0o644))
	return k
}

func unarmored(t testing.TB, text string) []byte {
	t.Helper()
	block, err := armor.Decode(strings.NewReader(text))
	check(t, err)
	data, err := io.ReadAll(block.Body)
	check(t, err)
	return data
}

// begun is before all that is published at a time that the test sets: to the second,
// so that what is made is the same each time.
var begun = time.Now().Add(-24 * time.Hour).Truncate(time.Second)

func environment(at time.Time, more ...string) []string {
	return append(append(os.Environ(), more...), "SOURCE_DATE_EPOCH="+strconv.FormatInt(at.Unix(), 10))
}

// runAt runs mkrepository at a time. It has to succeed. What it prints is returned.
func runAt(t testing.TB, at time.Time, args ...string) string {
	t.Helper()
	out, errors, err := tryAt(t, at, args...)
	if err != nil {
		t.Fatalf("mkrepository %s: %v\n%s%s", strings.Join(args, " "), err, out, errors)
	}
	return out
}

func tryAt(t testing.TB, at time.Time, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return tryIn(t, nil, at, args...)
}

// tryIn is tryAt with more in the environment.
func tryIn(t testing.TB, env []string, at time.Time, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	path, err := program()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = environment(at, env...)
	var out, says strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &says
	err = cmd.Run()
	return out.String(), says.String(), err
}
