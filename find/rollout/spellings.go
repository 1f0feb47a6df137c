package rollout

import (
	"strconv"

	"go.yaml.in/yaml/v3"
)

// The output of "tctl get" and examples from the documents of Managed Updates are valid
// input: lists of resources, metadata.id and expires without a meaning here, another
// server's revision, and no metadata if there is only one such resource.

// flat takes resources out of lists.
func flat(nodes []*yaml.Node) (list []*yaml.Node) {
	for _, node := range nodes {
		if node.Kind == yaml.SequenceNode {
			list = append(list, flat(node.Content)...)
			continue
		}
		list = append(list, node)
	}
	return list
}

// field returns the value of a field of a mapping, or nil.
func field(node *yaml.Node, name string) *yaml.Node {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

// plain removes the fields of the metadata that come from another server.
func plain(node *yaml.Node) {
	metadata := field(node, "metadata")
	if metadata == nil || metadata.Kind != yaml.MappingNode {
		return
	}
	var kept []*yaml.Node
	for i := 0; i+1 < len(metadata.Content); i += 2 {
		key, value := metadata.Content[i], metadata.Content[i+1]
		if !foreign(key.Value, value) {
			kept = append(kept, key, value)
		}
	}
	metadata.Content = kept
}

func foreign(name string, value *yaml.Node) bool {
	switch name {
	case "id":
		return value.Kind == yaml.ScalarNode
	case "expires":
		return value.Tag == "!!null"
	case "revision":
		_, err := strconv.ParseInt(value.Value, 10, 64)
		_, isUUID := ParseUUID(value.Value)
		return err != nil && isUUID
	}
	return false
}
