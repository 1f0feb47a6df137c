package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Each case is what stands at the path, and what is said of it. None is waited for
// and none is read to its end: the tests would not come to theirs.
var cases = map[string]struct {
	put  func(t *testing.T, path string)
	care Care
	want string // part of the error; empty: it is read
}{
	"a file":                                {put: file(0o644)},
	"a file of nothing":                     {put: func(t *testing.T, path string) { must(t, os.WriteFile(path, nil, 0o644)) }},
	"a file as long as it may be":           {put: long(limit)},
	"a file longer than it may be":          {put: long(limit + 1), want: "is larger than 100 bytes"},
	"a file without an end":                 {put: func(t *testing.T, path string) { file(0o644)(t, path); must(t, os.Truncate(path, 1<<40)) }, want: "is larger than 100 bytes"},
	"a folder":                              {put: func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o755)) }, want: "is not a regular file"},
	"a pipe":                                {put: func(t *testing.T, path string) { must(t, unix.Mkfifo(path, 0o644)) }, want: "is not a regular file"},
	"a link to a pipe":                      {put: func(t *testing.T, path string) { must(t, unix.Mkfifo(path+"pipe", 0o644)); link(path+"pipe")(t, path) }, want: "is not a regular file"},
	"a link to a device without an end":     {put: link("/dev/zero"), want: "is not a regular file"},
	"a link to a file":                      {put: func(t *testing.T, path string) { file(0o644)(t, path+"file"); link(path+"file")(t, path) }},
	"a link to a file where none may be":    {put: func(t *testing.T, path string) { file(0o644)(t, path+"file"); link(path+"file")(t, path) }, care: NoLink, want: "is a symbolic link"},
	"a dangling link where none may be":     {put: link("nowhere"), care: NoLink, want: "is a symbolic link"},
	"a file of ours":                        {put: file(0o644), care: NoLink | Sealed},
	"a file that its group may write":       {put: file(0o664), care: NoLink | Sealed, want: "(mode -rw-rw-r--): check it, then chmod go-w"},
	"a file that everybody may write":       {put: file(0o646), care: NoLink | Sealed, want: "(mode -rw-r--rw-): check it, then chmod go-w"},
	"the same where that does no harm":      {put: file(0o646), care: NoLink},
	"a file of another user":                {put: theirs, care: NoLink | Sealed, want: "belongs to user 1234, not to root: somebody else could have written it; check it, then chown it to root"},
	"the same where the owner is no matter": {put: theirs},
}

const limit = 100

func file(mode fs.FileMode) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		must(t, os.WriteFile(path, []byte("content"), 0o600))
		must(t, os.Chmod(path, mode))
	}
}

func long(size int) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		must(t, os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o644))
	}
}

func link(to string) func(*testing.T, string) {
	return func(t *testing.T, path string) { must(t, os.Symlink(to, path)) }
}

func theirs(t *testing.T, path string) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to others")
	}
	file(0o644)(t, path)
	must(t, os.Chown(path, 1234, 1234))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOnlyTheFileThatIsMeantIsRead(t *testing.T) {
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			tc.put(t, path)
			data, err := Read(path, limit, tc.care)
			if tc.want == "" {
				if want, _ := os.ReadFile(path); err != nil || string(data) != string(want) {
					t.Errorf("Read: %q, %v; want %q", data, err, want)
				}
				return
			}
			unsuitable, ok := errors.AsType[*UnsuitableError](err)
			if !ok || unsuitable.Path != path || !strings.Contains(unsuitable.What, tc.want) || !strings.HasPrefix(err.Error(), path+" ") {
				t.Errorf("Read: %q, %v; want an *UnsuitableError of %q", data, err, tc.want)
			}
		})
	}
}

func TestWhatIsNotThereIsNoOddError(t *testing.T) {
	for name, care := range map[string]Care{"": 0, "missing/file": NoLink} {
		_, _, err := Open(filepath.Join(t.TempDir(), name, "file"), care)
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v; want fs.ErrNotExist", err)
		}
	}
}

// TestADeviceIsNotOpened: to open a watchdog starts it, to open a tape moves it.
// /dev/tty fails to open where there is no terminal, with another error than ours.
func TestADeviceIsNotOpened(t *testing.T) {
	_, _, err := Open("/dev/tty", 0)
	if _, ok := errors.AsType[*UnsuitableError](err); !ok {
		t.Errorf("%v; want an *UnsuitableError", err)
	}
}
