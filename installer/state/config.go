package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/internal/plaintext"
	"teleport-update/internal/regular"
	"teleport-update/internal/version"
)

const (
	configVersion = "v1"
	configKind    = "agent_versions"
	// DefaultMaxAge is how old a database backup may be to be restored.
	DefaultMaxAge = 720 * time.Hour
	// MaxConfigSize is far more than a configuration has, in bytes.
	MaxConfigSize = 1 << 20
)

// Config is updates.yaml: the shape of RFD 0169 (§Filesystem) and more. Fields
// this program does not know survive a rewrite.
type Config struct {
	Version string  `yaml:"version"`
	Kind    string  `yaml:"kind"`
	Spec    Spec    `yaml:"spec"`
	Status  Status  `yaml:"status,omitempty"`
	Unknown unknown `yaml:",inline"`
}

// Spec is what a person asked for, and the version that is linked.
type Spec struct {
	Proxy         string   `yaml:"proxy" json:"proxy"`
	Group         string   `yaml:"group,omitempty" json:"group,omitempty"`
	Enabled       bool     `yaml:"enabled" json:"enabled"`
	Pinned        bool     `yaml:"pinned" json:"pinned"`
	ActiveVersion string   `yaml:"active_version,omitempty" json:"active_version,omitempty"`
	URLTemplates  []string `yaml:"url_templates,omitempty" json:"url_templates,omitempty"`
	CAFile        string   `yaml:"ca_file,omitempty" json:"ca_file,omitempty"`
	ProgramsDir   string   `yaml:"programs_dir,omitempty" json:"programs_dir,omitempty"` // see Paths.Programs; the usual one is not written
	UnitDir       string   `yaml:"unit_dir,omitempty" json:"unit_dir,omitempty"`         // where units are; the usual folder is not written
	LinkDir       string   `yaml:"link_dir,omitempty" json:"link_dir,omitempty"`         // where links are; the usual folder is not written
	// the agent's own configuration; the usual file is not written
	AgentConfig string     `yaml:"agent_config,omitempty" json:"agent_config,omitempty"`
	Health      HealthSpec `yaml:"health,omitempty" json:"health,omitzero"`
	Backup      BackupSpec `yaml:"backup,omitempty" json:"backup,omitzero"`
	// TextfileDir is the folder for node_exporter's metrics; without it none are written.
	TextfileDir string `yaml:"textfile_dir,omitempty" json:"textfile_dir,omitempty"`
	// NoClusterReport means that the agent knows nothing of its updater, and reports nothing about it
	// to its cluster.
	NoClusterReport bool `yaml:"no_cluster_report,omitempty" json:"no_cluster_report,omitempty"`
	// AllowProxyConflict means that a person allowed a proxy on another host than the one that the agent's configuration names.
	AllowProxyConflict bool    `yaml:"allow_proxy_conflict,omitempty" json:"allow_proxy_conflict,omitempty"`
	Unknown            unknown `yaml:",inline" json:"-"`
}

// KeepUnknown takes over the unknown fields of another Spec: they are never handed from one process
// to another, and stay as updates.yaml has them.
func (s *Spec) KeepUnknown(of Spec) {
	s.Unknown, s.Health.Unknown, s.Backup.Unknown = of.Unknown, of.Health.Unknown, of.Backup.Unknown
}

// BackupSpec says how old a database backup may be to be restored. The agent's
// certificates in it expire; 0 means the default of 720h.
type BackupSpec struct {
	MaxAge  Duration `yaml:"max_age,omitempty" json:"max_age,omitzero"`
	Unknown unknown  `yaml:",inline" json:"-"`
}

// ErrEmpty means that the file of the configuration is there, and empty.
var ErrEmpty = errors.New("the file is empty")

// EmptyConfig returns the configuration of a host on which the updater was never enabled.
func EmptyConfig() Config { return Config{Version: configVersion, Kind: configKind} }

// LoadConfig reads updates.yaml as it stands there; see Paths.LoadConfig for what RFD 0169 leaves
// out of it. A missing file is an empty configuration: the updater is installed but was never
// enabled.
func LoadConfig(path string) (Config, error) {
	c, _, err := LoadConfigOr(path, "")
	return c, err
}

// LoadConfigOr is LoadConfig for a file whose text was recorded: a file that is gone, or empty, is
// lost, and the recorded configuration holds. An empty text records nothing.
func LoadConfigOr(path, recorded string) (c Config, lost bool, err error) {
	data, err := regular.Read(path, MaxConfigSize, regular.NoLink|regular.Sealed)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return Config{}, false, failure.Unchanged("read the configuration: %w", err)
	}
	data = plaintext.UTF8(data)
	// A power cut leaves zeros in the place of text that was written without a sync.
	empty := len(bytes.Trim(data, " \t\r\n\x00")) == 0
	switch {
	case empty && recorded != "":
		data, lost = []byte(recorded), true
	case missing:
		return EmptyConfig(), false, nil
	case empty:
		return Config{}, false, failure.Unchanged("read the configuration %s: %w", path, ErrEmpty).
			To("put it back from a backup; without one, remove it and run `teleport-update enable` with the flags that it had")
	}
	if c, err = ParseConfig(string(data)); err != nil {
		return Config{}, false, failure.Unchanged("read the configuration %s: %w", path, err).To("repair the file")
	}
	return c, lost, nil
}

// ParseConfig reads the text of a configuration.
func ParseConfig(text string) (c Config, err error) {
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		return Config{}, PlainYAML(err)
	}
	if err := c.check(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// PlainYAML says what is wrong with a file, and in which line, without the
// terms of the parser.
func PlainYAML(err error) error {
	prefix := regexp.MustCompile(`yaml: (unmarshal errors:\s*)?`)
	kind := regexp.MustCompile("cannot unmarshal (?:!!\\w+ )?(`.*?`)? ?into ([\\w.\\[\\]]+)")
	return errors.New(kind.ReplaceAllString(prefix.ReplaceAllString(err.Error(), ""), "$1 is not what belongs there ($2)"))
}

// UnknownSettings names the settings that this program does not know, as in "health.windw". Those
// in status are left out: programs write them, so they are never misspelt.
func (c Config) UnknownSettings() (names []string) {
	for prefix, fields := range map[string]unknown{"": c.Unknown, "spec.": c.Spec.Unknown, "spec.health.": c.Spec.Health.Unknown,
		"spec.backup.": c.Spec.Backup.Unknown} {
		for name := range fields {
			names = append(names, prefix+name)
		}
	}
	slices.Sort(names)
	return names
}

// Active returns the release that is linked, the zero Release before the first enable.
func (c Config) Active() version.Release {
	return version.Release{Version: c.Spec.ActiveVersion, Edition: c.Status.ActiveEdition}
}

// Committed reports whether a transaction made the active version active, as far as is known.
func (c Config) Committed() bool {
	v := c.committed()
	return v == c.Spec.ActiveVersion || v == "" && c.Status.ActiveSchema != ""
}

// Edited reports whether somebody wrote a version into active_version other than the one that a transaction made active: the
// database, and its record, are another version's.
func (c Config) Edited() bool {
	v := c.committed()
	return v != "" && v != c.Spec.ActiveVersion
}

// committed returns the version that is recorded to be the active one; empty if it is not known. Older updaters leave no
// record of their own of it.
func (c Config) committed() string {
	if last := c.Status.LastUpdate; c.Status.CommittedVersion == "" && last != nil && last.Result == Succeeded {
		return last.Target
	}
	return c.Status.CommittedVersion
}

// GoOnWith returns the advice to make another version active again than the one that somebody wrote into active_version.
func (c Config) GoOnWith(there version.Release) string {
	return fmt.Sprintf("`teleport-update pin %s` makes that the active version again; change the version with `teleport-update pin` or by "+
		"the cluster, which back up the database, and do not edit active_version", there.Version)
}

// Previous returns the release that was active before.
func (c Config) Previous() version.Release {
	return version.Release{Version: c.Status.PreviousVersion, Edition: c.Status.PreviousEdition}
}

// PreviousFailed returns the record of the previous release if it failed; nil if it did not. A host that left it for
// that goes back to it only if a person names it. A first way back to it that was undone is not such a failure: a
// disk may have been the cause, and the way is tried again.
func (c Config) PreviousFailed() *Failed {
	failed, last := c.Status.FailureOf(c.Previous()), c.Status.LastUpdate
	if failed != nil && failed.Attempts == 1 && last != nil && last.Target == c.Status.PreviousVersion && last.Result != Succeeded {
		return nil
	}
	return failed
}

// check refuses values that later become paths or commands.
func (c Config) check() error {
	if c.Version != configVersion || c.Kind != configKind {
		return fmt.Errorf("want version %s and kind %s, found %q and %q", configVersion, configKind, c.Version, c.Kind)
	}
	for field, v := range map[string]string{
		"spec.active_version":     c.Spec.ActiveVersion,
		"status.previous_version": c.Status.PreviousVersion,
	} {
		if v != "" && !isVersion(v) {
			return fmt.Errorf("%s: %q is not a version", field, v)
		}
	}
	if dir := c.Spec.ProgramsDir; dir != "" {
		if err := CheckProgramsDir(dir); err != nil {
			return fmt.Errorf("spec.programs_dir: %w", err)
		}
	}
	for field, e := range map[string]version.Edition{
		"status.active_edition":   c.Status.ActiveEdition,
		"status.previous_edition": c.Status.PreviousEdition,
	} {
		if _, err := version.ParseEdition(string(e)); err != nil && e != "" {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

// isVersion reports whether a text is a version in the form of records.
func isVersion(text string) bool {
	clean, err := version.Parse(text)
	return err == nil && clean == text
}

// Save writes updates.yaml durably. Templates may carry credentials, so only
// root reads it.
func (c Config) Save(path string) error {
	text, err := c.Text()
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return durable.WriteFile(path, []byte(text), 0o600)
}

// Text returns the configuration as Save writes it.
func (c Config) Text() (string, error) {
	var b strings.Builder
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := enc.Encode(c)
	return b.String(), err
}
