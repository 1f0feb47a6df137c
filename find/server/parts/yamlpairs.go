package parts

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// EachPair calls f for each pair of a mapping. Names must be different.
func EachPair(node *yaml.Node, what string, f func(name string, value *yaml.Node) error) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: want %s", node.Line, what)
	}
	seen := make(map[string]bool)
	for i := 0; i < len(node.Content); i += 2 {
		name := node.Content[i]
		switch {
		case name.Kind != yaml.ScalarNode:
			return fmt.Errorf("line %d: want a name", name.Line)
		case seen[name.Value]:
			return fmt.Errorf("line %d: %q appears twice", name.Line, name.Value)
		}
		seen[name.Value] = true
		if err := f(name.Value, resolve(node.Content[i+1])); err != nil {
			return err
		}
	}
	return nil
}

func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}
