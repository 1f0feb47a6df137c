package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"teleport-update/internal/plaintext"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// document is policy.yaml. A pointer distinguishes a missing field from an empty one.
type document struct {
	Minimum    *string            `yaml:"minimum"`
	Withdrawn  []string           `yaml:"withdrawn"`
	Releases   map[string]digests `yaml:"releases"`
	Signatures *string            `yaml:"signatures"`
}

// digests are one SHA-256, or a list of them: each edition and architecture has its own.
type digests []string

func (d *digests) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*d = digests{n.Value}
		return nil
	}
	var list []string
	if err := n.Decode(&list); err != nil {
		return err
	}
	*d = list
	return nil
}

var (
	errEmpty  = errors.New("it is empty; a power cut or a full disk may have left it so")
	errNoRule = errors.New("it has no rule; write one, or remove the file")
)

// Parse reads the text of a policy. signatures is nil if the text has no such field; the Policy has no keys yet.
func Parse(data []byte) (p Policy, signatures *Mode, err error) {
	data = plaintext.UTF8(data)
	if len(bytes.Trim(data, " \t\r\n\x00")) == 0 {
		return Policy{}, nil, errEmpty
	}
	var d document
	in := yaml.NewDecoder(bytes.NewReader(data))
	in.KnownFields(true)
	err = in.Decode(&d)
	if errors.Is(err, io.EOF) {
		return Policy{}, nil, errNoRule // nothing but comments
	}
	if err != nil {
		return Policy{}, nil, plain(err)
	}
	if err := withoutValue(data); err != nil {
		return Policy{}, nil, err
	}
	if reflect.ValueOf(d).IsZero() {
		return Policy{}, nil, errNoRule
	}
	if err := in.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Policy{}, nil, errors.New("more than one document is in it")
	}
	if p.Minimum, err = optional("minimum", d.Minimum); err != nil {
		return Policy{}, nil, err
	}
	for _, text := range d.Withdrawn {
		v, err := version.Parse(text)
		if err != nil {
			return Policy{}, nil, fmt.Errorf("withdrawn: %w", err)
		}
		p.Withdrawn = append(p.Withdrawn, v)
	}
	if p.Releases, err = parseReleases(d.Releases); err != nil {
		return Policy{}, nil, err
	}
	signatures, err = parseMode(d.Signatures)
	return p, signatures, err
}

// withoutValue returns an error if anything in the file is null or an empty list: the decoder takes null for a missing field, and a
// template that was filled in with nothing may have written either.
func withoutValue(data []byte) error {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return plain(err)
	}
	if top := root.Content; len(top) == 1 && top[0].Kind == yaml.MappingNode && len(top[0].Content) == 0 {
		return errNoRule
	}
	if n := firstEmpty(&root); n != nil {
		return fmt.Errorf("line %d: a field has no value; write one, or remove the field", n.Line)
	}
	return nil
}

func firstEmpty(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return n
	}
	if (n.Kind == yaml.SequenceNode || n.Kind == yaml.MappingNode) && len(n.Content) == 0 {
		return n
	}
	for _, child := range n.Content {
		if found := firstEmpty(child); found != nil {
			return found
		}
	}
	return nil
}

func optional(field string, text *string) (string, error) {
	if text == nil {
		return "", nil
	}
	v, err := version.Parse(*text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	return v, nil
}

func parseReleases(listed map[string]digests) (map[string][]string, error) {
	if listed == nil {
		return nil, nil
	}
	releases := make(map[string][]string)
	for text, sums := range listed {
		v, err := version.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("releases: %w", err)
		}
		for _, sum := range sums {
			sum = strings.ToLower(sum)
			if !versions.IsDigest(sum) {
				return nil, fmt.Errorf("releases: %.80q, of version %s, is not a SHA-256 (64 hex digits)", sum, v)
			}
			releases[v] = append(releases[v], sum)
		}
	}
	return releases, nil
}

func parseMode(text *string) (*Mode, error) {
	if text == nil {
		return nil, nil
	}
	switch m := Mode(*text); m {
	case Require, Warn, Off:
		return &m, nil
	}
	return nil, fmt.Errorf("signatures: %.40q is none of %s, %s, %s", *text, Require, Warn, Off)
}

var parserTerms = regexp.MustCompile(`yaml: (unmarshal errors:\s*)?|\s*(in type|into) policy\.\w+|[!]{2}`)

// plain returns the error and its line, without the terms of the parser.
func plain(err error) error { return errors.New(parserTerms.ReplaceAllString(err.Error(), "")) }
