package state

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

const wholeConfig = `version: v1
kind: agent_versions
from_the_future: {kept: true}
spec:
  proxy: mytenant.teleport.sh
  group: staging
  enabled: true
  pinned: false
  active_version: 15.1.1
  url_templates: ["https://mirror.example.com/{{.Version}}.tgz"]
  health: {window: 45s, ready_url: "http://127.0.0.1:3000/readyz"}
  backup: {max_age: 720h}
  spec_of_the_future: 7
status:
  active_edition: enterprise
  previous_version: 15.1.0
  previous_edition: enterprise
  last_update: {time: 2026-01-02T03:04:05Z, target: 15.1.1, result: succeeded, error: ""}
  failed: {version: 15.1.2, edition: enterprise, sha256: aa, attempts: 2, next_attempt: 2026-01-02T05:04:05Z, error: it died}
  status_of_the_future: [1, 2]
`

func TestConfigSurvivesARewriteWithFieldsItDoesNotKnow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "updates.yaml")
	writeFile(t, path, wholeConfig)
	c, err := LoadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Spec.Proxy != "mytenant.teleport.sh" || c.Spec.Health.Window.Std() != 45*time.Second || c.Status.Failed.Attempts != 2 {
		t.Fatalf("read %+v", c)
	}
	c.Spec.Pinned = true
	c.Status.Failed = nil
	if err := c.Save(path); err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(path)
	text := string(data)
	for _, want := range []string{"from_the_future", "kept: true", "spec_of_the_future: 7", "status_of_the_future", "pinned: true", "window: 45s", "max_age: 720h", "active_version: 15.1.1"} {
		if !strings.Contains(text, want) {
			t.Errorf("the rewritten file lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "failed:") {
		t.Errorf("what was cleared is still there:\n%s", text)
	}
	if info, _ := os.Stat(path); info.Mode() != 0o600 {
		t.Errorf("mode %v; want 0600: templates may carry credentials", info.Mode())
	}
	if again, err := LoadConfig(path); err != nil || again.Spec.Pinned != true {
		t.Errorf("read again: %+v, %v", again, err)
	}
}

func TestAConfigThatIsNotThereIsEmpty(t *testing.T) {
	c, err := LoadConfig(filepath.Join(t.TempDir(), "updates.yaml"))
	if err != nil || c.Spec.Enabled || c.Spec.ActiveVersion != "" {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestConfigRefusesWhatCannotBeTrusted(t *testing.T) {
	head := "version: v1\nkind: agent_versions\n"
	bomb := head + "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
		"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\n"
	for name, tc := range map[string]struct{ content, want string }{
		"not YAML":                       {"\x00\x01", "read the configuration"},
		"a byte order mark alone":        {"\xef\xbb\xbf\r\n", "the file is empty"},
		"that of UTF-16 alone":           {"\xff\xfe", "the file is empty"},
		"another kind":                   {"version: v1\nkind: db_backup\n", "want version v1"},
		"another version":                {"version: v2\nkind: agent_versions\n", "want version v1"},
		"a version that is a path":       {head + "spec: {active_version: ../../../tmp/evil}\n", "is not a version"},
		"a version with a leading v":     {head + "spec: {active_version: v15.1.1}\n", "is not a version"},
		"a previous version that is one": {head + "status: {previous_version: 1/2}\n", "is not a version"},
		"an unknown edition":             {head + "status: {active_edition: gold}\n", "edition"},
		"a negative window":              {head + "spec: {health: {window: -3s}}\n", "negative"},
		"aliases that explode":           {bomb, "alias"},
		"larger than it can be":          {head + "x: " + strings.Repeat("y", MaxConfigSize) + "\n", "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "updates.yaml")
			writeFile(t, path, tc.content)
			if c, err := LoadConfig(path); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %+v, %v; want an error with %q", c, err, tc.want)
			}
		})
	}
}

func TestRootReadsOnlyItsOwnFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("an ordinary user trusts its own files; nothing to see")
		return
	}
	for name, spoil := range map[string]func(path string) error{
		"belongs to user":  func(p string) error { return os.Chown(p, 1234, 0) },
		"may be written":   func(p string) error { return os.Chmod(p, 0o620) },
		"symbolic link":    func(p string) error { return replaceByLink(p) },
		"not a regular":    func(p string) error { return replaceByFolder(p) },
		"may be written b": func(p string) error { return os.Chmod(p, 0o602|fs.FileMode(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "updates.yaml")
			writeFile(t, path, wholeConfig)
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			if _, err := LoadConfig(path); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v; want an error with %q", err, name)
			}
		})
	}
}

func replaceByLink(p string) error {
	if err := os.Rename(p, p+".elsewhere"); err != nil {
		return err
	}
	return os.Symlink(p+".elsewhere", p)
}

func replaceByFolder(p string) error {
	if err := os.Remove(p); err != nil {
		return err
	}
	return os.Mkdir(p, 0o700)
}

// Whoever goes back by no name goes to no version that was left because it failed; a way back that a disk has
// cut short says nothing about the version.
func TestAPreviousVersionThatFailed(t *testing.T) {
	left := &Failed{Version: "1.1.0", Edition: "oss", Attempts: 1, Error: "it crashes"}
	again := *left
	again.Attempts = 2
	for name, tc := range map[string]struct {
		failed *Failed
		last   *LastUpdate
		want   bool
	}{
		"nothing failed":                     {last: &LastUpdate{Target: "1.0.0", Result: Succeeded}},
		"it was left":                        {failed: left, last: &LastUpdate{Target: "1.0.0", Result: Succeeded}, want: true},
		"it was left, nobody knows how":      {failed: left, want: true},
		"another version failed since":       {failed: left, last: &LastUpdate{Target: "1.2.0", Result: RolledBack}, want: true},
		"the way back to it was undone":      {failed: left, last: &LastUpdate{Target: "1.1.0", Result: FailedEarly}},
		"it was left, and did not hold then": {failed: &again, last: &LastUpdate{Target: "1.1.0", Result: RolledBack}, want: true},
	} {
		c := EmptyConfig()
		c.Spec.ActiveVersion = "1.0.0"
		c.Status = Status{PreviousVersion: "1.1.0", PreviousEdition: "oss", Failed: tc.failed, LastUpdate: tc.last}
		if got := c.PreviousFailed() != nil; got != tc.want {
			t.Errorf("%s: it failed: %t", name, got)
		}
	}
}
