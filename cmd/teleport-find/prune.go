package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/files"
	"teleport-update/internal/durable"
	releases "teleport-update/internal/version"
	"teleport-update/versions/signature"
)

func checkPruneFlags(c *cli.Context, words []string) error {
	switch {
	case !c.Bool("prune") && c.IsSet("keep"):
		return usageErrorf("--keep is for --prune")
	case c.IsSet("keep") && c.Int("keep") < 1, c.IsSet("newest") && c.Int("newest") < 1:
		return usageErrorf("--keep and --newest take a number of versions, 1 or more")
	case c.Bool("prune") && !c.IsSet("keep") && !c.IsSet("newest") && len(words) == 0:
		return usageErrorf("--prune would remove everything: name the versions that stay, or how many with --keep")
	}
	for _, word := range words {
		if _, err := releases.Parse(word); err != nil {
			return usageError{err}
		}
	}
	return nil
}

// newestOf returns the newest versions from sources that can be listed.
func newestOf(templates []string, n int) ([]string, error) {
	var found []string
	for _, text := range templates {
		// The folder is the part before the first action of the template.
		plain, _, _ := strings.Cut(text, "{{")
		u, err := url.Parse(plain)
		if err != nil || u.Scheme != "file" {
			continue
		}
		versions, err := versionsIn(filepath.Dir(u.Path + "x"))
		if err != nil {
			return nil, err
		}
		found = append(found, versions...)
	}
	if len(found) == 0 {
		return nil, errors.New("--newest: no template is a folder with releases (file:///DIR/…), and other sources have no list " +
			"of them: name the versions")
	}
	return newest(found, n), nil
}

// newest returns n versions, the newest first.
func newest(versions []string, n int) []string {
	versions = slices.Clone(versions)
	slices.SortFunc(versions, func(a, b string) int { return releases.Compare(b, a) })
	versions = slices.Compact(versions)
	return versions[:min(n, len(versions))]
}

// versionsIn returns the versions of the releases in a folder that have a checksum.
func versionsIn(dir string) (versions []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if v, _, ok := files.ReleaseOf(strings.TrimSuffix(e.Name(), ".sha256")); ok && strings.HasSuffix(e.Name(), ".sha256") {
			versions = append(versions, v)
		}
	}
	return versions, nil
}

// prune removes releases with versions that nobody needs. Other files stay.
func prune(c *cli.Context, dir string, named []string, dryRun bool) error {
	keep := make(map[string]bool)
	for _, word := range named {
		v, err := releases.Parse(word)
		if err != nil {
			return usageError{err}
		}
		keep[v] = true
	}
	there, err := versionsIn(dir)
	if err != nil {
		return err
	}
	for _, v := range newest(there, c.Int("keep")) {
		keep[v] = true
	}
	needed, err := neededVersions(c)
	if err != nil {
		return fmt.Errorf("nothing was removed from %s: which versions hosts need cannot be found out: %w", dir, err)
	}
	for _, v := range needed {
		keep[v] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		v, _, ok := files.ReleaseOf(e.Name())
		if !ok || keep[v] || !e.Type().IsRegular() {
			continue
		}
		did := "would be removed"
		if !dryRun {
			did = "removed"
			// The checksum goes first: without it, a release does not count.
			for _, name := range []string{e.Name() + ".sha256", e.Name() + signature.Suffix, e.Name()} {
				if err := durable.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
		if err := printItem(c, mirrored{File: e.Name(), Is: did}, e.Name()+"  "+did); err != nil {
			return err
		}
	}
	return nil
}

// neededVersions returns the versions that hosts of the server shall run, or run.
// Without a server on this machine it returns none.
func neededVersions(c *cli.Context) (list []string, err error) {
	client := newAdminClient(c)
	if _, err := os.Lstat(client.at); c.String("server") == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var now adminapi.Overview
	if err := client.ask(c.Context, http.MethodGet, "/v1/overview", nil, &now); err != nil {
		return nil, err
	}
	var answer adminapi.Why
	if err := client.ask(c.Context, http.MethodGet, "/v1/why", nil, &answer); err != nil {
		return nil, err
	}
	list = append(list, string(now.Start), string(now.Target), answer.AgentVersion)
	var all adminapi.Resources
	if err := client.ask(c.Context, http.MethodGet, "/v1/resources", nil, &all); err != nil {
		return nil, err
	}
	for _, data := range all.Resources {
		resources, err := rollout.Parse(data)
		if err != nil {
			return nil, err
		}
		for _, resource := range resources {
			if r, ok := resource.(*rollout.Rollout); ok {
				for _, v := range r.Versions() { // groups may be sent back to a version of their own
					list = append(list, string(v))
				}
			}
		}
	}
	for _, g := range now.Groups {
		for v := range g.Versions {
			list = append(list, string(v))
		}
	}
	return list, nil
}
