package channels

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"go.yaml.in/yaml/v3"

	"teleport-update/find/server/parts"
	"teleport-update/internal/version"
	"teleport-update/internal/webclient"
)

// CheckChannelName returns why a channel cannot have a name: it is a path below /v1/,
// and in a folder of files.
func CheckChannelName(name string) error {
	first, _, _ := strings.Cut(name, "/")
	switch {
	case name == "" || len(name) > 128:
		return fmt.Errorf("the name %.40q of a channel does not have 1 to 128 characters", name)
	case first == "webapi" || first == "agents":
		return fmt.Errorf("channel %q: names that begin with %s/ belong to other endpoints", name, first)
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || strings.Trim(part, parts.Letters+"._+~-") != "" || part[0] == '.':
			return fmt.Errorf("channel %.140q: the parts of a name may have letters, digits and . _ + ~ -, and must not begin with a dot", name)
		case part == "version" || part == "critical":
			return fmt.Errorf("channel %q: %q cannot be part of a name: addresses below a channel end in it", name, part)
		}
	}
	return nil
}

func (c *Channels) parse(data []byte) (map[string]channel, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 {
		return nil, errors.New("it is empty; write {} for the channel default alone")
	}
	channels := make(map[string]channel)
	err := parts.EachPair(document.Content[0], "a mapping of channel names", func(name string, value *yaml.Node) error {
		if err := CheckChannelName(name); err != nil {
			return fmt.Errorf("line %d: %w", value.Line, err)
		}
		one, err := c.parseChannel(value)
		if err != nil {
			return fmt.Errorf("channel %q: %w", name, err)
		}
		channels[name] = one
		return nil
	})
	return channels, err
}

func (c *Channels) parseChannel(node *yaml.Node) (one channel, err error) {
	var kinds []string
	err = parts.EachPair(node, "a mapping of settings", func(name string, value *yaml.Node) (err error) {
		if value.Kind != yaml.ScalarNode || value.Tag == "!!null" {
			return fmt.Errorf("line %d: %s is not a single value", value.Line, name)
		}
		switch name {
		case "version":
			one.version, err = version.Parse(value.Value)
		case "group":
			one.group = &value.Value
		case "forward":
			one.forward, err = c.forwardTo(value.Value)
		case "critical":
			if value.Decode(&one.critical) != nil {
				err = fmt.Errorf("critical %.40q is not true or false", value.Value)
			}
		default:
			err = fmt.Errorf("unknown field %q (the fields are version, critical, group, forward)", name)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", value.Line, err)
		}
		if name != "critical" {
			kinds = append(kinds, name)
		}
		return nil
	})
	switch {
	case err != nil:
	case len(kinds) != 1:
		err = fmt.Errorf("line %d: give one of version, group and forward", node.Line)
	case one.critical && one.version == "":
		err = fmt.Errorf("line %d: critical goes with version only: a group and a forwarded channel have their own", node.Line)
	}
	return one, err
}

func (c *Channels) forwardTo(text string) (*forward, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("forward: it is not a URL")
	}
	if err := webclient.CheckURL(u); err != nil {
		return nil, fmt.Errorf("forward: %w", err)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("forward: %s is the address of a channel, without a query: /version and /critical are appended to it",
			webclient.Redact(text))
	}
	text = strings.TrimSuffix(u.String(), "/")
	f := c.forwards[text]
	if f == nil {
		f = &forward{url: text, http: c.opts.HTTP, clock: c.opts.Clock, log: c.opts.Log}
		c.forwards[text] = f
	}
	return f, nil
}
