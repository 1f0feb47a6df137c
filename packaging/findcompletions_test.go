package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each shell completes commands, their flags, commands of commands, and values of flags.
func TestTheCompletionsOfTeleportFind(t *testing.T) {
	scripts := map[string]string{
		"bash": `source "$1"; IFS=' ' read -ra COMP_WORDS <<<"$2"
			[[ $2 == *' ' ]] && COMP_WORDS+=(''); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
			_teleport_find; printf '%s\n' "${COMPREPLY[@]}"`,
		// What zsh asks for when it completes is not there in a script.
		"zsh": `compdef() { :; }; _files() { :; }; compadd() { print -l -- ${(P)@[-1]}; }
			source $1; words=(${(s: :)2}); [[ $2 == *' ' ]] && words+=(''); CURRENT=$#words; _teleport-find`,
		"fish": `source $argv[1]; complete -C $argv[2] | string split -f 1 \t`,
	}
	for shell, script := range scripts {
		for line, want := range map[string][]string{
			"teleport-find ":                              {"serve", "status", "set-version", "mode", "edit", "history", "token", "rollout"},
			"teleport-find token ":                        {"add", "revoke", "revoke-host"},
			"teleport-find rollout ":                      {"start", "done", "back", "retry", "reset"},
			"teleport-find rollout start dev --":          {"--force", "--reason", "--dry-run"},
			"teleport-find set-version --start 15.1.1 --": {"--schedule", "--reason"},
			"teleport-find token add --":                  {"--reason", "--dry-run"},
			"teleport-find set-version --newest --":       {"--reason", "--dry-run"},
			"teleport-find mirror --newest 3 --":          {"--to", "--prune"},
			"teleport-find status -o json --":             {"--watch"},
		} {
			t.Run(shell+" "+line, func(t *testing.T) {
				if _, err := exec.LookPath(shell); err != nil {
					t.Skip("SKIPPED, nothing was tested: there is no " + shell + " here")
				}
				args := []string{"-c", script, shell, filepath.Join("teleport-find", "completions", shell), line}
				switch shell {
				case "fish":
					args = []string{"--no-config", "-c", script, args[3], line}
				case "zsh":
					args[0] = "-fc"
				}
				cmd := exec.CommandContext(t.Context(), shell, args...)
				cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
				out, err := cmd.CombinedOutput()
				got := strings.Fields(string(out))
				for _, word := range want {
					if !slices.Contains(got, word) {
						t.Errorf("%s is missing, %v:\n%s", word, err, out)
					}
				}
			})
		}
	}
}
