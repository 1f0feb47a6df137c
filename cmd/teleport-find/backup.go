package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/find/store"
	"teleport-update/find/store/postgres"
)

// packagedStore is the store of the package's service.
const packagedStore = "/var/lib/teleport-find/store/store.db"

func storeFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "store", EnvVars: []string{"TELEPORT_FIND_STORE"}, Value: packagedStore,
		Usage: "`FILE` of the server's --store, or postgres://USER@HOST/DATABASE?sslrootcert=FILE",
	}
}

// backupName is the pattern for backups in a folder; backups sort by their time.
const backupName, backupTime = "store-*.db", "20060102T150405Z"

func backupCommand() *cli.Command {
	return &cli.Command{
		Name:      "backup",
		Usage:     "copy the store to a file, while the server runs",
		UsageText: "teleport-find backup FILE|FOLDER [--store FILE] [--store-password-file FILE] [--keep N] [-o table|json|yaml]",
		Description: `The copy is of one moment, checked, and on the disk before it has its name. Where FILE is a folder, the copy is
store-TIME.db in it, and with --keep the oldest of these go. Run it as root, or as the user whose store it is. A
database of PostgreSQL is copied to such a file, too.

The copy is as secret as the store: it holds what access tokens and hosts are recognised by. "teleport-find restore"
takes it back.`,
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			storeFlag(), passwordFileFlag("TELEPORT_FIND_STORE_PASSWORD_FILE"), outputFlag("table"),
			&cli.IntFlag{Name: "keep", Usage: "`NUMBER` of backups to keep in the folder", DefaultText: "all"},
		},
		Action: func(c *cli.Context) error {
			to, err := oneWord(c, "a file or a folder")
			if err != nil {
				return err
			}
			info, err := os.Stat(to)
			inFolder := err == nil && info.IsDir()
			if c.IsSet("keep") && (!inFolder || c.Int("keep") < 1) {
				return usageErrorf("--keep takes a number from 1 on, and a folder to keep them in")
			}
			folder := to
			if inFolder {
				to = filepath.Join(folder, strings.Replace(backupName, "*", now().UTC().Format(backupTime), 1))
			}
			facts, err := backUp(c, to, nil)
			if err != nil {
				return err
			}
			made := storeFacts(facts)
			made.File = to
			if c.IsSet("keep") {
				if made.Removed, err = removeOld(folder, c.Int("keep")); err != nil {
					return fmt.Errorf("%s is written, and older backups stay: %w", to, err)
				}
			}
			if c.String("output") != "table" {
				return printValue(c, made)
			}
			_, err = fmt.Fprintf(c.App.Writer, "%s holds %s\n", to, made)
			return err
		},
	}
}

// backUp backs up the store that --store names.
func backUp(c *cli.Context, to string, keep func(key string) bool) (store.Facts, error) {
	address := c.String("store")
	progress := watch(c, "copying and checking the store", fileTime(address))
	defer progress.End()
	if !postgres.IsURL(address) {
		return store.Backup(c.Context, address, to, keep)
	}
	from, err := openStore(c.Context, address, c.String("store-password-file"))
	if err != nil {
		return store.Facts{}, err
	}
	defer from.Close()
	return store.BackupOf(c.Context, from, to, keep)
}

// removeOld removes all but the newest backups, and returns their names.
func removeOld(folder string, keep int) (removed []string, err error) {
	all, err := filepath.Glob(filepath.Join(folder, backupName))
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(path string) bool {
		middle, _ := strings.CutPrefix(filepath.Base(path), "store-")
		_, err := time.Parse(backupTime, strings.TrimSuffix(middle, ".db"))
		return err != nil // a file that somebody else made
	})
	slices.Sort(all)
	for _, path := range all[:max(0, len(all)-keep)] {
		if err := os.Remove(path); err != nil {
			return removed, err
		}
		removed = append(removed, path)
	}
	return removed, nil
}

// adminFacts describes a backup, for programs.
type adminFacts struct {
	File       string         `json:"file,omitempty"`
	Revision   store.Revision `json:"revision"`
	Items      int            `json:"items"`
	LastChange *lastChange    `json:"last_change,omitempty"`
	Removed    []string       `json:"removed,omitempty"`
}

type lastChange struct {
	Time time.Time `json:"time"`
	Who  string    `json:"who"`
	What string    `json:"what"`
}

func storeFacts(f store.Facts) adminFacts {
	facts := adminFacts{Revision: f.Revision, Items: f.Count}
	if len(f.History) > 0 {
		r := f.History[0]
		facts.LastChange = &lastChange{r.Time, r.Who, r.What}
	}
	return facts
}

func (f adminFacts) String() string {
	text := fmt.Sprintf("%d items, revision %d", f.Items, f.Revision)
	if f.LastChange != nil {
		text += fmt.Sprintf(", last changed at %s by %s (%s)", f.LastChange.Time.UTC().Format(time.DateTime), f.LastChange.Who, f.LastChange.What)
	}
	return text
}
