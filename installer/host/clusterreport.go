package host

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/layout"
	"teleport-update/internal/regular"
	"teleport-update/internal/version"
	"teleport-update/internal/webclient"
	"teleport-update/systemd"
	"teleport-update/versions/archive"
)

// ReportToCluster makes the agent report to its cluster how it is kept up to date, from its next
// start on, or stops that. It reports whether systemd has something to read.
func (h *Host) ReportToCluster(on bool) (changed bool, err error) {
	if on {
		// The agent compares it with its executable, as text.
		dir, err := filepath.EvalSymlinks(h.Paths.Programs())
		if err != nil {
			return false, err
		}
		r := systemd.UpdaterInfo{InstallDir: dir, ConfigFile: h.Paths.ClusterConfig(), RunDir: h.Paths.AgentRunDir}
		if h.othersSay("RuntimeDirectory") {
			r.RunDir = "" // all of a unit's folders in /run have one mode, and it is not ours to change
		}
		changed, err = h.OwnUnits().WriteUpdaterInfo(r)
		if changed && err == nil {
			h.Log.Info("the agent reports its updates to its cluster from its next start on")
		}
		return changed, err
	}
	if changed, err = h.OwnUnits().EraseUpdaterInfo(); err != nil {
		return changed, err
	}
	if err := h.removeClusterConfig(); err != nil {
		return changed, err
	}
	if h.Paths.AgentRunDir == "" {
		return changed, nil
	}
	return changed, durable.RemoveAll(h.Paths.AgentRunDir)
}

// othersSay reports whether the agent's unit, or another drop-in than the updater's, has a setting,
// by the beginning of its name.
func (h *Host) othersSay(setting string) bool {
	files := []string{h.Paths.Unit()}
	for _, dir := range append([]string{h.Paths.UnitDir, h.configDir()}, layout.PackageUnitDirs...) {
		more, _ := filepath.Glob(filepath.Join(dir, h.Paths.AgentUnit()+".d", "*.conf"))
		files = append(files, more...)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		content, err := regular.Read(file, archive.MaxUnit, 0)
		return err == nil && file != h.OwnUnits().UpdaterInfoFile() && bytes.Contains(content, []byte("\n"+setting))
	})
}

func (h *Host) removeClusterConfig() error {
	if path := h.Paths.ClusterConfig(); Exists(path) {
		return durable.Remove(path)
	}
	return nil
}

// clusterConfig is the file that agents read about an updater, in the form that they know. It has
// no secret: base_url, which Teleport's own updater writes too, is left out, for templates may
// carry credentials.
type clusterConfig struct {
	Version string        `yaml:"version"`
	Kind    string        `yaml:"kind"`
	Spec    clusterSpec   `yaml:"spec"`
	Status  clusterStatus `yaml:"status"`
}

type clusterSpec struct {
	Proxy   string `yaml:"proxy"`
	Path    string `yaml:"path"` // the folder of the links
	Group   string `yaml:"group,omitempty"`
	Enabled bool   `yaml:"enabled"`
	Pinned  bool   `yaml:"pinned"`
}

type clusterStatus struct {
	IDFile     string          `yaml:"id_file"`
	LastUpdate *clusterUpdate  `yaml:"last_update,omitempty"`
	Active     clusterRelease  `yaml:"active"`
	Backup     *clusterRelease `yaml:"backup,omitempty"`
	Skip       *clusterRelease `yaml:"skip,omitempty"`
}

type clusterUpdate struct {
	Success   bool           `yaml:"success"`
	Time      time.Time      `yaml:"time"`
	Target    clusterRelease `yaml:"target"`
	ErrorCode int            `yaml:"error_code,omitempty"`
}

type clusterRelease struct {
	Version string   `yaml:"version"`
	Flags   []string `yaml:"flags,omitempty,flow"`
}

func clusterReleaseOf(v string, e version.Edition) *clusterRelease {
	if v == "" {
		return nil
	}
	r := clusterRelease{Version: v}
	if e.Enterprise() {
		r.Flags = append(r.Flags, "Enterprise")
	}
	if e.FIPS() {
		r.Flags = append(r.Flags, "FIPS")
	}
	return &r
}

// WriteClusterConfig writes the file that the agent reads about its updater, unless it is there
// already. pinned says that the host does not follow its cluster now, for whatever reason. Without
// an active version, or if the agent is not to report, it removes the file.
func (h *Host) WriteClusterConfig(c state.Config, pinned bool) error {
	path := h.Paths.ClusterConfig()
	if c.Spec.ActiveVersion == "" || c.Spec.NoClusterReport {
		return h.removeClusterConfig()
	}
	spec, s := c.Spec, c.Status
	_ = h.ResolveProxy(&spec) // an unknown proxy or group is left out
	view := clusterConfig{
		Version: "v1", Kind: "update_config",
		Spec: clusterSpec{Proxy: webclient.Redact(spec.Proxy), Path: h.Paths.LinkDir, Group: spec.Group, Enabled: spec.Enabled, Pinned: pinned},
		Status: clusterStatus{
			IDFile: h.Paths.UpdateID(),
			Active: *clusterReleaseOf(c.Spec.ActiveVersion, s.ActiveEdition), Backup: clusterReleaseOf(s.PreviousVersion, s.PreviousEdition),
		},
	}
	if f := s.Failed; f != nil {
		view.Status.Skip = clusterReleaseOf(f.Version, f.Edition)
	}
	if u := s.LastUpdate; u != nil && u.Target != "" {
		view.Status.LastUpdate = &clusterUpdate{Success: u.Result == state.Succeeded, Time: u.Time,
			Target: *clusterReleaseOf(u.Target, cmp.Or(u.TargetEdition, s.ActiveEdition)), ErrorCode: u.ErrorCode}
	}
	var b bytes.Buffer
	b.WriteString("# Written by teleport-update for the agent, which reports it to its cluster. Changes are lost.\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(view); err != nil {
		return err
	}
	if now, err := regular.Read(path, state.MaxConfigSize, regular.NoLink); err == nil && bytes.Equal(now, b.Bytes()) {
		return nil
	}
	if err := durable.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write what the agent reports to its cluster: %w", err)
	}
	return nil
}
