package ospackage

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An edit in place makes a package's unit an administrator's, wherever the package has its own.
func TestAUnitIsThePackagesAsLongAsNobodyEditedIt(t *testing.T) {
	const unit = "[Service]\nExecStart=/usr/local/bin/teleport start\n"
	md5Of, shaOf := fmt.Sprintf("%x", md5.Sum([]byte(unit))), fmt.Sprintf("%x", sha256.Sum256([]byte(unit)))
	for name, tc := range map[string]struct {
		digests map[string]string
		text    string
		want    bool
	}{
		"as it was brought":                    {map[string]string{"/lib/systemd/system/teleport.service": md5Of}, unit, true},
		"by another name of the folder":        {map[string]string{"/usr/lib/systemd/system/teleport.service": shaOf}, unit, true},
		"copied from the package's own folder": {map[string]string{"/opt/teleport/system/lib/systemd/system/teleport.service": md5Of}, unit, true},
		"edited":                               {map[string]string{"/lib/systemd/system/teleport.service": md5Of}, unit + "Environment=HTTPS_PROXY=http://proxy:3128\n", false},
		"of another name":                      {map[string]string{"/lib/systemd/system/tbot.service": md5Of}, unit, false},
		"an example":                           {map[string]string{"/usr/share/doc/teleport/teleport.service": md5Of}, unit, false},
		"not in the package":                   {map[string]string{"/usr/bin/teleport": md5Of}, unit, false},
		"without checksums":                    {nil, unit, false},
	} {
		path := filepath.Join(t.TempDir(), "teleport.service")
		if err := os.WriteFile(path, []byte(tc.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := BroughtUnit(tc.digests, path); got != tc.want {
			t.Errorf("%s: it is the package's: %v", name, got)
		}
	}
}

func TestAFileIsCopiedAsItsPackageBroughtItOrNotAtAll(t *testing.T) {
	content := []byte("a program")
	path := filepath.Join(t.TempDir(), "teleport")
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ path, digest, want string }{
		"by dpkg's checksum":    {path, fmt.Sprintf("%x", md5.Sum(content)), ""},
		"by rpm's checksum":     {path, fmt.Sprintf("%x", sha256.Sum256(content)), ""},
		"with other content":    {path, fmt.Sprintf("%x", md5.Sum([]byte("another"))), "is not as its package brought it"},
		"without a checksum":    {path, "", "no checksum"},
		"that is not there":     {path + "x", fmt.Sprintf("%x", md5.Sum(content)), "no such file"},
		"with one unknown here": {path, strings.Repeat("a", 128), "no checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := CopyWhole(&out, tc.path, tc.digest)
			if tc.want == "" && (err != nil || out.String() != string(content)) || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("copied %q, %v; want %q", out.String(), err, tc.want)
			}
		})
	}
}
