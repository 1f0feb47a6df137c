package backup

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

func FuzzBackupYAML(f *testing.F) {
	f.Add([]byte("version: v1\nkind: db_backup\nspec: {proxy: p, version: 1.0.0, creation_time: 2024-05-06T12:00:00Z, size: 1}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("spec: !!binary x\n<<: *b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, metaName), data, 0o600))
		if _, err := read(dir); err != nil {
			if _, ok := errors.AsType[*InvalidError](err); !ok {
				t.Errorf("%v; want an *InvalidError", err)
			}
		}
	})
}

// What the agent's user wrote is either backed up, and then restorable, or
// refused; whatever it is, it does not bring the updater down. (Not a fuzz
// target: counting coverage in all of SQLite takes seconds a run.)
func TestADatabaseOfAnyBytesIsBackedUpOrRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seed.db")
	makeDB(t, path, "PRAGMA page_size=512", 20, 1)
	seed, err := os.ReadFile(path)
	must(t, err)
	heads := map[string]string{
		"-journal": "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7\x00\x00\x00\x01",
		"-wal":     "\x37\x7f\x06\x82\x00\x2d\xe2\x18\x00\x00\x02\x00",
		"":         "",
	}
	random := rand.New(rand.NewPCG(1, 2))
	outcomes := map[string]int{}
	for range 25 {
		for suffix, head := range heads {
			h := newHost(t)
			must(t, os.MkdirAll(filepath.Dir(h.db), 0o700))
			db := bytes.Clone(seed)
			for range 1 + random.IntN(4) {
				db[random.IntN(len(db))] = byte(random.Uint32())
			}
			must(t, os.WriteFile(h.db, db, 0o600))
			if suffix != "" {
				sidecar := []byte(head)
				for len(sidecar) < 600 {
					sidecar = append(sidecar, byte(random.Uint32()))
				}
				must(t, os.WriteFile(h.db+suffix, sidecar, 0o600))
			}
			before := tree(t, filepath.Dir(h.db))
			if _, corrupt := errors.AsType[*CorruptError](probe(t.Context(), h.db)); corrupt {
				outcomes["probed"]++
			}
			err := take(t.Context(), h.db, TakeRequest{Dir: h.dir, Meta: metaOf("15.1.0")})
			wantSameTree(t, filepath.Dir(h.db), before)
			if _, corrupt := errors.AsType[*CorruptError](err); corrupt {
				outcomes["corrupt"]++
				continue
			}
			must(t, err)
			outcomes["taken"]++
			must(t, Check(t.Context(), h.dir, wantOf("15.1.0")))
			must(t, restore(t.Context(), h.db, h.dir))
		}
	}
	t.Logf("outcomes: %v", outcomes)
}
