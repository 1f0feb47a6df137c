package systemd

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestTheCommandOfAServiceIsReadAsSystemdReadsIt(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string // below etc and lib, of which etc ranks first
		want  []string
	}{
		"the unit alone":                  {map[string]string{"lib/a.service": "[Service]\nExecStart=/bin/a start --config /x\n"}, []string{"/bin/a", "start", "--config", "/x"}},
		"an administrator's unit":         {map[string]string{"lib/a.service": "[Service]\nExecStart=/bin/a\n", "etc/a.service": "[Service]\nExecStart=/bin/b\n"}, []string{"/bin/b"}},
		"a drop-in that begins again":     {map[string]string{"lib/a.service": "[Service]\nExecStart=/bin/a\n", "etc/a.service.d/1.conf": "[Service]\nExecStart=\nExecStart=/bin/b c\n"}, []string{"/bin/b", "c"}},
		"of two of one name the first":    {map[string]string{"lib/a.service.d/1.conf": "[Service]\nExecStart=/bin/a\n", "etc/a.service.d/1.conf": "[Service]\nExecStart=/bin/b\n"}, []string{"/bin/b"}},
		"the last by name":                {map[string]string{"etc/a.service.d/1.conf": "[Service]\nExecStart=/bin/a\n", "lib/a.service.d/2.conf": "[Service]\nExecStart=\nExecStart=/bin/b\n"}, []string{"/bin/b"}},
		"quotes, and a line that goes on": {map[string]string{"lib/a.service": "[Service]\nExecStart=-/bin/a \\\n  \"one word\" 'and another'\n"}, []string{"/bin/a", "one word", "and another"}},
		"variables":                       {map[string]string{"lib/a.service": "[Service]\nEnvironment=X=1 \"Y=two words\"\nExecStart=/bin/a $Y --x=${X} $NONE $$ %%\n"}, []string{"/bin/a", "two", "words", "--x=1", "$", "%"}},
		"another section":                 {map[string]string{"lib/a.service": "[Unit]\nExecStart=/bin/b\n# ExecStart=/bin/c\n[Service]\nExecStart=/bin/a\n"}, []string{"/bin/a"}},
		"none":                            {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, content := range c.files {
				path := filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := ReadService("a.service", []string{filepath.Join(root, "etc"), filepath.Join(root, "lib")})
			if err != nil || !slices.Equal(got.Words, c.want) {
				t.Errorf("%q, %v; want %q", got.Words, err, c.want)
			}
		})
	}
}
