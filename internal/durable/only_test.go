package durable

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The updater's own packages: all that runs on a host, but for this one.
var updater = []string{"backup", "cmd/teleport-update", "find", "health", "installer", "internal", "ospackage", "systemd", "versions"}

// What changes files without this package, and why it may. Each is one function
// of one file, with the calls that it makes. SQLite's own writes to databases are
// not among them: package backup says how it makes those durable.
var exceptions = map[string]string{
	"backup/aside.go setAside: os.OpenFile":                             "a copy for a person to look at, begun again until it is whole; synced, and its folder",
	"backup/copy.go copySidecar: os.OpenFile":                           "beside a copy that has a temporary name and is recovered from it before its sync",
	"backup/copy.go copySidecar: os.Remove":                             "the same, where there was nothing to copy",
	"backup/lock.go lock: os.OpenFile":                                  "to lock the agent's database; nothing is written",
	"backup/place.go replace: os.Remove":                                "a temporary file of ours after an error",
	"installer/state/ticks.go inRun: os.MkdirAll":                       "in memory: what is there is of this boot",
	"installer/state/ticks.go replace: os.Remove":                       "the same, and a cache: losing it costs nothing, and ticks should not cost a sync",
	"installer/state/ticks.go replace: os.Rename":                       "the same",
	"installer/state/ticks.go replace: os.OpenFile":                     "the same",
	"cmd/teleport-update/report.go supportCommand: os.OpenFile":         "a file for a ticket, where a person wants it",
	"cmd/teleport-update/report.go supportCommand: os.Remove":           "the same after an error",
	"installer/state/textfile.go RemoveTextfile: os.Remove":             "metrics, which the next run would write again",
	"installer/state/lock.go writeHolder: os.OpenFile":                  "who holds the lock, a courtesy",
	"internal/console/consoletest/consoletest.go Terminal: os.OpenFile": "a terminal that a test opens",
	"ospackage/fence.go hide: os.Mkdir":                                 "in memory, behind a mount that nobody else sees",
	"ospackage/fence.go show: os.Create":                                "the same",
	"ospackage/fence.go show: os.Mkdir":                                 "the same",
	"ospackage/fence.go show: os.Symlink":                               "the same",
	"systemd/try.go removeCanary: os.Remove":                            "in memory: a unit that systemd tries once",
	"systemd/try.go removeCanary: os.RemoveAll":                         "the same",
	"systemd/try.go writeCanary: os.Mkdir":                              "the same",
	"systemd/try.go writeCanary: os.OpenFile":                           "its pipe",
	"systemd/try.go writeCanary: os.Symlink":                            "in memory: a unit that systemd tries once",
	"systemd/try.go writeCanary: os.WriteFile":                          "the same",
	"versions/archive/read.go entry: .Create":                           "of a sink, see versions/writer.go",
	"versions/fetch/keep.go drop: os.Remove":                            "a kept download, which is only used if the digest of the whole proves right",
	"versions/fetch/keep.go openKeeper: os.OpenFile":                    "the same",
	"versions/origin.go copy: .Create":                                  "files of a tree in its folder, see versions/writer.go",
	"versions/fetch/save.go save: os.OpenFile":                          "a tarball at a mirror, under a temporary name; synced and renamed by package durable",
	"versions/fetch/save.go save: os.Remove":                            "the same after an error",
	"versions/staging.go stage: os.MkdirTemp":                           "the folders that a release is unpacked into, before it has a name that counts",
	"versions/writer.go Create: .OpenFile":                              "files of a release in its folder; each is synced before the release has a name that counts",
	"versions/writer.go folder: .Mkdir":                                 "the same for its folders",
}

// Calls of package os and of the kernel that change names or contents.
var changes = map[string]bool{
	"Create": true, "CreateTemp": true, "Link": true, "Linkat": true, "Mkdir": true, "MkdirAll": true, "MkdirTemp": true, "Mkdirat": true,
	"Mknod": true, "Remove": true, "RemoveAll": true, "Rename": true, "Renameat": true, "Renameat2": true, "Rmdir": true, "Symlink": true,
	"Symlinkat": true, "Truncate": true, "Unlink": true, "Unlinkat": true, "WriteFile": true, "CopyFS": true,
}

// TestNothingElseChangesFiles finds every call in the updater's code that
// changes files without this package.
func TestNothingElseChangesFiles(t *testing.T) {
	module := filepath.Join("..", "..")
	found := make(map[string]bool)
	for _, dir := range updater {
		err := filepath.WalkDir(filepath.Join(module, dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, _ := filepath.Rel(module, path)
			if e.IsDir() {
				// The find server is another program, and golden files are tests'.
				if name == "internal/durable" || name == "internal/golden" || strings.HasPrefix(name, "find/") {
					return fs.SkipDir
				}
				return nil
			}
			if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return nil
			}
			return changesIn(path, name, found)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(found)) {
		if exceptions[what] == "" {
			t.Errorf("%s changes files without package durable", what)
		}
	}
	for what := range exceptions {
		if !found[what] {
			t.Errorf("%s is an exception that is not needed any more", what)
		}
	}
}

func changesIn(path, name string, found map[string]bool) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if what := change(call); what != "" {
				found[fmt.Sprintf("%s %s: %s", name, f.Name.Name, what)] = true
			}
			return true
		})
	}
	return nil
}

// change names the call if it changes files, in any of the packages that can,
// or as a method of an os.Root.
func change(call *ast.CallExpr) string {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	pkg := ""
	if x, ok := s.X.(*ast.Ident); ok {
		pkg = x.Name
	}
	method := s.Sel.Name
	switch pkg {
	case "os", "unix", "syscall":
		if changes[method] || strings.HasPrefix(method, "Open") && opensForWriting(call) {
			return pkg + "." + method
		}
		return ""
	case "durable":
		return ""
	}
	switch method {
	case "Remove", "Link", "Truncate":
		// Too common among the methods of what is no file. A Root that does only
		// this would be made by an OpenRoot, and that is rare enough to see.
		return ""
	}
	if changes[method] || method == "OpenFile" && opensForWriting(call) {
		return "." + method
	}
	return ""
}

func opensForWriting(call *ast.CallExpr) (yes bool) {
	for _, arg := range call.Args {
		ast.Inspect(arg, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				switch s.Sel.Name {
				case "O_WRONLY", "O_RDWR", "O_CREATE", "O_CREAT", "O_TRUNC", "O_APPEND", "O_TMPFILE":
					yes = true
				}
			}
			return true
		})
	}
	return yes
}
