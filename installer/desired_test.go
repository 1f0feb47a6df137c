package installer

import (
	"path/filepath"
	"testing"
)

func TestHostUUIDIsReadAndNeverBelieved(t *testing.T) {
	for content, want := range map[string]string{
		"11111111-2222-3333-4444-555555555555\n":  "11111111-2222-3333-4444-555555555555",
		"123456789012-i-0123456789abcdef0\n":      "d70bdd93-c0bc-e162-ed32-dbafe7143f50", // an EC2 host's, as a digest
		"123456789012-i-0123456789abcdef0&x=1":    "",
		"12345678901-i-0123456789abcdef0":         "",
		"":                                        "",
		"x&agent_version=1":                       "",
		"11111111-2222-3333-4444-555555555555\n&": "",
	} {
		i := testInstaller(t)
		writeFile(t, filepath.Join(i.Machine.Host.Paths.DataDir, "host_uuid"), content)
		if got := i.finder().hostUUID(); got != want {
			t.Errorf("host_uuid %q is read as %q; want %q", content, got, want)
		}
	}
	if got := testInstaller(t).finder().hostUUID(); got != "" {
		t.Errorf("a host without an id has %q", got)
	}
}
