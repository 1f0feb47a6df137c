package installer

import (
	"os"
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

// With User= the whole data folder is that user's. The id is read all the same, and never through a link.
func TestHostUUIDOfTheAgentsUserIsRead(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("files of another user take root")
	}
	const id, user = "11111111-2222-3333-4444-555555555555", 4242
	i := testInstaller(t)
	dir := i.Machine.Host.Paths.DataDir
	file := filepath.Join(dir, "host_uuid")
	writeFile(t, file, id+"\n")
	for _, path := range []string{file, dir} {
		must(t, os.Chown(path, user, user))
		must(t, os.Chmod(path, 0o700))
	}
	if got := i.finder().hostUUID(); got != id {
		t.Errorf("the id of a host whose agent has a user is %q", got)
	}
	must(t, os.Rename(file, file+".other"))
	must(t, os.Symlink(file+".other", file))
	if got := i.finder().hostUUID(); got != "" {
		t.Errorf("a link of the agent's user is followed, to %q", got)
	}
}
