package repository

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/integration/trace"
)

// publication is one that can be cut off: version 1.1.0 comes to a repository that
// has 0.9.0 and 1.0.0, of which 0.9.0 goes.
type publication struct {
	t                  testing.TB
	key                key
	before, after      string // folders
	argv               []string
	viewBefore, viewAt View
}

// published is when it happens.
var published = begun.Add(2 * time.Hour)

func newPublication(t testing.TB) *publication {
	t.Helper()
	dir := t.TempDir()
	p := &publication{t: t, key: keyNumber(t, 0), before: filepath.Join(dir, "before"), after: filepath.Join(dir, "after")}
	for i, v := range []string{"0.9.0", "1.0.0"} {
		runAt(t, begun.Add(time.Duration(i)*time.Hour), "--key", p.key.secret, "--packages", standIns(t, v), "--to", p.before, "--url", "https://packages.example.com")
	}
	path, err := program()
	check(t, err)
	p.argv = []string{path, "--key", p.key.secret, "--packages", standIns(t, "1.1.0"), "--keep", "2", "--url", "https://packages.example.com", "--to"}
	p.copyTo(p.after)
	runAt(t, published, append(p.argv[1:], p.after)...)
	p.viewBefore, p.viewAt = p.look(p.before), p.look(p.after)
	return p
}

func (p *publication) look(dir string) View {
	p.t.Helper()
	v, err := Look(dir, p.key.keyring)
	check(p.t, err)
	return v
}

// copyTo keeps times, which say how long a file has not been named.
func (p *publication) copyTo(dir string) {
	p.t.Helper()
	if out, err := exec.Command("cp", "-a", p.before, dir).CombinedOutput(); err != nil {
		p.t.Fatalf("%v\n%s", err, out)
	}
}

// changes is where a call of a publication may change what is published: what the
// programs do that it runs, in a folder of their own, may come in any order.
type changes struct {
	dir string
	n   int
}

// count numbers the call, from 1 on, if it is one of them.
func (c *changes) count(call *trace.Call) bool {
	below, inside := strings.CutPrefix(call.Path, c.dir)
	if call.Exit || !inside || strings.HasPrefix(below, "/.stage") {
		return false
	}
	c.n++
	call.Index = c.n
	return true
}

// calls lists the calls of a whole publication by which it changes something.
func (p *publication) calls() (all []trace.Call) {
	p.t.Helper()
	dir := filepath.Join(p.t.TempDir(), "repository")
	p.copyTo(dir)
	counted := changes{dir: dir}
	r, err := trace.Run(p.t.Context(), p.command(dir), func(c trace.Call) trace.Action {
		if counted.count(&c) {
			all = append(all, c)
		}
		return trace.GoOn()
	})
	check(p.t, err)
	if r.ExitCode != 0 {
		p.t.Fatalf("mkrepository ends with %d: %s", r.ExitCode, r.Stderr)
	}
	return all
}

func (p *publication) command(dir string) trace.Command {
	return trace.Command{Argv: append(slices.Clone(p.argv), dir), Env: environment(published)}
}

// cutAt publishes into a new folder and ends before the n-th call that changes
// something. It returns the call.
func (p *publication) cutAt(dir string, n int) (at trace.Call) {
	p.t.Helper()
	p.copyTo(dir)
	counted := changes{dir: dir}
	_, err := trace.Run(p.t.Context(), p.command(dir), func(c trace.Call) trace.Action {
		if counted.count(&c) && c.Index == n {
			at = c
			return trace.Kill()
		}
		return trace.GoOn()
	})
	check(p.t, err)
	if at.Index != n {
		p.t.Fatalf("there is no call %d", n)
	}
	return at
}

// shows reports whether what a client sees may be another after a call than
// before: names that begin with a dot are never served.
func shows(c trace.Call) bool {
	switch c.Name {
	case "rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat":
		return !strings.Contains(cmp.Or(c.To, c.Path), "/.")
	}
	return false
}

// visible is a digest of all that a server would give away.
func visible(t testing.TB, dir string) string {
	t.Helper()
	sum := sha256.New()
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && path != dir && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s %x\n", strings.TrimPrefix(path, dir), sha256.Sum256(data))
		return err
	}))
	return fmt.Sprintf("%x", sum.Sum(nil))
}
