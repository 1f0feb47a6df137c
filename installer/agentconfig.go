package installer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.yaml.in/yaml/v3"
)

// agentSettings is what the updater takes from the agent's own configuration
// when it was not told otherwise (RFD 0169 §Runtime, §Details - Teleport API).
type agentSettings struct {
	Proxy   string // teleport.proxy_server
	Group   string // teleport.upgrade_group
	DataDir string // teleport.data_dir: where its database and host_uuid are
}

// readAgentSettings reads them. A file that is not there has none.
func readAgentSettings(path string) (agentSettings, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return agentSettings{}, nil
	}
	if err != nil {
		return agentSettings{}, fmt.Errorf("read the agent's configuration: %w", err)
	}
	if info.Size() > maxConfigSize {
		return agentSettings{}, fmt.Errorf("read the agent's configuration: %s is larger than %d bytes", path, maxConfigSize)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return agentSettings{}, fmt.Errorf("read the agent's configuration: %w", err)
	}
	var file struct {
		Teleport struct {
			ProxyServer  string `yaml:"proxy_server"`
			UpgradeGroup string `yaml:"upgrade_group"`
			DataDir      string `yaml:"data_dir"`
		} `yaml:"teleport"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return agentSettings{}, fmt.Errorf("read the agent's configuration %s: %w", path, plainYAML(err))
	}
	t := file.Teleport
	return agentSettings{Proxy: t.ProxyServer, Group: t.UpgradeGroup, DataDir: t.DataDir}, nil
}
