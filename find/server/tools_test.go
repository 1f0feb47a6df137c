package server

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/find/rollout"
)

func TestClientToolsAreToldWhatTheResourcesSay(t *testing.T) {
	tools := func(s string) string { return strings.Replace(enabled, "spec: {", "spec: {tools: {mode: "+s+"}, ", 1) }
	for name, tc := range map[string]struct {
		config, version string
		want            find.Answer
	}{
		"nothing":             {enabled, immediate, find.Answer{}},
		"enabled":             {tools("enabled"), immediate, find.Answer{ToolsAutoUpdate: true}},
		"disabled":            {tools("disabled"), immediate, find.Answer{}},
		"a version":           {tools("enabled"), strings.Replace(immediate, "spec: {", "spec: {tools: {target_version: v17.1.0}, ", 1), find.Answer{ToolsAutoUpdate: true, ToolsVersion: "17.1.0"}},
		"without any version": {tools("enabled"), "", find.Answer{ToolsAutoUpdate: true}},
	} {
		w := newStoreWorld(t)
		w.options.Log = slog.New(slog.DiscardHandler)
		for _, r := range []string{tc.config, tc.version} {
			if r != "" {
				w.write(r)
			}
		}
		a := w.open().AnswerTo(rollout.Query{})
		if a.ToolsAutoUpdate != tc.want.ToolsAutoUpdate || a.ToolsVersion != tc.want.ToolsVersion {
			t.Errorf("%s: %+v", name, a)
		}
		body, err := a.Body()
		if want := fmt.Sprintf(`"tools_version":"%s","tools_autoupdate":%t`, cmp.Or(tc.want.ToolsVersion, a.Version), tc.want.ToolsAutoUpdate); err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, %v; want %s", name, body, err, want)
		}
	}
}
