package versions

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"teleport-update/internal/trust"
)

// maxManifest is more than DefaultLimits().Entries of the longest names need; a longer file is not
// ours.
const maxManifest = 2 << 20

// sum is one line of a manifest.
type sum struct {
	name   string // relative to the tree, with slashes
	digest string
}

func sumOf(name string, data []byte) sum {
	digest := sha256.Sum256(data)
	return sum{name: name, digest: hex.EncodeToString(digest[:])}
}

// formatManifest writes the form that "sha256sum -c" reads when it runs in the tree.
func formatManifest(sums []sum) []byte {
	sums = slices.SortedFunc(slices.Values(sums), func(a, b sum) int { return strings.Compare(a.name, b.name) })
	var out bytes.Buffer
	for _, s := range sums {
		fmt.Fprintf(&out, "%s  %s\n", s.digest, s.name)
	}
	return out.Bytes()
}

// parseManifest reads only manifests of ours: clean relative names, each once.
func parseManifest(r io.Reader) ([]sum, error) {
	var sums []sum
	seen := make(map[string]bool)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		digest, name, ok := strings.Cut(lines.Text(), "  ")
		clean := fs.ValidPath(name) && name != "."
		if !ok || !IsDigest(digest) || !clean || seen[name] {
			return nil, fmt.Errorf("line %d was not written by teleport-update", len(sums)+1)
		}
		seen[name] = true
		sums = append(sums, sum{name: name, digest: digest})
	}
	return sums, lines.Err()
}

const openToOthers = "can be written by another user"

// DamagedError lists the differences of a tree that was whole when it was published.
type DamagedError struct {
	Dir   string   // of the version
	Files []string // "bin/tsh: content changed", sorted
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("version folder %s is damaged: %s", e.Dir, strings.Join(e.Files, "; "))
}

// Verify reads the whole tree and compares it with its manifest: every file exists, with its
// content, mode and owner, and bin and etc have no other. If it differs, the error is a
// *DamagedError. Any other error means that the tree could not be checked.
func (t Tree) Verify(ctx context.Context) error {
	return t.compare(ctx, "verify", (*verifier).files)
}

// compare returns a *DamagedError for the differences that files and a search for unlisted files
// find.
func (t Tree) compare(ctx context.Context, doing string, files func(*verifier, []sum)) error {
	damage, err := t.differences(ctx, files)
	if err != nil {
		return fmt.Errorf("%s version %s: %w", doing, t.Release, err)
	}
	if len(damage) == 0 {
		return nil
	}
	slices.Sort(damage)
	return &DamagedError{Dir: t.Dir, Files: damage}
}

func (t Tree) differences(ctx context.Context, files func(*verifier, []sum)) ([]string, error) {
	record, err := os.OpenRoot(t.Dir)
	if err != nil {
		return nil, err
	}
	defer record.Close()
	sums, damage, err := readManifest(record)
	if err != nil || damage != "" {
		return []string{damage}, err
	}
	root, err := os.OpenRoot(t.ProgramsDir())
	if t.Programs != "" && errors.Is(err, fs.ErrNotExist) {
		return []string{t.Programs + ": is missing"}, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	v := &verifier{ctx: ctx, record: record, programs: root, listed: make(map[string]bool)}
	files(v, sums)
	v.strangers()
	return v.damage, errors.Join(append(v.errs, ctx.Err())...)
}

// readManifest returns the manifest's list, or says in a few words why it is not reliable.
func readManifest(root *os.Root) (sums []sum, damage string, err error) {
	info, err := root.Lstat(manifestName)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxManifest {
		return nil, manifestName + ": was changed after it was installed", nil
	}
	f, err := root.Open(manifestName)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	sums, err = parseManifest(io.LimitReader(f, maxManifest))
	if err != nil {
		return nil, manifestName + ": " + err.Error(), nil
	}
	for _, name := range []string{binName + "/" + agentName, unitName, editionName} {
		if !slices.ContainsFunc(sums, func(s sum) bool { return s.name == name }) {
			return nil, manifestName + ": does not list " + name, nil
		}
	}
	return sums, "", nil
}

type verifier struct {
	ctx              context.Context
	record, programs *os.Root // two folders, or the same twice
	listed           map[string]bool
	changed          []sum // files that changed after the manifest was written, as presence found them

	mu     sync.Mutex
	damage []string
	errs   []error
}

// root returns the folder that has a file of the tree.
func (v *verifier) root(name string) *os.Root {
	if top, _, _ := strings.Cut(name, "/"); top == binName || top == etcName {
		return v.programs
	}
	return v.record
}

func (v *verifier) found(name, what string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.damage = append(v.damage, name+": "+what)
}

// files checks all listed files, two at a time: one core hashes slower than a
// good disk reads.
func (v *verifier) files(sums []sum) {
	work := make(chan sum)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			buf := make([]byte, 256<<10)
			for s := range work {
				if what := v.file(s, buf); what != "" {
					v.found(s.name, what)
				}
			}
		})
	}
	for _, s := range sums {
		v.listed[s.name] = true
		work <- s
	}
	close(work)
	workers.Wait()
}

func (v *verifier) file(s sum, buf []byte) string {
	if v.ctx.Err() != nil {
		return ""
	}
	info, err := v.root(s.name).Lstat(s.name) // a Root follows links, also the last one
	if errors.Is(err, fs.ErrNotExist) {
		return "is missing"
	}
	if err != nil {
		return "cannot be read"
	}
	if !info.Mode().IsRegular() {
		return "is not a regular file"
	}
	want := fs.FileMode(0o644)
	if path.Dir(s.name) == binName {
		want = 0o755
	}
	if info.Mode() != want {
		return fmt.Sprintf("has mode %v, not %v", info.Mode(), want)
	}
	if !trust.Ours(info) {
		return "belongs to another user"
	}
	f, err := v.root(s.name).Open(s.name)
	if err != nil {
		return "cannot be read"
	}
	defer f.Close()
	hash := sha256.New()
	for {
		n, err := f.Read(buf)
		hash.Write(buf[:n])
		if v.ctx.Err() != nil {
			return ""
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return "cannot be read" // a bad disk is damage, too
		}
	}
	if hex.EncodeToString(hash.Sum(nil)) != s.digest {
		return "content changed"
	}
	return ""
}

// strangers finds files that would be linked or run and are not listed, and
// folders in which another user could exchange them.
func (v *verifier) strangers() {
	for _, name := range []string{".", manifestName} {
		if info, err := v.record.Lstat(name); err != nil || !trust.Sealed(info) {
			v.found(name, openToOthers)
		}
	}
	if info, err := v.programs.Lstat("."); v.programs.Name() != v.record.Name() && (err != nil || !trust.Sealed(info)) {
		v.found(v.programs.Name(), openToOthers)
	}
	for _, dir := range []string{binName, etcName} {
		if info, err := v.programs.Lstat(dir); err == nil && !info.IsDir() {
			v.found(dir, "is not a folder")
			continue
		}
		if err := fs.WalkDir(v.programs.FS(), dir, v.stranger); err != nil && !errors.Is(err, fs.ErrNotExist) {
			v.errs = append(v.errs, err)
		}
	}
}

// stranger is a fs.WalkDirFunc, for a folder whose files would be linked or run.
func (v *verifier) stranger(name string, d fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	if !d.IsDir() {
		if !v.listed[name] {
			v.found(name, "was not part of the release")
		}
		return nil
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	if !trust.Sealed(info) {
		v.found(name, openToOthers)
	}
	return nil
}
