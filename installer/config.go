package installer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
	"teleport-update/internal/version"
)

const (
	configVersion = "v1"
	configKind    = "agent_versions"
	defaultWindow = 30 * time.Second
	defaultMaxAge = 720 * time.Hour
	maxConfigSize = 1 << 20
)

// Config is updates.yaml: the shape of RFD 0169 (§Filesystem) and more. Fields
// this program does not know survive a rewrite.
type Config struct {
	Version string         `yaml:"version"`
	Kind    string         `yaml:"kind"`
	Spec    Spec           `yaml:"spec"`
	Status  Status         `yaml:"status,omitempty"`
	Unknown map[string]any `yaml:",inline"`
}

// Spec is what a person asked for, and the version that is linked.
type Spec struct {
	Proxy         string         `yaml:"proxy"`
	Group         string         `yaml:"group,omitempty"`
	Enabled       bool           `yaml:"enabled"`
	Pinned        bool           `yaml:"pinned"`
	ActiveVersion string         `yaml:"active_version,omitempty"`
	URLTemplates  []string       `yaml:"url_templates,omitempty"`
	CAFile        string         `yaml:"ca_file,omitempty"`
	Health        HealthSpec     `yaml:"health,omitempty"`
	Backup        BackupSpec     `yaml:"backup,omitempty"`
	Unknown       map[string]any `yaml:",inline" json:",omitempty"`
}

// HealthSpec bounds the health watch. A Window of 0 means the default.
type HealthSpec struct {
	Window   Duration `yaml:"window,omitempty"`
	ReadyURL string   `yaml:"ready_url,omitempty"`
}

// BackupSpec says how old a database backup may be to be restored. The agent's
// certificates in it expire; 0 means the default of 720h.
type BackupSpec struct {
	MaxAge Duration `yaml:"max_age,omitempty"`
}

// Status is what became of it all.
type Status struct {
	ActiveEdition   version.Edition `yaml:"active_edition,omitempty"`
	PreviousVersion string          `yaml:"previous_version,omitempty"`
	PreviousEdition version.Edition `yaml:"previous_edition,omitempty"`
	// Unproven is set when the active version was switched to while the agent
	// was not running, so that nothing could be watched.
	Unproven    bool         `yaml:"unproven,omitempty"`
	LastUpdate  *LastUpdate  `yaml:"last_update,omitempty"`
	Failed      *Failed      `yaml:"failed,omitempty"`
	Interrupted *Interrupted `yaml:"interrupted,omitempty"`
	Held        *Held        `yaml:"held,omitempty"`
	Refused     *Refused     `yaml:"refused,omitempty"`
	// PackagesLeft could not be removed when their agent was taken over.
	PackagesLeft []PackageLeft  `yaml:"packages_left,omitempty"`
	Unknown      map[string]any `yaml:",inline"`
}

// Result is how the last transaction ended.
type Result string

const (
	Succeeded   Result = "succeeded"
	RolledBack  Result = "rolled_back"
	FailedEarly Result = "failed" // nothing live had been touched
	Interrupt   Result = "interrupted"
)

// LastUpdate is the outcome of the last attempt to change the version.
type LastUpdate struct {
	Time          time.Time       `yaml:"time"`
	Target        string          `yaml:"target"`
	TargetEdition version.Edition `yaml:"target_edition,omitempty"`
	Result        Result          `yaml:"result"`
	Error         string          `yaml:"error,omitempty"`
	SkippedBackup bool            `yaml:"skipped_backup,omitempty"`
	// Transaction is the one that was undone, as its journal names it.
	Transaction string `yaml:"transaction,omitempty"`
}

// Failed remembers the version that did not hold, so that the timer does not
// try it again at every tick.
type Failed struct {
	Version     string          `yaml:"version"`
	Edition     version.Edition `yaml:"edition,omitempty"`
	SHA256      string          `yaml:"sha256,omitempty"`
	Attempts    int             `yaml:"attempts"`
	NextAttempt time.Time       `yaml:"next_attempt"`
	Error       string          `yaml:"error"`
}

// Interrupted counts transactions to one version that were cut off from
// outside. They say little about the version until the third.
type Interrupted struct {
	Version string          `yaml:"version"`
	Edition version.Edition `yaml:"edition,omitempty"`
	Count   int             `yaml:"count"`
}

// Held is the wish of find that a rollback by hand holds back.
type Held struct {
	Version string          `yaml:"version"`
	Edition version.Edition `yaml:"edition,omitempty"`
	Since   time.Time       `yaml:"since"`
}

// Refused is a target that must not be installed here, and why. It is reported
// as an error once per target.
type Refused struct {
	Version string          `yaml:"version"`
	Edition version.Edition `yaml:"edition,omitempty"`
	Reason  string          `yaml:"reason"`
}

func (r *Refused) is(t target) bool {
	return r != nil && r.Version == t.Version && (r.Edition == "" || r.Edition == t.Edition)
}

// Duration is a time.Duration written as text, as in 30s or 720h.
type Duration time.Duration

// Std is the duration as the standard library has it.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%.40q is not a duration such as 30s or 720h", text)
	}
	if v < 0 {
		return fmt.Errorf("the duration %s is negative", v)
	}
	*d = Duration(v)
	return nil
}

// loadConfig reads updates.yaml. One that is not there is an empty
// configuration: the updater is installed but was never enabled.
func loadConfig(path string) (Config, error) {
	empty := Config{Version: configVersion, Kind: configKind}
	data, err := readTrusted(path, maxConfigSize)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration: %w; nothing was changed", err)
	}
	var c Config
	if err := yaml.Unmarshal(data, &c); err != nil {
		return Config{}, fmt.Errorf("read the configuration %s: %w; nothing was changed: repair the file", path, plainYAML(err))
	}
	if err := c.check(); err != nil {
		return Config{}, fmt.Errorf("read the configuration %s: %w; nothing was changed: repair the file", path, err)
	}
	return c, nil
}

// plainYAML says what is wrong with a file, and in which line, without the
// terms of the parser.
func plainYAML(err error) error {
	prefix := regexp.MustCompile(`yaml: (unmarshal errors:\s*)?`)
	kind := regexp.MustCompile("cannot unmarshal (?:!!\\w+ )?(`.*?`)? ?into ([\\w.\\[\\]]+)")
	return errors.New(kind.ReplaceAllString(prefix.ReplaceAllString(err.Error(), ""), "$1 is not what belongs there ($2)"))
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
		if v == "" {
			continue
		}
		if clean, err := version.Parse(v); err != nil || clean != v {
			return fmt.Errorf("%s: %q is not a version", field, v)
		}
	}
	for field, e := range map[string]version.Edition{
		"status.active_edition":   c.Status.ActiveEdition,
		"status.previous_edition": c.Status.PreviousEdition,
	} {
		if e == "" {
			continue
		}
		if _, err := version.ParseEdition(string(e)); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

// save writes updates.yaml durably. Templates may carry credentials, so only
// root reads it.
func (c Config) save(path string) error {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(c); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return durable.WriteFile(path, b.Bytes(), 0o600)
}

// readTrusted reads a file whose content decides what runs as root. When run as
// root it takes only a regular file that nobody else could have written.
func readTrusted(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s is a symbolic link, not a file of ours; remove it", path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() {
		if err := ownedByRoot(path, info); err != nil {
			return nil, err
		}
	}
	return readRegular(f, limit)
}

// readPlain reads a file that is not ours: a link may lead to it, but what it ends
// at must be a regular file of a reasonable size.
func readPlain(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readRegular(f, limit)
}

func readRegular(f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", f.Name())
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", f.Name(), limit)
	}
	return data, nil
}

// ownedByRoot refuses what another user owns or may write, when run as root.
// An ordinary user's run trusts the user's own files.
func ownedByRoot(path string, info fs.FileInfo) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 0 {
		return fmt.Errorf("%s belongs to user %d, not to root: somebody else could have written it; check it, then chown it to root", path, st.Uid)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s may be written by others than root (mode %v): check it, then chmod go-w", path, info.Mode().Perm())
	}
	return nil
}
