package installer

import (
	"errors"
	"fmt"
	"io/fs"

	"go.yaml.in/yaml/v3"
)

// agentSettings is what the updater takes from the agent's own configuration
// when it was not told otherwise (RFD 0169 §Runtime, §Details - Teleport API).
type agentSettings struct {
	Proxy   string // teleport.proxy_server
	Group   string // teleport.upgrade_group
	DataDir string // teleport.data_dir: where its database and host_uuid are
}

// agentFile is as much of the file as is read.
type agentFile struct {
	Teleport struct {
		ProxyServer  string `yaml:"proxy_server"`
		UpgradeGroup string `yaml:"upgrade_group"`
		DataDir      string `yaml:"data_dir"`
	} `yaml:"teleport"`
}

// readAgentSettings reads them. A file that is not there has none.
func readAgentSettings(path string) (agentSettings, error) {
	data, err := readPlain(path, maxConfigSize)
	if errors.Is(err, fs.ErrNotExist) {
		return agentSettings{}, nil
	}
	if err != nil {
		return agentSettings{}, fmt.Errorf("read the agent's configuration: %w", err)
	}
	var file agentFile
	if err := yaml.Unmarshal(data, &file); err != nil {
		return agentSettings{}, fmt.Errorf("read the agent's configuration %s: %w", path, plainYAML(err))
	}
	t := file.Teleport
	return agentSettings{Proxy: t.ProxyServer, Group: t.UpgradeGroup, DataDir: t.DataDir}, nil
}
