package inventory

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// newerFields are the fields in a host's item that this version does not know. They are written again with the item:
// servers of several versions share a store during an upgrade, and an older server must not lose data of a newer one.
type newerFields map[string]json.RawMessage

// parseHost reads an item. A usual item, without such fields, is parsed once.
func parseHost(value []byte) (h hostItem, newer newerFields, err error) {
	strict := json.NewDecoder(bytes.NewReader(value))
	strict.DisallowUnknownFields()
	if strict.Decode(&h) == nil && !strict.More() {
		return h, nil, nil
	}
	h = hostItem{}
	if err = json.Unmarshal(value, &h); err != nil {
		return h, nil, err
	}
	var all map[string]json.RawMessage
	if err = json.Unmarshal(value, &all); err != nil {
		return h, nil, err
	}
	for name, field := range all {
		if !knownFields[name] {
			if newer == nil {
				newer = make(newerFields)
			}
			newer[name] = field
		}
	}
	return h, newer, nil
}

// knownFields are the names of fields in a hostItem.
var knownFields = func() map[string]bool {
	known := make(map[string]bool)
	item := reflect.TypeFor[hostItem]()
	for i := range item.NumField() {
		name, _, _ := strings.Cut(item.Field(i).Tag.Get("json"), ",")
		known[name] = true
	}
	return known
}()

// into returns an item with these fields added.
func (n newerFields) into(value []byte) []byte {
	if len(n) == 0 {
		return value
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(value, &all) != nil {
		return value // cannot happen: it was just encoded
	}
	for name, field := range n {
		all[name] = field
	}
	with, err := json.Marshal(all)
	if err != nil {
		return value
	}
	return with
}
