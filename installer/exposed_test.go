package installer

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/state"
)

// Who can write the folder of a template of files is root on the host, so enable and
// verify say so.
func TestATemplateInAFolderOfOthersIsNamed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("for any other user there is nothing to gain")
	}
	for name, tc := range map[string]struct {
		change func(dir string) error
		says   string
	}{
		"root's":                   {func(string) error { return nil }, ""},
		"another user's":           {func(dir string) error { return os.Chown(dir, 1234, 1234) }, "belongs to another user"},
		"that everybody may write": {func(dir string) error { return os.Chmod(dir, 0o777) }, "can be written by everybody"},
		"that is sticky":           {func(dir string) error { return os.Chmod(dir, 0o777|os.ModeSticky) }, "can be written by everybody"},
		"that its group may write": {func(dir string) error { _ = os.Chmod(dir, 0o775); return os.Chown(dir, 0, 1234) }, "can be written by its group"},
		"below another user's":     {func(dir string) error { return os.Chown(filepath.Dir(dir), 1234, 1234) }, "belongs to another user"},
		"that is not there as yet": {os.Remove, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "media", "releases")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := tc.change(dir); err != nil {
				t.Fatal(err)
			}
			i := testInstaller(t)
			var said bytes.Buffer
			i.Machine.Host.Log = slog.New(slog.NewTextHandler(&said, nil))
			template := "file://" + dir + "/{{.Version}}.tar.gz"
			c := state.EmptyConfig()
			c.Spec = state.Spec{Proxy: "http://127.0.0.1:1", Enabled: true, URLTemplates: []string{"https://a.example/{{.Version}}", template}}
			writeFile(t, i.Machine.Host.Paths.Config(), "")
			if err := c.Save(i.Machine.Host.Paths.Config()); err != nil {
				t.Fatal(err)
			}
			findings, err := i.Verify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var verified string
			for _, f := range findings {
				if f.Subject == "template" && !f.OK {
					verified += f.Detail
				}
			}
			_ = i.Enable(t.Context(), EnableOptions{}) // there is nobody to ask at the proxy
			for by, text := range map[string]string{"verify": verified, "enable": said.String()} {
				if got := strings.Contains(text, "change what root runs"); got != (tc.says != "") || !strings.Contains(text, tc.says) {
					t.Errorf("%s says %q; want %q", by, text, tc.says)
				}
			}
		})
	}
}
