package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// storeToComplete is a folder of versions: releases, one that a package brought, and what
// is none.
func storeToComplete(t *testing.T) string {
	t.Helper()
	store := t.TempDir()
	for folder, file := range map[string]string{
		"14.0.0": "origin", "15.1.0": "sha256", "15.1.1": "sha256", "15.1.1_enterprise": "sha256", "15.1.2": "manifest", "original": "sha256",
	} {
		if err := os.Mkdir(filepath.Join(store, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(store, folder, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

func TestZshAndFishCompleteVersions(t *testing.T) {
	store := storeToComplete(t)
	for shell, script := range map[string]string{
		// What zsh asks for when it completes is not there in a script.
		"zsh":  `_arguments() { :; }; compadd() { print -l -- ${(P)@[-1]}; }; source $1; _teleport_update_versions`,
		"fish": `source $argv[1]; complete -C "teleport-update $argv[2] " | string split -f 1 \t | string match -r '^[0-9].*'`,
	} {
		for _, command := range []string{"pin", "rollback"} {
			t.Run(shell+" "+command, func(t *testing.T) {
				if _, err := exec.LookPath(shell); err != nil {
					t.Skip("SKIPPED, nothing was tested: there is no " + shell + " here")
				}
				text, err := os.ReadFile(filepath.Join("teleport-update", "completions", shell))
				if err != nil {
					t.Fatal(err)
				}
				file := filepath.Join(t.TempDir(), "completion")
				if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "/var/lib/teleport/versions", store)), 0o644); err != nil {
					t.Fatal(err)
				}
				args := []string{"-fc", script, shell, file, command}
				if shell == "fish" {
					args = []string{"--no-config", "-c", script, file, command}
				}
				cmd := exec.CommandContext(t.Context(), shell, args...)
				cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
				out, err := cmd.CombinedOutput()
				if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != "14.0.0 15.1.0 15.1.1" {
					t.Errorf("it completes %q, %v", got, err)
				}
			})
		}
	}
}
