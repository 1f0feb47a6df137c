package console

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The rooms of both programs.
var rooms = []string{"backup", "cmd", "find", "health", "installer", "internal", "ospackage", "report", "systemd", "versions"}

// Ways to a standard stream or a terminal that are none of this package's, by package and name; "*" is
// every name that begins so. A logger is one if it is the library's own or makes lines by itself.
var ways = map[string][]string{
	"os":      {"Stdout", "Stderr", "NewFile"},
	"fmt":     {"Print*"},
	"log":     {"Print*", "Fatal*", "Panic*", "SetOutput", "New", "Default", "Writer", "Output"},
	"slog":    {"Debug*", "Info*", "Warn*", "Error*", "Log", "LogAttrs", "Default", "SetDefault", "NewTextHandler", "NewJSONHandler"},
	"syscall": {"Write", "Stdout", "Stderr"},
	"unix":    {"Write", "Stdout", "Stderr"},
}

// The ways that there are, each a function of a file, and why it is no way past this package.
var passages = map[string]string{
	"cmd/teleport-update/main.go main: os.Stdout":                "it becomes an Output in run",
	"cmd/teleport-update/main.go main: os.Stderr":                "the same",
	"cmd/teleport-update/main.go main: log.SetOutput":            "to nowhere",
	"cmd/teleport-update/log.go newLogger: slog.NewJSONHandler":  "on an Output",
	"cmd/teleport-find/main.go main: os.Stdout":                  "it becomes an Output in run",
	"cmd/teleport-find/main.go main: os.Stderr":                  "the same, for the log of libraries, too",
	"cmd/teleport-find/main.go main: log.SetOutput":              "to an Output",
	"cmd/teleport-find/edit.go editFile: os.Stdout":              "the editor of a person needs the terminal",
	"cmd/teleport-find/edit.go editFile: os.Stderr":              "the same",
	"cmd/teleport-find/log.go newLog: slog.NewTextHandler":       "on an Output",
	"cmd/teleport-find/log.go newLog: slog.NewJSONHandler":       "on an Output",
	"find/server/parts/limits.go ErrorLog: log.New":              "over the logger that the server was given",
	"installer/transaction/transient.go runTransient: os.Stdout": "the second half of a command inherits it, and makes an Output of it",
	"installer/transaction/transient.go runTransient: os.Stderr": "the same",
	"cmd/teleport-find/log.go newLog: File":                      "to ask whether the journal reads it",
	"cmd/teleport-update/log.go newLogger: File":                 "the same",
	"internal/folder/folder.go Open: os.NewFile":                 "of a folder",
	"internal/successor/successor.go current: os.NewFile":        "a pipe to the updater that runs this one, for one byte",
	"internal/successor/successor.go Run: os.Stdout":             "a newer updater inherits it, and makes an Output of it",
	"internal/successor/successor.go Run: os.Stderr":             "the same",
}

// TestNothingElseWritesToATerminal finds every other way to a standard stream in the sources of both
// programs, and every sequence that drives a terminal.
func TestNothingElseWritesToATerminal(t *testing.T) {
	module := filepath.Join("..", "..")
	found := map[string]bool{}
	for _, room := range rooms {
		err := filepath.WalkDir(filepath.Join(module, room), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name, err := filepath.Rel(module, path)
			if err != nil {
				return err
			}
			for _, room := range []string{"internal/console/", "internal/golden/", "find/store/conformance/"} {
				if strings.HasPrefix(name, room) {
					return nil // the way itself, and what tests use
				}
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, d := range file.Decls {
				for _, way := range waysIn(file, d) {
					found[fmt.Sprintf("%s %s: %s", name, nameOf(d), way)] = true
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, way := range slices.Sorted(maps.Keys(found)) {
		if passages[way] == "" {
			t.Errorf("%s is a way to a terminal past package console", way)
		}
	}
	for way := range passages {
		if !found[way] {
			t.Errorf("%s needs no exception any more", way)
		}
	}
}

func nameOf(d ast.Decl) string {
	if f, ok := d.(*ast.FuncDecl); ok {
		return f.Name.Name
	}
	return "declaration"
}

// waysIn lists the ways that a declaration takes.
func waysIn(file *ast.File, d ast.Decl) (found []string) {
	imports := map[string]string{}
	for _, i := range file.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		name := path[strings.LastIndexByte(path, '/')+1:]
		if i.Name != nil {
			imports[i.Name.Name] = name
			continue
		}
		imports[name] = name
	}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.ContainsFunc(ways[imports[x.Name]], func(way string) bool { return matches(way, n.Sel.Name) }) {
				found = append(found, imports[x.Name]+"."+n.Sel.Name)
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "print" || f.Name == "println") {
				found = append(found, f.Name)
			}
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "File" && len(n.Args) == 0 {
				found = append(found, "File") // of an Output, or a connection's
			}
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			if n.Kind != token.STRING || err != nil {
				return true
			}
			if strings.Contains(text, "\x1b") {
				found = append(found, "a sequence")
			}
			if slices.Contains([]string{"/dev/tty", "/dev/stdout", "/dev/stderr", "/dev/console"}, text) {
				found = append(found, text)
			}
		}
		return true
	})
	return found
}

func matches(way, name string) bool {
	begin, many := strings.CutSuffix(way, "*")
	return name == begin || many && strings.HasPrefix(name, begin)
}

// The test above finds what it looks for.
func TestWaysAreFound(t *testing.T) {
	for text, want := range map[string]string{
		`import "fmt"; func f() { fmt.Println() }`:                             "fmt.Println",
		`import o "os"; func f() { fmt.Fprintln(o.Stderr) }`:                   "os.Stderr",
		`func f() { println() }`:                                               "println",
		`import "log"; func f() { log.Fatalf("") }`:                            "log.Fatalf",
		`import "log/slog"; func f() { slog.Info("") }`:                        "slog.Info",
		`import "log/slog"; func f() { log.Info(""); slog.New(slog.Discard) }`: "",
		`import "golang.org/x/sys/unix"; func f() { unix.Write(1, nil) }`:      "unix.Write",
		`import "os"; func f() { os.OpenFile("/dev/tty", os.O_WRONLY, 0) }`:    "/dev/tty",
		`func f() { o.File().Write(nil); o.File(1) }`:                          "File",
		`const clear = "\x1b[2J"`:                                              "a sequence",
		`import "fmt"; import "os"; func f() { fmt.Fprint(w, "x", os.Stdin) }`: "",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, d := range file.Decls {
			found = append(found, waysIn(file, d)...)
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%s: %q; want %q", text, got, want)
		}
	}
}
