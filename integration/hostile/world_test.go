//go:build hosts

package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// world is one host's folders and the server that it asks. A world has version
// 1.0.0 enabled and its server offers 1.1.0, unless its case says otherwise.
type world struct {
	t   testing.TB
	dir string
	*origin

	caFile    string   // for the configuration
	templates []string // for the configuration; the server's own where empty
	proxy     string   // for the configuration; the server's own where empty
	env       []string // of the updater, beside the usual
	shell     string   // runs before the updater in its process; "" for nothing
	stdio     string   // shell redirections
}

func (w *world) data(names ...string) string {
	return filepath.Join(append([]string{w.dir, "data"}, names...)...)
}
func (w *world) store(names ...string) string {
	return w.data(append([]string{"versions"}, names...)...)
}
func (w *world) active(names ...string) string {
	return w.store(append([]string{"1.0.0"}, names...)...)
}
func (w *world) config() string      { return w.store("updates.yaml") }
func (w *world) links() string       { return filepath.Join(w.dir, "bin") }
func (w *world) units() string       { return filepath.Join(w.dir, "units") }
func (w *world) agentConfig() string { return filepath.Join(w.dir, "teleport.yaml") }
func (w *world) database() string    { return w.data("proc", "sqlite.db") }

// outside is a folder that hostile input points to: nobody has any business in it.
func (w *world) outside(names ...string) string {
	return filepath.Join(append([]string{w.dir, "outside"}, names...)...)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) write(path, text string, mode fs.FileMode) {
	w.t.Helper()
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	w.must(os.RemoveAll(path))
	w.must(os.WriteFile(path, []byte(text), mode))
	w.must(os.Chmod(path, mode))
}

func (w *world) read(path string) string {
	w.t.Helper()
	data, err := os.ReadFile(path)
	w.must(err)
	return string(data)
}

// replace changes a file as an editor does.
func (w *world) replace(path, old, new string) {
	w.t.Helper()
	text := w.read(path)
	if !strings.Contains(text, old) {
		w.t.Fatalf("there is no %q in %s:\n%s", old, path, text)
	}
	info, err := os.Stat(path)
	w.must(err)
	w.write(path, strings.ReplaceAll(text, old, new), info.Mode().Perm())
}

func (w *world) cut(path string, size int) {
	w.t.Helper()
	w.must(os.Truncate(path, int64(size)))
}

// sparse makes a file of that size that takes no room.
func (w *world) sparse(path string, size int64, mode fs.FileMode) {
	w.t.Helper()
	w.write(path, "", mode)
	w.must(os.Truncate(path, size))
}

func (w *world) link(target, path string) {
	w.t.Helper()
	w.must(os.RemoveAll(path))
	w.must(os.Symlink(target, path))
}

func (w *world) hardlink(target, path string) {
	w.t.Helper()
	w.must(os.RemoveAll(path))
	w.must(os.Link(target, path))
}

func (w *world) fifo(path string) {
	w.t.Helper()
	w.must(os.RemoveAll(path))
	w.must(syscall.Mkfifo(path, 0o600))
}

// zero puts the device there that never ends.
func (w *world) zero(path string) {
	w.t.Helper()
	w.must(os.RemoveAll(path))
	w.must(syscall.Mknod(path, syscall.S_IFCHR|0o600, 1<<8|5))
}

func (w *world) folder(path string) {
	w.t.Helper()
	w.must(os.RemoveAll(path))
	w.must(os.Mkdir(path, 0o755))
}

func (w *world) chown(path string, uid int) {
	w.t.Helper()
	w.must(os.Lchown(path, uid, uid))
}

func (w *world) chmod(path string, mode fs.FileMode) {
	w.t.Helper()
	w.must(os.Chmod(path, mode))
}

// settings writes updates.yaml as the updater does.
func (w *world) settings() {
	w.t.Helper()
	var templates strings.Builder
	for _, text := range w.templates {
		fmt.Fprintf(&templates, "    - %q\n", text)
	}
	w.write(w.config(), fmt.Sprintf(`version: v1
kind: agent_versions
spec:
  proxy: %s
  enabled: true
  pinned: false
  active_version: 1.0.0
  url_templates:
%s  ca_file: %s
status:
  active_edition: oss
`, w.proxy, templates.String(), w.caFile), 0o600)
}

const uuid = "6e8bd4ea-3f0a-4c4c-9c0b-2a5f6d7e8f90"

const masterName = "w0000"

var worlds atomic.Int64

// newWorld copies the master: the paths in it are of equal length.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: filepath.Join(fixture.dir, fmt.Sprintf("w%04d", worlds.Add(1))), origin: newOrigin(), caFile: filepath.Join(fixture.dir, "ca.pem")}
	t.Cleanup(func() { os.RemoveAll(w.dir) })
	if err := copyWorld(filepath.Join(fixture.dir, masterName), w.dir); err != nil {
		t.Fatal(err)
	}
	return w
}

func copyWorld(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := to + strings.TrimPrefix(path, from)
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		switch {
		case d.IsDir():
			err = os.Mkdir(target, 0o700)
		case d.Type()&fs.ModeSymlink != 0:
			var leads string
			if leads, err = os.Readlink(path); err == nil {
				err = os.Symlink(strings.Replace(leads, from, to, 1), target)
			}
			return err
		case info.Size() > 1<<20: // the updater's own copy; it is only ever replaced
			return os.Link(path, target)
		default:
			var data []byte
			if data, err = os.ReadFile(path); err == nil {
				err = os.WriteFile(target, bytes.ReplaceAll(data, []byte(from), []byte(to)), 0o600)
			}
		}
		if err == nil {
			err = os.Lchown(target, int(st.Uid), int(st.Gid))
		}
		if err == nil {
			err = os.Chmod(target, info.Mode())
		}
		return err
	})
}

// makeMaster makes the world that all others are copies of, with the updater
// itself.
func makeMaster() error {
	w := &world{dir: filepath.Join(fixture.dir, masterName), origin: newOrigin(), caFile: filepath.Join(fixture.dir, "ca.pem")}
	w.tarball = sound("1.0.0")
	w.answer = answerFor("1.0.0")
	if err := os.MkdirAll(w.data("proc"), 0o755); err != nil {
		return err
	}
	if err := os.MkdirAll(w.outside(), 0o755); err != nil {
		return err
	}
	for _, f := range []struct{ path, text string }{
		{w.data("host_uuid"), uuid + "\n"},
		{w.outside("secret"), "a file of somebody else's\n"},
		{w.outside("program"), script("1.0.0")},
		{w.agentConfig(), "version: v3\nteleport:\n  nodename: host\n  auth_token: planted-agent-token\n"},
	} {
		if err := os.WriteFile(f.path, []byte(f.text), 0o600); err != nil {
			return err
		}
	}
	if err := errors.Join(makeDatabase(w.database()), os.Chmod(w.database(), 0o600)); err != nil {
		return err
	}
	w.serve()
	defer w.stop()
	r := w.run("enable", "--proxy", w.proxy, "--template", w.templates[0], "--ca-file", w.caFile)
	if r.code != 0 {
		return fmt.Errorf("enable ended with %d:\n%s", r.code, r.stderr)
	}
	return nil
}

func makeDatabase(path string) error {
	c, err := sqlite3.Open(path)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Exec("CREATE TABLE kv(key TEXT PRIMARY KEY, value BLOB); INSERT INTO kv VALUES('host', 'key'), ('token', 'planted-row')")
}
