//go:build hosts

package blocklog

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"teleport-update/integration/host"
	"teleport-update/integration/powercut"
)

var scratch, unavailable = "", error(nil)

func TestMain(m *testing.M) {
	if unavailable = powercut.OwnMounts(); unavailable == nil {
		scratch, unavailable = powercut.Scratch()
	}
	if unavailable == nil {
		unavailable = Available()
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The file system promises that what was synced is there at every later moment,
// whatever the drive lost of what it was not told to flush; and the recorder must
// have the same opinion, or it would see violations where there are none, and
// none if there are.
func TestWhatWasSyncedIsInEveryLaterState(t *testing.T) {
	for _, kind := range []powercut.Kind{powercut.Ext4, powercut.XFS} {
		t.Run(string(kind), func(t *testing.T) {
			err := unavailable
			if err == nil {
				err = powercut.Available(kind)
			}
			if missing, ok := errors.AsType[*powercut.MissingError](err); ok {
				err = host.Install(t.Context(), missing.Packages...)
			}
			if err != nil {
				if os.Getenv("CI") == "true" {
					t.Fatalf("recorded disks are required (CI=true): %v", err)
				}
				t.Skipf("SKIPPED, nothing was tested: %v", err)
			}
			at := func(name string) string { return filepath.Join(scratch, string(kind)+"-"+name) }
			must(t, powercut.Format(at("base"), kind))
			r, err := Record(at("base"), at("fuse"))
			must(t, err)
			d, err := powercut.Mount(r.Image(), kind, at("mounted"))
			must(t, err)
			content := bytes.Repeat([]byte("0123456789"), 5000)
			f, err := os.Create(filepath.Join(d.Dir, "file"))
			must(t, err)
			_, err = f.Write(content)
			must(t, err)
			before := r.Now()
			must(t, f.Sync())
			synced := r.Now()
			must(t, f.Close())
			must(t, os.WriteFile(filepath.Join(d.Dir, "unsynced"), content, 0o644))
			must(t, d.Cut())
			must(t, d.Unmount())
			log, err := r.Close()
			must(t, err)

			if got := look(t, kind, at, log, before, nil); got != nil {
				t.Errorf("before the sync the file holds %d bytes; want none", len(got))
			}
			seed := rand.Uint64()
			t.Logf("%d events, seed %d", len(log), seed)
			random := rand.New(rand.NewPCG(seed, 0))
			for n := synced; n <= len(log); n++ {
				if got := look(t, kind, at, log, n, nil); !bytes.Equal(got, content) {
					t.Errorf("at %d of %d, the file holds %d bytes; want %d", n, len(log), len(got), len(content))
				}
				if got := look(t, kind, at, log, n, random); !bytes.Equal(got, content) {
					t.Errorf("at %d of %d with losses, the file holds %d bytes; want %d", n, len(log), len(got), len(content))
				}
			}
		})
	}
}

// look returns what the file holds at a position of the log: all of it kept, or,
// with random, a part lost of what was not flushed.
func look(t *testing.T, kind powercut.Kind, at func(string) string, log Log, n int, random *rand.Rand) []byte {
	t.Helper()
	must(t, powercut.Copy(at("base"), at("state")))
	f, err := os.OpenFile(at("state"), os.O_RDWR, 0)
	must(t, err)
	keep := func() bool { return random == nil || random.IntN(2) == 0 }
	must(t, log.Apply(f, 0, log.Safe(n)))
	must(t, log.ApplySome(f, log.Safe(n), n, keep))
	must(t, f.Close())
	d, err := powercut.Mount(at("state"), kind, at("look"))
	must(t, err)
	defer func() { must(t, d.Unmount()) }()
	data, err := os.ReadFile(filepath.Join(d.Dir, "file"))
	if err != nil || len(data) == 0 {
		return nil
	}
	return data
}
