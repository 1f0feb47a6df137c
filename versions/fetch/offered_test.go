package fetch

import (
	"strings"
	"testing"

	"teleport-update/internal/console"
)

const releasesOfFind = `https://find.example.com:3443/releases/teleport{{if .Enterprise}}-ent{{end}}-v{{.Version}}-{{.OS}}-{{.Arch}}{{if .FIPS}}-fips{{end}}-bin.tar.gz`

func TestATemplateThatIsOffered(t *testing.T) {
	for _, text := range []string{releasesOfFind, DefaultTemplate, "http://127.0.0.1:3080/releases/{{.Edition}}/{{.Version}}.tar.gz",
		"https://find.example.com/it's/{{if .FIPS}}fips{{else if .Enterprise}}ent{{else}}oss{{end}}/{{- .Version -}}.tar.gz"} {
		if got, err := ParseOffered(text); err != nil || got.String() != text {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
}

func TestAHostileTemplateIsNotOffered(t *testing.T) {
	const at = "https://find.example.com/{{.Version}}.tar.gz"
	for name, text := range map[string]string{
		"empty":                    "",
		"a terminal's sequence":    at + "\x1b[2J",
		"a second line":            at + "\nteleport-update: all is well",
		"text from right to left":  at + "\u202e",
		"C1":                       at + "\u009b31m",
		"no characters":            at + "\xff",
		"a folder":                 "file:///tmp/{{.Version}}.tar.gz",
		"a folder for one edition": "{{if .FIPS}}file:///tmp{{else}}https://find.example.com{{end}}/{{.Version}}.tar.gz",
		"plain http":               "http://find.example.com/{{.Version}}.tar.gz",
		"another scheme":           "ftp://find.example.com/{{.Version}}.tar.gz",
		"user info":                "https://ann:marked@find.example.com/{{.Version}}.tar.gz",
		"user info of one edition": "https://{{if .FIPS}}ann:marked@{{end}}find.example.com/{{.Version}}.tar.gz",
		"a query":                  at + "?token=marked",
		"a query of one edition":   at + "{{if .FIPS}}?token=marked{{end}}",
		"a fragment":               at + "#marked",
		"a field that is not":      "https://find.example.com/{{.Password}}.tar.gz",
		"a gigabyte":               `https://find.example.com/{{$a := printf "%999999d" 1}}{{$b := printf "%s%s" $a $a}}{{len $b}}/{{.Version}}`,
		"a function":               "https://find.example.com/{{html .Version}}.tar.gz",
		"a function in if":         "https://find.example.com/{{if len .Version}}x{{end}}.tar.gz",
		"a pipe":                   "https://find.example.com/{{.Version | print}}.tar.gz",
		"with":                     "https://find.example.com/{{with .Version}}{{.}}{{end}}.tar.gz",
		"a loop":                   "https://find.example.com/{{range 9}}x{{end}}{{.Version}}.tar.gz",
		"a template in it":         `{{define "x"}}y{{end}}` + at,
		"deep":                     strings.Repeat("{{if .FIPS}}", 80) + at + strings.Repeat("{{end}}", 80),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseOffered(text)
			if err == nil {
				t.Fatalf("%q is taken: %v", text, got)
			}
			if s := err.Error(); console.Line(s) != s || strings.Contains(s, "marked") {
				t.Errorf("the error is not fit to be shown: %q", s)
			}
		})
	}
}
