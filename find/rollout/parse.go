package rollout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Parse reads resources in YAML, several of them as several documents, or in JSON. All
// returned resources have passed their Check.
func Parse(data []byte) ([]Resource, error) {
	nodes, err := documents(data)
	if err != nil {
		return nil, err
	}
	var list []Resource
	nodes = flat(nodes)
	if len(nodes) == 0 {
		return nil, errors.New("there is no resource in it")
	}
	var found faults
	for i, node := range nodes {
		r, err := parse(node)
		if err != nil && len(nodes) > 1 {
			err = inDocument(i+1, err)
		}
		found.add(err)
		if found.full() {
			break
		}
		list = append(list, r)
	}
	if len(found) > 0 {
		return nil, found.err()
	}
	return list, nil
}

// ParseWritten is Parse for a text of people. A kind that the server writes is refused first, whatever its fields are.
func ParseWritten(data []byte) ([]Resource, error) {
	nodes, err := documents(data)
	if err != nil {
		return nil, err
	}
	for _, node := range flat(nodes) {
		if kind, err := kindOf(node); err == nil && slices.Contains([]string{KindRollout, KindReport, KindPlan}, kind) {
			return nil, WrittenByServer(kind)
		}
	}
	return Parse(data)
}

// WrittenByServer is the error of a resource of a kind that people do not write.
func WrittenByServer(kind string) error {
	return fmt.Errorf("%s is written by the server only; people write %s", kind, strings.Join(Kinds, ", "))
}

// inDocument adds to each fault the number of its document.
func inDocument(number int, err error) error {
	var of, found faults
	of.add(err)
	for _, one := range of {
		found.add(fmt.Errorf("document %d: %w", number, one))
	}
	return found.err()
}

// JSON writes a resource as it is stored and sent.
func JSON(r Resource) ([]byte, error) { return json.Marshal(r) }

// YAML writes a resource as people edit it.
func YAML(r Resource) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(r); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

func parse(node *yaml.Node) (Resource, error) {
	kind, err := kindOf(node)
	if err != nil {
		return nil, err
	}
	plain(node)
	var r Resource
	switch kind {
	case KindConfig, kindRFDConfig:
		return parseConfig(node)
	case KindVersion:
		return parseVersion(node)
	case KindNotify:
		r = new(Notify)
	case KindRollout:
		r = new(Rollout)
	case KindReport:
		r = new(AgentReport)
	case KindPlan:
		r = new(PlanResource)
	default:
		return nil, fmt.Errorf("kind: %.60q is not one of %s", kind, strings.Join(Kinds, ", "))
	}
	if err := decode(node, r); err != nil {
		return nil, err
	}
	return r, r.Check()
}

// documents reads YAML or, if the first character says so, JSON: not all JSON is taken
// by a reader of YAML.
func documents(data []byte) (nodes []*yaml.Node, err error) {
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		return jsonDocuments(data)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		// An empty document between two separators is no resource.
		if content := document.Content; len(content) == 1 && content[0].Tag != "!!null" {
			nodes = append(nodes, content[0])
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("there is no resource in it")
	}
	return nodes, nil
}
