package repository

import (
	"cmp"
	"fmt"
	"os"
	"sync"
	"testing"

	"teleport-update/integration/signer"
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
