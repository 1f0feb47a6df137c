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
