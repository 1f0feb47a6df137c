package host

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

//go:embed request.go.txt
var requestSource string

// OneRequest is the updater with another main in front of its own: with the two arguments URL and CA-FILE it makes one
// request over verified https and leaves. It is the least that a run of the timer can cost, in a program of the same size
// and with the same packages to initialise. Its sources are put in a folder that stays as long as the program is to be built.
func OneRequest(dir string) (Program, error) {
	module, err := Module()
	if err != nil {
		return Program{}, err
	}
	at := func(name string) string { return filepath.Join(module, "cmd", "teleport-update", name) }
	original, err := os.ReadFile(at("main.go"))
	if err != nil {
		return Program{}, err
	}
	const main = "\nfunc main() {"
	if strings.Count(string(original), main) != 1 {
		return Program{}, fmt.Errorf("%s has no main that could be renamed", at("main.go"))
	}
	replace := map[string]string{}
	for name, text := range map[string]string{
		"main.go":    strings.Replace(string(original), main, "\nfunc updater() {", 1),
		"request.go": requestSource,
	} {
		replace[at(name)] = filepath.Join(dir, name+".txt")
		if err := os.WriteFile(replace[at(name)], []byte(text), 0o644); err != nil {
			return Program{}, err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return Program{}, err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o644); err != nil {
		return Program{}, err
	}
	return Program{Name: "teleport-update-request", Package: "./cmd/teleport-update", Overlay: file}, nil
}
