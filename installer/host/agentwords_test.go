package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"teleport-update/internal/console"
	"teleport-update/internal/console/consoletest"
)

// The agent's user may have written the file: a setting that is no name, path or address is refused, in
// one short line.
func TestSettingsThatAreNoWordsAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "teleport.yaml")
	words := consoletest.Words()
	words["too long"] = strings.Repeat("a", 1025)
	for _, setting := range []string{"upgrade_group", "data_dir", "proxy_server", "auth_server"} {
		for kind, word := range words {
			data, err := yaml.Marshal(map[string]any{"teleport": map[string]string{setting: word}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := ReadAgentSettings(path)
			if err == nil {
				t.Errorf("%s, %s: it is taken for %.100v", setting, kind, got)
				continue
			}
			if text := err.Error(); len(text) > 400 || console.Line(text) != text {
				t.Errorf("%s, %s: an error of %d bytes: %.200q", setting, kind, len(text), text)
			}
		}
	}
}
