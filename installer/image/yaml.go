package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"teleport-update/internal/layout"
)

// configurations are the configurations of agents, bots and the updater, besides those named in units.
var configurations = []string{
	filepath.Join(layout.DataDir, "versions", "updates.yaml"),
	"/etc/teleport*.yaml", "/etc/teleport*.yml", "/etc/teleport/*.yaml", "/etc/teleport/*.yml",
	"/etc/tbot*.yaml", "/etc/tbot*.yml", "/etc/tbot/*.yaml", "/etc/tbot/*.yml",
}

func (l *look) configurations() error {
	paths := slices.Clone(l.config)
	var errs []error
	for _, pattern := range configurations {
		more, err := l.glob(pattern)
		paths, errs = append(paths, more...), append(errs, err)
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		data, err := l.read(path)
		if err == nil {
			err = l.yaml(path, data)
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, l.file("/etc/teleport-token"))...)
}

// yaml looks at a file, whichever of YAML's styles it is written in.
func (l *look) yaml(path string, data []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s cannot be read as YAML, and may hold a token: %w", path, err)
		}
		if err := l.node(path, &document, 0); err != nil {
			return err
		}
	}
}

// keyFolders are the fields of a bot's configuration that name the folders of its state and of the keys that it writes: storage and the
// destinations of its outputs.
var keyFolders = []string{"path", "directory"}

// maxDepth is deeper than configuration is; an alias can hold itself.
const maxDepth = 50

func (l *look) node(path string, n *yaml.Node, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s is nested too deep to be read, and may hold a token", path)
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	var errs []error
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			errs = append(errs, l.entry(path, n, n.Content[i].Value, n.Content[i+1]), l.node(path, n.Content[i+1], depth+1))
		}
	case yaml.ScalarNode:
		l.urls(path, n.Value)
	default:
		for _, c := range n.Content {
			errs = append(errs, l.node(path, c, depth+1))
		}
	}
	return errors.Join(errs...)
}

// entry looks at one entry of a mapping.
func (l *look) entry(path string, mapping *yaml.Node, key string, value *yaml.Node) error {
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	where := filepath.Join(l.root, path)
	values := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		values = value.Content
	}
	var errs []error
	for _, v := range values {
		if v.Kind == yaml.AliasNode {
			v = v.Alias
		}
		if v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
			continue
		}
		switch {
		case key == "data_dir" && filepath.IsAbs(v.Value):
			if dir := filepath.Clean(v.Value); !slices.Contains(l.found.DataDirs, dir) {
				l.found.DataDirs = append(l.found.DataDirs, dir)
			}
		case slices.Contains(keyFolders, key) && filepath.IsAbs(v.Value):
			l.keyDir(v.Value)
		case key == "tokens":
			// "node,proxy:TOKEN", or the path of a file with the token.
			text := v.Value
			if _, token, ok := strings.Cut(text, ":"); ok {
				text = token
			}
			errs = append(errs, l.value(where, text))
		case namesToken(key) && delegated(mapping):
		case namesToken(key) || isSecret(key):
			errs = append(errs, l.value(where, v.Value))
		case isSecret(strings.TrimSuffix(strings.TrimSuffix(key, "_path"), "_file")) && filepath.IsAbs(v.Value):
			errs = append(errs, l.file(v.Value))
		}
	}
	return errors.Join(errs...)
}

// namesToken reports whether the value is the name of a token, which with some methods of joining is no secret.
func namesToken(key string) bool { return key == "token_name" || key == "token" }

// isSecret reports whether a key's value gives its reader access.
func isSecret(key string) bool {
	if key == "registration_secret_value" {
		return true
	}
	for _, end := range []string{"secret", "password", "passphrase", "_token", "api_key", "private_key"} {
		if strings.HasSuffix(key, end) {
			return true
		}
	}
	return false
}

// provers are the methods by which a machine proves by itself who it is.
var provers = []string{
	"azure", "azure_devops", "bitbucket", "circleci", "ec2", "env0", "gcp", "github", "gitlab", "iam", "kubernetes", "oracle", "spacelift",
	"terraform_cloud", "tpm",
}

// delegated reports whether the mapping that names a token names such a method, too.
func delegated(mapping *yaml.Node) bool {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i].Value, mapping.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if key == "method" || key == "join_method" {
			return slices.Contains(provers, value.Value)
		}
	}
	return false
}
