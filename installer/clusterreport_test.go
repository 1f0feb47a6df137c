package installer

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"teleport-update/installer/state"
)

func TestTheUpdatersIDIsReadAndNeverBelieved(t *testing.T) {
	const id = "11111111-2222-5333-8444-555555555555"
	for name, tc := range map[string]struct {
		change func(dir, file string) error
		want   string
	}{
		"as the agent writes it": {want: id},
		"with a line's end":      {func(_, file string) error { return os.WriteFile(file, []byte(id+"\n"), 0o644) }, id},
		"two of them":            {func(_, file string) error { return os.WriteFile(file, []byte(id+"\n"+id), 0o644) }, ""},
		"something else":         {func(_, file string) error { return os.WriteFile(file, []byte("x&agent_version=1"), 0o644) }, ""},
		"an empty file":          {func(_, file string) error { return os.Truncate(file, 0) }, ""},
		"a large file":           {func(_, file string) error { return os.Truncate(file, 1<<30) }, ""},
		"no file":                {func(_, file string) error { return os.Remove(file) }, ""},
		"a link": {func(dir, file string) error {
			return errors.Join(os.Rename(file, file+"-real"), os.Symlink(file+"-real", file))
		}, ""},
		"a folder that others may enter": {func(dir, _ string) error { return os.Chmod(dir, 0o711) }, ""},
		"a folder that is a link": {func(dir, _ string) error {
			return errors.Join(os.Rename(dir, dir+"-real"), os.Symlink(dir+"-real", dir))
		}, ""},
		"a file of another user": {func(_, file string) error { return os.Chown(file, 4321, 4321) }, ""},
		"an agent with a user": {func(dir, file string) error {
			return errors.Join(os.Chown(dir, 4321, 4321), os.Chown(file, 4321, 4321))
		}, id},
		"a file of root's": {func(dir, _ string) error { return os.Chown(dir, 4321, 4321) }, id},
	} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			i.Machine.Host.Paths.AgentRunDir = filepath.Join(t.TempDir(), "agent")
			must(t, os.Mkdir(i.Machine.Host.Paths.AgentRunDir, 0o700))
			must(t, os.WriteFile(i.Machine.Host.Paths.UpdateID(), []byte(id), 0o644))
			if tc.change != nil {
				if err := tc.change(i.Machine.Host.Paths.AgentRunDir, i.Machine.Host.Paths.UpdateID()); errors.Is(err, os.ErrPermission) {
					t.Skip("only root gives files away")
				} else {
					must(t, err)
				}
			}
			if got := i.finder().updateID(state.Spec{}); got != tc.want {
				t.Errorf("it is read as %q; want %q", got, tc.want)
			}
			if got := i.finder().updateID(state.Spec{NoClusterReport: true}); got != "" {
				t.Errorf("an agent that is not to report has %q", got)
			}
		})
	}
}
