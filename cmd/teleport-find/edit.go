package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
	"teleport-update/internal/failure"
)

func editCommand() *cli.Command {
	const kinds = rollout.KindConfig + "|" + rollout.KindVersion + "|" + rollout.KindNotify + "/NAME"
	return &cli.Command{
		Name:      "edit",
		Usage:     "change a resource in an editor",
		UsageText: "teleport-find edit " + kinds + " [--reason TEXT] [--dry-run] [-o table|json|yaml]",
		Description: changesUsage + `

It opens the resource in $VISUAL, $EDITOR or vi, and applies the text when the editor ends. Nothing is written if the
text has an error, or if somebody else has changed the resource meanwhile: the text then stays in a file that the error
names.`,
		OnUsageError: onUsageError,
		Flags:        changeFlags(),
		Action: func(c *cli.Context) error {
			key, err := oneWord(c, kinds)
			if err != nil {
				return err
			}
			if key != rollout.KindConfig && key != rollout.KindVersion && !isHook(key) {
				return usageErrorf("edit takes %s, got %q", kinds, key)
			}
			return editResource(c, key)
		},
	}
}

func editResource(c *cli.Context, key string) error {
	r, err := newAdminClient(c).get(c.Context, key)
	isNew := refused(err, http.StatusNotFound) && !isHook(key)
	switch {
	case isNew && key == rollout.KindConfig:
		r = rollout.NewConfig()
	case isNew:
		r = rollout.NewVersion()
	case err != nil:
		return err
	}
	before, err := rollout.YAML(r)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "teleport-find-edit-")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, r.GetKind()+".yaml")
	keep, err := editFile(c, file, before, isNew)
	if err != nil && keep {
		return fmt.Errorf("%w; the text is in %s", err, file)
	}
	os.RemoveAll(dir)
	return err
}

// editFile has a person edit a text, and applies it. After an error, keep says that the file has work of the person.
func editFile(c *cli.Context, file string, before []byte, isNew bool) (keep bool, err error) {
	if err := os.WriteFile(file, before, 0o600); err != nil {
		return false, err
	}
	// The variables hold a command with its flags; the shell splits it.
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	run := exec.CommandContext(c.Context, "sh", "-c", editor+` "$1"`, "sh", file)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := run.Run(); err != nil {
		return true, &failure.Error{What: fmt.Errorf("run the editor %s: %w", editor, err), State: unwritten}
	}
	after, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	if isNew && bytes.Equal(before, after) {
		return false, &failure.Error{What: errors.New("the text was not changed"), State: unwritten}
	}
	list, err := readFile(c, file)
	if err != nil {
		return true, &failure.Error{What: err, State: unwritten}
	}
	return true, put(c, list, isNew)
}
