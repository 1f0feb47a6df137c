package trust

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOnlyWhatNobodyElseCanExchangeIsTrusted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to others")
	}
	for _, tc := range []struct {
		name    string
		change  func(t *testing.T, dir string)
		program string // below dir; bin/teleport when empty
		want    string // part of the error; empty: trusted
	}{
		{name: "root's file in root's folder"},
		{
			name:   "a file of another user",
			change: func(t *testing.T, dir string) { chown(t, dir+"/bin/teleport", 1234) },
			want:   "bin/teleport belongs to another user",
		},
		{
			name:   "a file that everybody may write",
			change: func(t *testing.T, dir string) { chmod(t, dir+"/bin/teleport", 0o757) },
			want:   "bin/teleport can be written by everybody",
		},
		{
			name:   "a file that root's own group may write",
			change: func(t *testing.T, dir string) { chmod(t, dir+"/bin/teleport", 0o775) },
		},
		{
			name: "a folder that a group may write",
			change: func(t *testing.T, dir string) {
				if err := os.Chown(dir+"/bin", 0, 1234); err != nil {
					t.Fatal(err)
				}
				chmod(t, dir+"/bin", 0o775)
			},
			want: "bin can be written by its group",
		},
		{
			name:   "a folder of another user, further up",
			change: func(t *testing.T, dir string) { chown(t, dir, 1234) },
			want:   "belongs to another user",
		},
		{
			name:   "a folder that everybody may write, further up",
			change: func(t *testing.T, dir string) { chmod(t, dir, 0o777) },
			want:   "can be written by everybody",
		},
		{
			name:   "a sticky folder that everybody may write",
			change: func(t *testing.T, dir string) { chmod(t, dir, 0o777|os.ModeSticky) },
		},
		{
			name:    "a link of root's",
			change:  func(t *testing.T, dir string) { symlink(t, "bin/teleport", dir+"/link") },
			program: "link",
		},
		{
			name: "a link of another user's",
			change: func(t *testing.T, dir string) {
				symlink(t, "bin/teleport", dir+"/link")
				if err := os.Lchown(dir+"/link", 1234, 1234); err != nil {
					t.Fatal(err)
				}
			},
			program: "link",
			want:    "link belongs to another user",
		},
		{
			name: "a link that leads through another user's folder and out again",
			change: func(t *testing.T, dir string) {
				if err := os.Mkdir(dir+"/other", 0o755); err != nil {
					t.Fatal(err)
				}
				symlink(t, "../bin", dir+"/other/way")
				chown(t, dir+"/other", 1234)
				symlink(t, "other/way", dir+"/link")
			},
			program: "link/teleport",
			want:    "other belongs to another user",
		},
		{
			name:    "links in a circle",
			change:  func(t *testing.T, dir string) { symlink(t, "link", dir+"/link") },
			program: "link",
			want:    "too many links",
		},
		{name: "a folder", program: "bin", want: "not a regular file"},
		{name: "nothing", program: "bin/tsh", want: "no such file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "bin", "teleport"), []byte("x"), 0o755); err != nil {
				t.Fatal(err)
			}
			if tc.change != nil {
				tc.change(t, dir)
			}
			program := "bin/teleport"
			if tc.program != "" {
				program = tc.program
			}
			err := Executable(filepath.Join(dir, program))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v; want %q", err, tc.want)
			}
		})
	}
	if err := Executable("bin/teleport"); err == nil {
		t.Error("a relative path is trusted")
	}
}

func chown(t *testing.T, path string, uid int) {
	t.Helper()
	if err := os.Chown(path, uid, 0); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	chmod(t, path, mode)
}

func symlink(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyWhereNobodyElseCanMakeNamesIsAnythingKept(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to others")
	}
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, dir string)
		path   string // below dir
		want   string // part of the error; empty: trusted
	}{
		{name: "root's folder"},
		{name: "root's file", path: "file"},
		{name: "what is not there yet, in root's folder", path: "a/b/c"},
		{name: "another user's folder", change: func(t *testing.T, dir string) { chown(t, dir, 1234) }, want: "belongs to another user"},
		{name: "what is not there yet, in another user's folder", change: func(t *testing.T, dir string) { chown(t, dir, 1234) }, path: "a/b", want: "belongs to another user"},
		{name: "a folder that everybody may write", change: func(t *testing.T, dir string) { chmod(t, dir, 0o777) }, want: "written by everybody"},
		{name: "a sticky folder that everybody may write", change: func(t *testing.T, dir string) { chmod(t, dir, 0o777|os.ModeSticky) }, want: "written by everybody"},
		{name: "what is not there yet, right below a sticky folder", change: func(t *testing.T, dir string) { chmod(t, dir, 0o777|os.ModeSticky) }, path: "a", want: "written by everybody"},
		{name: "what is not there yet, deep below a sticky folder", change: func(t *testing.T, dir string) { chmod(t, dir, 0o777|os.ModeSticky) }, path: "a/b/c", want: "written by everybody"},
		{
			name: "root's link to what is not there yet in a sticky folder",
			change: func(t *testing.T, dir string) {
				mkdir(t, dir+"/sticky", 0o777|os.ModeSticky)
				symlink(t, "sticky/a", dir+"/link")
			},
			path: "link", want: "sticky can be written by everybody",
		},
		{
			name: "what is not there yet, below a sticky folder of a group",
			change: func(t *testing.T, dir string) {
				mkdir(t, dir+"/sticky", 0o775|os.ModeSticky)
				if err := os.Chown(dir+"/sticky", 0, 1234); err != nil {
					t.Fatal(err)
				}
			},
			path: "sticky/a", want: "sticky can be written by its group",
		},
		{name: "what is not there yet, in root's folder below a sticky one", change: func(t *testing.T, dir string) {
			mkdir(t, dir+"/own", 0o755)
			chmod(t, dir, 0o777|os.ModeSticky)
		}, path: "own/a"},
		{name: "a file in a sticky folder", change: func(t *testing.T, dir string) { chmod(t, dir, 0o777|os.ModeSticky) }, path: "file"},
		{name: "another user's file", change: func(t *testing.T, dir string) { chown(t, dir+"/file", 1234) }, path: "file", want: "belongs to another user"},
		{
			name: "another user's link to root's folder",
			change: func(t *testing.T, dir string) {
				symlink(t, "/etc", dir+"/link")
				if err := os.Lchown(dir+"/link", 1234, 1234); err != nil {
					t.Fatal(err)
				}
			},
			path: "link", want: "link belongs to another user",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			chmod(t, dir, 0o755)
			if err := os.WriteFile(dir+"/file", nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if tc.change != nil {
				tc.change(t, dir)
			}
			err := Path(filepath.Join(dir, tc.path))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v; want %q", err, tc.want)
			}
		})
	}
}
