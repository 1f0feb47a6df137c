package host

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"teleport-update/find"
	"teleport-update/installer/state"
	"teleport-update/internal/console"
	"teleport-update/internal/failure"
	"teleport-update/internal/plaintext"
	"teleport-update/internal/regular"
	"teleport-update/internal/trust"
)

// AgentSettings are the settings that the updater takes from the agent's own configuration if it
// was given no others (RFD 0169 §Runtime, §Details - Teleport API).
type AgentSettings struct {
	// Proxy is teleport.proxy_server, with the agent's default port if it names no port; else the host
	// of teleport.auth_server or of the first of auth_servers, with its port unless that is the auth
	// service's own.
	Proxy  string
	ByAuth bool   // Proxy is the host of an auth server, and no proxy is named
	Bare   string // Proxy as the configuration has it, perhaps without a port
	// MoreServers are all of auth_servers, which the agent asks in turn; none if the configuration names a proxy.
	MoreServers []string
	Group       string // teleport.upgrade_group
	DataDir     string // teleport.data_dir: where its database and host_uuid are
	// Servers are the services of the cluster itself that the host runs, by their names
	// in the file: "auth_service, proxy_service".
	Servers string
	NoAuth  bool // auth_service is there, and says that it is not enabled
}

// NamesProxy reports whether the configuration names a proxy: by that name, or as an auth server at a port of
// proxies, which is how old agents join through one. Without a port, an auth server is at its own.
func (a AgentSettings) NamesProxy() bool {
	if !a.ByAuth {
		return true
	}
	_, port, err := net.SplitHostPort(a.Bare)
	return err == nil && (port == webPort || port == strconv.Itoa(ProxyPort))
}

// agentFile is the part of the file that is read.
type agentFile struct {
	Teleport struct {
		ProxyServer  oneText   `yaml:"proxy_server"`
		AuthServer   oneText   `yaml:"auth_server"`
		AuthServers  yaml.Node `yaml:"auth_servers"` // old files have several forms
		UpgradeGroup oneText   `yaml:"upgrade_group"`
		DataDir      oneText   `yaml:"data_dir"`
	} `yaml:"teleport"`
	Auth  *service `yaml:"auth_service"`
	Proxy *service `yaml:"proxy_service"`
}

// service is a section of the file. Teleport takes a section for enabled unless it says that it is
// not.
type service struct {
	Enabled oneText `yaml:"enabled"`
}

func (s *service) runs() bool {
	if s == nil {
		return false
	}
	switch strings.ToLower(string(s.Enabled)) {
	case "no", "false", "off", "n", "0":
		return false
	}
	return true
}

func (f agentFile) servers() string {
	var names []string
	if f.Auth.runs() {
		names = append(names, "auth_service")
	}
	if f.Proxy.runs() {
		names = append(names, "proxy_service")
	}
	return strings.Join(names, ", ")
}

// oneText is a text of the file. People write lists there, and the parser's own words for that help
// nobody.
type oneText string

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *oneText) UnmarshalYAML(n *yaml.Node) error {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.SequenceNode:
		return fmt.Errorf("line %d: a list is not what belongs there: name one of them, without brackets and dashes", n.Line)
	case yaml.MappingNode:
		return fmt.Errorf("line %d: more settings are not what belongs there: one text is (a placeholder that nobody filled in?)", n.Line)
	}
	var text string
	err := n.Decode(&text)
	*t = oneText(text)
	return err
}

// plainFile says what is wrong with the text of a file if the parser has no words for it.
func plainFile(data []byte, err error) error {
	data = plaintext.UTF8(data)
	switch {
	case !utf8.Valid(data):
		return errors.New("it is not in UTF-8: save it in that encoding")
	case bytes.IndexByte(data, 0) >= 0:
		return errors.New("it has bytes of zero, as text in UTF-16 has, and a file after a power cut: save it in UTF-8")
	}
	for n, line := range bytes.Split(data, []byte("\n")) {
		if indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]; bytes.ContainsRune(indent, '\t') {
			return fmt.Errorf("line %d begins with a tab: YAML takes spaces there", n+1)
		}
	}
	return state.PlainYAML(err)
}

// ReadAgentSettings reads the settings. A missing file has none.
func ReadAgentSettings(path string) (AgentSettings, error) {
	data, err := regular.Read(path, state.MaxConfigSize, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return AgentSettings{}, nil
	}
	if err != nil {
		return AgentSettings{}, fmt.Errorf("read the agent's configuration: %w", err)
	}
	var file agentFile
	if err := yaml.Unmarshal(data, &file); err != nil {
		return AgentSettings{}, fmt.Errorf("read the agent's configuration %s: %w", path, plainFile(data, err))
	}
	t := file.Teleport
	proxy := string(t.ProxyServer)
	byAuth := proxy == ""
	var more []string
	if byAuth {
		first := &t.AuthServers
		for first.Kind == yaml.SequenceNode && len(first.Content) > 0 {
			first = first.Content[0]
		}
		auth := string(t.AuthServer)
		if auth == "" && first.Kind == yaml.ScalarNode {
			auth = first.Value
		}
		proxy = proxyOfAuth(auth)
		for _, server := range scalars(&t.AuthServers) {
			more = append(more, proxyOfAuth(server))
		}
	}
	for _, v := range []struct {
		name, value string
		limit       int
	}{
		{"upgrade_group", string(t.UpgradeGroup), maxGroup}, {"data_dir", string(t.DataDir), maxFolder},
		{"proxy_server or auth_server", proxy, maxAddress},
	} {
		if err := plainWords(v.value, v.limit); err != nil {
			return AgentSettings{}, fmt.Errorf("read the agent's configuration %s: teleport.%s %w", path, v.name, err)
		}
	}
	address, _ := find.WithPort(proxy, ProxyPort)
	return AgentSettings{Proxy: address, ByAuth: byAuth && proxy != "", Bare: proxy, MoreServers: more, Group: string(t.UpgradeGroup),
		DataDir: string(t.DataDir), Servers: file.servers(), NoAuth: file.Auth != nil && !file.Auth.runs()}, nil
}

// Limits of settings, in bytes: the agent's user may have written the file, and its text comes into
// errors, the history and status.
const (
	maxGroup   = 200
	maxFolder  = 1024
	maxAddress = 512
)

// plainWords refuses a text that is no name, path or address for a person to read.
func plainWords(s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("is longer than %d bytes: %q", limit, console.Excerpt(s, 40))
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !console.Printable(r) }) {
		return fmt.Errorf("has characters that cannot be printed: %q", console.Excerpt(s, 40))
	}
	return nil
}

// scalars returns the texts of a node and of all lists in it.
func scalars(n *yaml.Node) (all []string) {
	switch n.Kind {
	case yaml.ScalarNode:
		return []string{n.Value}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			all = append(all, scalars(item)...)
		}
	}
	return all
}

// Ports of Teleport's.
const (
	ProxyPort = 3080 // of a proxy whose address names none
	authPort  = "3025"
	webPort   = "443" // of most proxies
)

// proxyOfAuth returns the address of the proxy that an agent with the address of an auth server may
// have: agents take the one for the other, for the proxy knows the way.
func proxyOfAuth(auth string) string {
	if _, rest, ok := strings.Cut(auth, "://"); ok {
		auth = rest
	}
	return strings.TrimSuffix(strings.TrimSuffix(auth, "/"), ":"+authPort)
}

// AgentDataDir returns the folder in which the agent keeps its state: the one that its unit leads
// to, else the one in its configuration, else our data folder. If one of these cannot be read,
// nobody knows, and a guess would take the agent's database for absent.
func (h *Host) AgentDataDir() (string, error) {
	p, err := h.AgentPlaces()
	if err != nil {
		return "", err
	}
	return p.dataDir(h.Paths.DataDir)
}

// dataDir returns where an agent keeps its state if its unit leads it to these places; usual is the default.
func (p Places) dataDir(usual string) (string, error) {
	if p.DataDir != "" {
		return p.DataDir, nil
	}
	agent, err := ReadAgentSettings(p.Config)
	if err != nil {
		return "", err
	}
	if agent.DataDir != "" && !filepath.IsAbs(agent.DataDir) {
		return "", failure.Unchanged("%s names the data folder %q, which depends on the folder that the agent is started in", p.Config,
			agent.DataDir).To("write the whole path there")
	}
	return cmp.Or(agent.DataDir, usual), nil
}

// Database returns the agent's database file.
func (h *Host) Database() (string, error) {
	dir, err := h.AgentDataDir()
	return databaseIn(dir), err
}

// databaseIn returns the database file in an agent's data folder.
func databaseIn(dataDir string) string { return filepath.Join(dataDir, "proc", "sqlite.db") }

// ResolveProxy fills in a missing proxy and group: those in spec come from the command, else from
// updates.yaml; missing ones come from the agent's own configuration, if nobody but root can change it.
func (h *Host) ResolveProxy(spec *state.Spec) error {
	if spec.Proxy != "" && spec.Group != "" {
		return nil
	}
	p, err := h.AgentPlaces()
	config := p.Config
	agent := AgentSettings{}
	if err == nil {
		agent, err = ReadAgentSettings(config)
	}
	if err != nil {
		if spec.Proxy == "" {
			return failure.Unchanged("%w", err)
		}
		h.Log.Warn("the group could not be read from the agent's configuration", "error", err)
		return nil
	}
	if spec.Proxy == "" && agent.Proxy != "" {
		// The proxy names the programs that root will run.
		if err := trust.Path(config); err != nil {
			return failure.Unchanged("the proxy is not taken from %s: %w", config, err).To("name the proxy with `teleport-update enable --proxy`")
		}
		spec.Proxy = agent.Proxy
	}
	if spec.Group == "" && agent.Group != "" {
		// The group decides when they run.
		if err := trust.Path(config); err != nil {
			h.Log.Warn("the group is not taken from the agent's configuration, and this host counts as one without a group: "+
				"name the group with `teleport-update enable --group`", "file", config, "error", err)
		} else {
			spec.Group = agent.Group
		}
	}
	if spec.Proxy == "" {
		return failure.Unchanged("no proxy address is known").
			To("name it with `teleport-update enable --proxy`, or set teleport.proxy_server in %s", config)
	}
	if _, err := find.ParseProxy(spec.Proxy); err != nil {
		return failure.Unchanged("%w", err).To("name another with `teleport-update enable --proxy`")
	}
	return nil
}
