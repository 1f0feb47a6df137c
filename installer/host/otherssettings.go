package host

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/regular"
	"teleport-update/internal/trust"
	"teleport-update/internal/version"
	"teleport-update/versions/fetch"
)

// defaultBaseURL is where Teleport's own updater gets releases from by default.
const defaultBaseURL = "https://cdn.teleport.dev"

// OthersSettings are the settings that Teleport's own updater was given, or chose.
type OthersSettings struct {
	Proxy, Group string
	Template     string // from its base_url; empty if it has none
	Pinned       bool
	Active       version.Release
}

// ReadOthersSettings reads them; it returns the zero OthersSettings if that updater is not here.
func ReadOthersSettings() (OthersSettings, error) {
	if !Exists(othersConfig) {
		return OthersSettings{}, nil
	}
	// It names the programs that root will run.
	if err := trust.Path(othersConfig); err != nil {
		return OthersSettings{}, failure.Unchanged("the settings of the other updater cannot be relied on: %w", err).
			To("make %s writable by root only", othersConfig)
	}
	data, err := regular.Read(othersConfig, state.MaxConfigSize, regular.NoLink)
	if err != nil {
		return OthersSettings{}, failure.Unchanged("read the settings of the other updater: %w", err)
	}
	return parseOthersSettings(data)
}

func parseOthersSettings(data []byte) (s OthersSettings, err error) {
	var file struct {
		Spec struct {
			Proxy, Group string
			BaseURL      string `yaml:"base_url"`
			Pinned       bool
		}
		Status struct {
			Active struct {
				Version string
				Flags   []string
			}
		}
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return s, failure.Unchanged("read the settings of the other updater %s: %w", othersConfig, state.PlainYAML(err)).To("repair the file")
	}
	s = OthersSettings{Proxy: file.Spec.Proxy, Group: file.Spec.Group, Pinned: file.Spec.Pinned}
	if url := file.Spec.BaseURL; url != "" {
		s.Template = strings.TrimSuffix(url, "/") + strings.TrimPrefix(fetch.DefaultTemplate, defaultBaseURL)
		if _, err := fetch.ParseTemplate(s.Template); err != nil {
			return s, failure.Unchanged("the base_url of the other updater is not taken over: %w", err).
				To("name the URL of releases with --template")
		}
	}
	active := file.Status.Active
	if active.Version == "" {
		return s, nil
	}
	v, err := version.Parse(active.Version)
	if err != nil {
		return s, failure.Unchanged("read the settings of the other updater %s: %w", othersConfig, err).To("repair the file")
	}
	s.Active = version.Release{Version: v, Edition: version.OSS}
	for _, flag := range active.Flags {
		switch {
		case flag == "FIPS":
			s.Active.Edition = version.FIPS
		case flag == "Enterprise" && s.Active.Edition == version.OSS:
			s.Active.Edition = version.Enterprise
		}
	}
	return s, nil
}
