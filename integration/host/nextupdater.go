package host

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// NextUpdater is the updater as whoever adds to the journal next makes it: with the next
// schema, a field, and rows in the table of needs. Its sources are put in a folder that
// stays as long as the program is to be built. What its journals say beside what today's do
// are the words in the file novelty, and these: "ignored", which an older one may overlook;
// "may", which it must not, and the transaction can do without; "must", which it must not.
func NextUpdater(dir, version, novelty string, always ...string) (Program, error) {
	module, err := Module()
	if err != nil {
		return Program{}, err
	}
	replace := map[string]string{}
	for file, edits := range map[string]map[string]func(string) string{
		"installer/state/schema.go": {
			`const Schema = (\d+)\n`: func(n string) string {
				now, _ := strconv.Atoi(n)
				return fmt.Sprintf("const Schema = %d\n", now+1)
			},
			`return \[\]need\{\n()`: func(string) string {
				return `return []need{{field: "novelty.must", schema: Schema}, {field: "novelty.may", schema: Schema, optional: true},` + "\n"
			},
		},
		"installer/state/journal.go": {
			"type Journal struct \\{\n()": func(string) string {
				return "type Journal struct {\nNovelty map[string]bool `json:\"novelty,omitempty\"`\n"
			},
		},
		"installer/transaction/rescuer.go": {
			`&state\.Journal\{()Head`: func(string) string { return "&state.Journal{Novelty: novelty(), Head" },
			`"crypto/rand"()\n`:       func(string) string { return "\"crypto/rand\"\n\"os\"\n\"strings\"\n" },
			`(\z)`: func(string) string {
				return fmt.Sprintf("func novelty() map[string]bool {\n\tm := map[string]bool{}\n\tdata, _ := os.ReadFile(%q)\n"+
					"\tfor _, word := range append(strings.Fields(string(data)), strings.Fields(%q)...) {\n\t\tm[word] = true\n\t}\n\treturn m\n}\n",
					novelty, strings.Join(always, " "))
			},
		},
	} {
		data, err := os.ReadFile(filepath.Join(module, file))
		if err != nil {
			return Program{}, err
		}
		text := string(data)
		for what, with := range edits {
			found := regexp.MustCompile(what).FindAllStringSubmatchIndex(text, -1)
			if len(found) != 1 {
				return Program{}, fmt.Errorf("%s has %q %d times; want it once, to make the next updater of it", file, what, len(found))
			}
			f := found[0]
			text = text[:f[0]] + with(text[f[2]:f[3]]) + text[f[1]:]
		}
		changed := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(changed, []byte(text), 0o644); err != nil {
			return Program{}, err
		}
		replace[filepath.Join(module, file)] = changed
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return Program{}, err
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o644); err != nil {
		return Program{}, err
	}
	return Program{Name: "teleport-update-next", Package: "./cmd/teleport-update", Version: version, Overlay: path}, nil
}
