package main

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
)

func getCommand() *cli.Command {
	kinds := strings.Join(slices.Concat(rollout.Kinds, rollout.SystemKinds), "|")
	return &cli.Command{
		Name:         "get",
		Usage:        "print a resource, or all",
		UsageText:    "teleport-find get [" + kinds + "[/NAME]] [-o yaml|json|table] [--admin-socket PATH]",
		OnUsageError: onUsageError,
		Flags:        []cli.Flag{outputFlag("yaml"), adminSocketFlag()},
		Action: func(c *cli.Context) error {
			words, err := wordsOf(c)
			if err != nil {
				return err
			}
			if len(words) > 1 || len(words) == 1 && !knownKind(words[0]) {
				return usageErrorf("get takes one of %s (%s/GROUP; %s, or one of them by /SERVER; %s, or one by /NAME), got %q",
					strings.ReplaceAll(kinds, "|", ", "), rollout.KindPlan, rollout.KindReport, rollout.KindNotify, words)
			}
			if len(words) == 0 {
				return getAll(c, "")
			}
			if several(words[0]) {
				return getAll(c, words[0])
			}
			r, err := newAdminClient(c).get(c.Context, words[0])
			if err != nil {
				return err
			}
			return printResources(c, r)
		},
	}
}

// getAll prints all resources, or all of one kind.
func getAll(c *cli.Context, kind string) error {
	client := newAdminClient(c)
	var all adminapi.Resources
	if err := client.ask(c.Context, http.MethodGet, "/v1/resources", nil, &all); err != nil {
		return err
	}
	var list []rollout.Resource
	for _, data := range all.Resources {
		parsed, err := rollout.Parse(data)
		if err != nil {
			return fmt.Errorf("a resource of the server is not understood (is it of another version?): %w", err)
		}
		for _, r := range parsed {
			if kind == "" || r.GetKind() == kind {
				list = append(list, r)
			}
		}
	}
	if kind == rollout.KindNotify && len(list) == 0 {
		return fmt.Errorf("there is no %s in the store", kind)
	}
	if kind != "" && len(list) == 0 {
		return fmt.Errorf("no server has written an %s in the last three minutes", kind)
	}
	return printResources(c, list...)
}

// printResources prints resources in the form for "apply", or a table of them.
func printResources(c *cli.Context, list ...rollout.Resource) error {
	if c.String("output") == "table" {
		t := newTable("KIND", "NAME", "REVISION")
		for _, r := range list {
			t.row(r.GetKind(), r.GetMetadata().Name, strconv.FormatInt(r.GetMetadata().Revision, 10))
		}
		return t.print(c.App.Writer)
	}
	write := map[string]func(rollout.Resource) ([]byte, error){"yaml": rollout.YAML, "json": rollout.JSON}[c.String("output")]
	for i, r := range list {
		data, err := write(r)
		if err != nil {
			return err
		}
		if i > 0 && c.String("output") == "yaml" {
			data = append([]byte("---\n"), data...)
		}
		if _, err := fmt.Fprintf(c.App.Writer, "%s\n", strings.TrimSpace(string(data))); err != nil {
			return err
		}
	}
	return nil
}

// knownKind reports whether a word is a kind, or a kind and a name.
func knownKind(word string) bool {
	kind, _, named := strings.Cut(word, "/")
	if kind == rollout.KindPlan {
		return named // a plan of a group
	}
	return slices.Contains(slices.Concat(rollout.Kinds, rollout.SystemKinds), kind) && (!named || several(kind))
}

// isHook reports whether a word is the kind of webhooks and a name.
func isHook(word string) bool { return strings.HasPrefix(word, rollout.NotifyKey("")) }

// several reports whether there may be several named resources of the kind. Without a name, all are
// printed.
func several(kind string) bool { return kind == rollout.KindReport || kind == rollout.KindNotify }
