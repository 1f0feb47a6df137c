package find

import (
	"fmt"
	"strings"
	"testing"

	"teleport-update/internal/version"
)

// Hosts are not kept from their version by what only a person may take.
func TestAReleaseTemplateThatCannotBeShownIsNone(t *testing.T) {
	longest := strings.Repeat("x", MaxReleaseTemplate)
	want := Answer{Version: "15.1.1", Edition: version.OSS, AutoUpdate: true}
	for value, template := range map[string]string{
		`"https://find.example.com/{{.Version}}"`:  "https://find.example.com/{{.Version}}",
		`"` + longest + `"`:                        longest,
		`"` + longest + `x"`:                       "",
		`"` + strings.Repeat("x", 900<<10) + `"`:   "",
		`"https://find.example.com/\u001b[2J"`:     "",
		`"https://find.example.com/\nall is well"`: "",
		`"https://find.example.com/\u202e"`:        "",
		"\"https://find.example.com/\xff\"":        "",
		`17`:                                       "",
		`["https://find.example.com/"]`:            "",
		`null`:                                     "",
	} {
		body := fmt.Sprintf(`{"server_edition":"oss","agent_version":"15.1.1","agent_autoupdate":true,"release_template":%s}`, value)
		want.ReleaseTemplate = template
		if got, err := decode([]byte(body)); err != nil || got != want {
			t.Errorf("%.60s is read as %.200q, %v", value, got.ReleaseTemplate, err)
		}
	}
}

func TestAReleaseTemplateThatCannotBeShownIsNotServed(t *testing.T) {
	for _, template := range []string{strings.Repeat("x", MaxReleaseTemplate+1), "https://find.example.com/\x1b[2J"} {
		if body, err := (Answer{Edition: version.OSS, ReleaseTemplate: template}).Body(); err == nil {
			t.Errorf("%.60q is served: %.200s", template, body)
		}
	}
}
