package transaction

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/state"
)

// A removal takes the link, the file or both. "conf" is where the administrator has the file.
func TestAConfigurationIsBackWhateverARemovalTook(t *testing.T) {
	const content = "teleport: {}\n"
	for name, links := range map[string][]string{ // path, target, path, target, …
		"a file":                         nil,
		"a link":                         {"teleport.yaml", "/conf/file"},
		"a link that says where by dots": {"teleport.yaml", "sub/../conf/./file"},
		"three links":                    {"teleport.yaml", "one", "one", "/two", "two", "conf/file"},
		"a link to a folder":             {"teleport.yaml", "folder/file", "folder", "conf"},
		"dots behind a link to a folder": {"teleport.yaml", "folder/../file", "folder", "conf/sub", "conf/sub", ""},
		"a link that leads nowhere":      {"teleport.yaml", "gone/file"},
	} {
		for _, takes := range []string{"nothing", "the links", "the file", "all", "all but a folder"} {
			if takes == "all" && strings.Contains(name, "dots") {
				continue // folders that are only passed through are not kept
			}
			t.Run(name+", "+takes, func(t *testing.T) {
				m := testMachine(t)
				root := filepath.Dir(m.Host.Paths.AgentConfig)
				must(t, os.MkdirAll(filepath.Join(root, "sub"), 0o755))
				writeFile(t, filepath.Join(root, "conf", "file"), content)
				must(t, os.Chmod(filepath.Join(root, "conf", "file"), 0o640))
				if links == nil {
					must(t, os.Rename(filepath.Join(root, "conf", "file"), m.Host.Paths.AgentConfig))
				}
				for n := 0; n < len(links); n += 2 {
					path, target := filepath.Join(root, links[n]), links[n+1]
					switch {
					case target == "":
						must(t, os.Mkdir(path, 0o755))
						continue
					case strings.HasPrefix(target, "/"):
						target = root + target
					}
					must(t, os.Symlink(target, path))
				}
				before := treeOf(t, root)

				tr := m.open(t, proven, nil)
				kept, err := tr.packages().saveAgentFiles(t.Context())
				must(t, err)
				tr.j.Packages.Kept = kept
				for path := range before {
					file := strings.HasSuffix(path, "file") || links == nil
					if takes == "all" || takes == "the file" && file || takes == "the links" && before[path][0] == 'L' ||
						takes == "all but a folder" && before[path][0] != 'd' {
						must(t, os.RemoveAll(filepath.Join(root, path)))
					}
				}
				must(t, tr.packages().putBackKept())

				data, err := os.ReadFile(m.Host.Paths.AgentConfig)
				if leadsNowhere := strings.HasSuffix(name, "nowhere"); leadsNowhere != os.IsNotExist(err) || !leadsNowhere && string(data) != content {
					t.Errorf("the configuration is %q, %v", data, err)
				}
				after := treeOf(t, root)
				for path, was := range before {
					if was[0] != 'd' && after[path] != was && !(name == "a link that leads nowhere" && path == "conf/file") {
						t.Errorf("%s was %q and is %q", path, was, after[path])
					}
				}
				must(t, tr.packages().forgetKept())
				if left, _ := filepath.Glob(filepath.Join(m.Host.Paths.Original(), "kept-*")); len(left) > 0 {
					t.Errorf("copies are left: %q", left)
				}
			})
		}
	}
}

// treeOf is what there is in a folder, but for the updater's own data: mode, and where a link leads.
func treeOf(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if rel == "data" {
			return fs.SkipDir
		}
		info, err := e.Info()
		target, _ := os.Readlink(path)
		all[rel] = info.Mode().String() + " " + target
		return err
	}))
	return all
}

func TestLinksThatLeadRoundAreNotFollowed(t *testing.T) {
	m := testMachine(t)
	must(t, os.Symlink("teleport.yaml", m.Host.Paths.AgentConfig))
	tr := m.open(t, proven, func(j *state.Journal) { j.Packages.Found = []state.Package{{Kind: "deb", Name: "teleport"}} })
	if _, err := tr.packages().saveAgentFiles(t.Context()); err == nil || !strings.Contains(err.Error(), "too many levels of symbolic links") {
		t.Errorf("it is %v", err)
	}
}
