package rollout

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decode fills the struct that into points to. Every pair must belong to a field,
// named by its yaml tag, and every field may be there once and must have a value.
func decode(node *yaml.Node, into any) error {
	d := decoder{left: maxValues}
	d.inner(d.value(node, "", reflect.ValueOf(into).Elem()))
	return d.faults.err()
}

// DecodeJSON fills the struct that into points to from one JSON object, as strictly
// as resources are read, by its yaml tags. Text must be a string.
func DecodeJSON(data []byte, into any) error {
	nodes, err := jsonDocuments(data)
	if err != nil {
		return err
	}
	if len(nodes) != 1 {
		return errors.New("want one JSON object, and nothing after it")
	}
	d := decoder{left: maxValues, quoted: true}
	d.inner(d.value(nodes[0], "", reflect.ValueOf(into).Elem()))
	return d.faults.err()
}

// decoder bounds the expansion of a short text by aliases.
type decoder struct {
	left   int
	quoted bool // text must be
	faults faults
}

// inner notes a fault of a part, and lets the other parts be read.
func (d *decoder) inner(err error) { d.faults.add(err) }

// ended reports whether reading has stopped.
func (d *decoder) ended() bool { return d.left < 0 || d.faults.full() }

// maxValues is more than any text that a server takes holds without aliases.
const maxValues = 1 << 19

func (d *decoder) value(node *yaml.Node, path string, into reflect.Value) error {
	if d.left--; d.left < 0 {
		return at(node, path, "its YAML aliases expand to too much")
	}
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
		return at(node, path, "it has no value")
	}
	if text, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := d.single(node, path); err != nil {
			return err
		}
		if err := text.UnmarshalText([]byte(node.Value)); err != nil {
			return at(node, path, err.Error())
		}
		return nil
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return d.value(node, path, into.Elem())
	case reflect.Struct:
		return d.structure(node, path, into)
	case reflect.Slice:
		return d.list(node, path, into)
	case reflect.String:
		if err := d.single(node, path); err != nil {
			return err
		}
		into.SetString(node.Value)
		return nil
	case reflect.Map:
		return d.mapping(node, path, into)
	case reflect.Bool:
		if node.Kind != yaml.ScalarNode || node.Tag != "!!bool" || node.Value != "true" && node.Value != "false" {
			return at(node, path, "want true or false")
		}
		into.SetBool(node.Value == "true")
		return nil
	case reflect.Int, reflect.Int64:
		quoted := node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0
		n, err := strconv.ParseInt(node.Value, 10, 64)
		if node.Kind != yaml.ScalarNode || quoted || err != nil || !wholeNumber.MatchString(node.Value) {
			return at(node, path, "want a whole number")
		}
		into.SetInt(n)
		return nil
	}
	panic("a field of a kind that resources do not have: " + into.Type().String())
}

// single refuses nodes that are not a single value.
func (d *decoder) single(node *yaml.Node, path string) error {
	if node.Kind != yaml.ScalarNode {
		return at(node, path, "want a single value")
	}
	if d.quoted && node.Tag != "!!str" {
		return at(node, path, "want a string")
	}
	return nil
}

func (d *decoder) list(node *yaml.Node, path string, into reflect.Value) error {
	if node.Kind != yaml.SequenceNode {
		return at(node, path, "want a list")
	}
	if len(node.Content) > d.left {
		return at(node, path, "its YAML aliases expand to too much")
	}
	into.Set(reflect.MakeSlice(into.Type(), len(node.Content), len(node.Content)))
	for i, item := range node.Content {
		if d.ended() {
			break
		}
		d.inner(d.value(item, fmt.Sprintf("%s[%d]", path, i), into.Index(i)))
	}
	return nil
}

// wholeNumber excludes numbers that YAML or people may read as octal.
var wholeNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

func (d *decoder) structure(node *yaml.Node, path string, into reflect.Value) error {
	if node.Kind != yaml.MappingNode {
		return at(node, path, "want a mapping")
	}
	var names []string
	for i := range into.NumField() {
		name, _, _ := strings.Cut(into.Type().Field(i).Tag.Get("yaml"), ",")
		names = append(names, name)
	}
	seen := make(map[string]bool)
	for i := 0; i < len(node.Content) && !d.ended(); i += 2 {
		key := node.Content[i]
		if key.Kind != yaml.ScalarNode {
			return at(key, path, "want names of fields")
		}
		inner := strings.TrimPrefix(path+"."+excerpt(key.Value), ".")
		field := slices.Index(names, key.Value)
		switch {
		case field < 0:
			d.inner(at(key, inner, "unknown field (there are "+strings.Join(names, ", ")+")"))
			continue
		case seen[key.Value]:
			d.inner(at(key, inner, "it appears twice"))
			continue
		}
		seen[key.Value] = true
		d.inner(d.value(node.Content[i+1], inner, into.Field(field)))
	}
	return nil
}

// mapping takes any text as a name, such as the name of a group.
func (d *decoder) mapping(node *yaml.Node, path string, into reflect.Value) error {
	if node.Kind != yaml.MappingNode {
		return at(node, path, "want a mapping")
	}
	into.Set(reflect.MakeMapWithSize(into.Type(), len(node.Content)/2))
	for i := 0; i < len(node.Content); i += 2 {
		key := node.Content[i]
		inner := path + "." + excerpt(key.Value)
		name := reflect.ValueOf(key.Value).Convert(into.Type().Key())
		if key.Kind != yaml.ScalarNode {
			return at(key, path, "want names")
		}
		if into.MapIndex(name).IsValid() {
			return at(key, inner, "it appears twice")
		}
		value := reflect.New(into.Type().Elem()).Elem()
		if err := d.value(node.Content[i+1], inner, value); err != nil {
			return err
		}
		into.SetMapIndex(name, value)
	}
	return nil
}

func kindOf(node *yaml.Node) (string, error) {
	if node.Kind == yaml.MappingNode {
		for i := 0; i < len(node.Content); i += 2 {
			if node.Content[i].Value == "kind" {
				return node.Content[i+1].Value, nil
			}
		}
	}
	return "", at(node, "kind", "it is missing")
}

// at returns an error with its position in the text and in the resource.
func at(node *yaml.Node, path, problem string) error {
	where := path
	if where == "" {
		where = "the resource"
	}
	if node.Line > 0 { // JSON has none
		where = fmt.Sprintf("line %d: %s", node.Line, where)
	}
	return errors.New(where + ": " + problem)
}

func jsonDocuments(data []byte) (nodes []*yaml.Node, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	for {
		node, err := jsonNode(decoder, 0)
		if err == io.EOF {
			return nodes, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read JSON near byte %d: %w", decoder.InputOffset(), err)
		}
		nodes = append(nodes, node)
	}
}

// maxDepth is far deeper than any resource.
const maxDepth = 50

// jsonNode reads one value. encoding/json would take the last of two fields with
// one name, and names in any case.
func jsonNode(decoder *json.Decoder, depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, errors.New("it is nested too deeply")
	}
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch value := token.(type) {
	case json.Delim:
		node := &yaml.Node{Kind: yaml.SequenceNode}
		if value == '{' {
			node.Kind = yaml.MappingNode
		}
		for decoder.More() {
			item, err := jsonNode(decoder, depth+1)
			if err != nil {
				return nil, unexpected(err)
			}
			node.Content = append(node.Content, item)
		}
		_, err := decoder.Token()
		return node, unexpected(err)
	case string:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: value}, nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: value.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(value)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}, nil
}

// unexpected returns io.ErrUnexpectedEOF if the text ends inside a value. From Go 1.27 on, some such errors are syntax
// errors.
func unexpected(err error) error {
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	if err == io.EOF || ok && syntax.Error() == "unexpected end of JSON input" {
		return io.ErrUnexpectedEOF
	}
	return err
}
