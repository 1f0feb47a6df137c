package main

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.yaml.in/yaml/v3"
)

const (
	defaultConfig   = "/etc/teleport.yaml"
	defaultDataDir  = "/var/lib/teleport"
	defaultDiagAddr = "127.0.0.1:3000"
)

// options are the flags of "teleport start"; an empty one was not given.
type options struct {
	config, pidFile, dataDir, diagAddr string
}

// config is the part of teleport.yaml that the stand-in reads, plus a section
// of its own. Everything else in the file is ignored.
type config struct {
	Teleport struct {
		DataDir  string `yaml:"data_dir"`
		DiagAddr string `yaml:"diag_addr"`
	} `yaml:"teleport"`
	StandIn struct {
		// RowsPerSecond is how much it writes, 0 to 1000 (default 3). Up to 100
		// a second, each row is a transaction of its own.
		RowsPerSecond *int `yaml:"rows_per_second"`
		// JournalMode is the database's: "wal" (default) or "delete".
		JournalMode string `yaml:"journal_mode"`
		// BreaksOn are versions that exit when they start on this host.
		BreaksOn []string `yaml:"breaks_on"`
		// Cluster is where it says hello, as in http://127.0.0.1:3080/hello; empty: nowhere.
		Cluster string `yaml:"cluster"`
	} `yaml:"stand_in"`
}

// readConfig reads the file, lets the flags override it, and fills in the
// defaults. As with the real agent, only the default file may be missing, and the variables
// TELEPORT_CONFIG_FILE and TELEPORT_CONFIG name another file, or hold its text.
func readConfig(given options) (config, error) {
	named := cmp.Or(given.config, os.Getenv("TELEPORT_CONFIG_FILE"))
	path := cmp.Or(named, defaultConfig)
	var c config
	data, err := os.ReadFile(path)
	if text := os.Getenv("TELEPORT_CONFIG"); text != "" {
		path = "TELEPORT_CONFIG"
		data, err = base64.StdEncoding.DecodeString(text)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && named == "":
	case err != nil:
		return c, fmt.Errorf("read configuration: %w", err)
	default:
		if err := yaml.Unmarshal(data, &c); err != nil {
			return c, fmt.Errorf("read configuration %s: %w", path, err)
		}
	}
	override := func(value *string, flag, standard string) {
		if flag != "" {
			*value = flag
		} else if *value == "" {
			*value = standard
		}
	}
	override(&c.Teleport.DataDir, given.dataDir, defaultDataDir)
	override(&c.Teleport.DiagAddr, given.diagAddr, defaultDiagAddr)
	override(&c.StandIn.JournalMode, "", "wal")
	if c.StandIn.JournalMode != "wal" && c.StandIn.JournalMode != "delete" {
		return c, fmt.Errorf("journal_mode %q is neither wal nor delete", c.StandIn.JournalMode)
	}
	if c.StandIn.RowsPerSecond == nil {
		standard := 3
		c.StandIn.RowsPerSecond = &standard
	}
	if n := *c.StandIn.RowsPerSecond; n < 0 || n > 1000 {
		return c, fmt.Errorf("rows_per_second %d is not between 0 and 1000", n)
	}
	return c, nil
}
