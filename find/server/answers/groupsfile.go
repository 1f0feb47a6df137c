package answers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"teleport-update/find"
	"teleport-update/find/server/parts"
	"teleport-update/internal/version"
)

// defaultGroup is the entry of a groups file for all hosts whose group has no entry.
const defaultGroup = "default"

// override is the entry of one group in a groups file. A nil field does not change the
// answer.
type override struct {
	version    *string
	edition    *version.Edition
	autoUpdate *bool
	jitter     *time.Duration
}

func (o override) apply(a find.Answer) find.Answer {
	if o.version != nil {
		a.Version = *o.version
	}
	if o.edition != nil {
		a.Edition = *o.edition
	}
	if o.autoUpdate != nil {
		a.AutoUpdate = *o.autoUpdate
	}
	if o.jitter != nil {
		a.Jitter = *o.jitter
	}
	return a
}

// ParseJitter reads a jitter as flags and files give it: a number of seconds,
// or a duration such as "1m30s".
func ParseJitter(s string) (time.Duration, error) {
	jitter, err := time.ParseDuration(s)
	if seconds, numberErr := strconv.ParseInt(s, 10, 32); numberErr == nil {
		jitter, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || jitter < 0 || jitter > find.MaxJitter || jitter%time.Second != 0 {
		return 0, fmt.Errorf("jitter %.40q is not a whole number of seconds from 0 to %d, or such a duration as 1m30s", s,
			find.MaxJitter/time.Second)
	}
	return jitter, nil
}

// parseGroups reads a groups file: a mapping from group names to mappings with any of
// agent_version, edition, autoupdate and jitter. Any other content is an error with its
// place: a misspelt word must not send a group to a version that nobody meant for it.
func parseGroups(data []byte) (map[string]override, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, more yaml.Node
	err := decoder.Decode(&document)
	if err == io.EOF {
		return nil, errors.New("it is empty; write {} for no groups")
	}
	if err != nil {
		return nil, err
	}
	if err := decoder.Decode(&more); err != io.EOF {
		return nil, errors.New("it holds more than one document")
	}
	groups := make(map[string]override)
	err = parts.EachPair(document.Content[0], "a mapping of group names", func(name string, value *yaml.Node) error {
		if name == "" {
			return errors.New("a group without a name")
		}
		group, err := parseGroup(value)
		if err != nil {
			return fmt.Errorf("group %q: %w", name, err)
		}
		groups[name] = group
		return nil
	})
	if err != nil {
		return nil, err
	}
	return groups, nil
}

var settings = []string{"agent_version", "edition", "autoupdate", "jitter"}

func parseGroup(node *yaml.Node) (override, error) {
	var o override
	err := parts.EachPair(node, "a mapping of settings", func(name string, value *yaml.Node) error {
		if !slices.Contains(settings, name) {
			return fmt.Errorf("line %d: unknown field %q (there are %s)", value.Line, name, strings.Join(settings, ", "))
		}
		if value.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: %s is not a single value", value.Line, name)
		}
		if value.Tag == "!!null" {
			return fmt.Errorf("line %d: %s has no value", value.Line, name)
		}
		var err error
		switch name {
		case "agent_version":
			parsed := ""
			if value.Value != "" { // people write "" if hosts shall do nothing
				parsed, err = version.Parse(value.Value)
			}
			o.version = &parsed
		case "edition":
			var parsed version.Edition
			parsed, err = version.ParseEdition(value.Value)
			o.edition = &parsed
		case "autoupdate":
			var parsed bool
			if value.Decode(&parsed) != nil {
				err = fmt.Errorf("autoupdate %.40q is not true or false", value.Value)
			}
			o.autoUpdate = &parsed
		case "jitter":
			var parsed time.Duration
			parsed, err = ParseJitter(value.Value)
			o.jitter = &parsed
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", value.Line, err)
		}
		return nil
	})
	return o, err
}
